"""Non-volatile indices: certificates that are read, counters that are kept. Works on an open ESAPI context."""

from __future__ import annotations

from typing import Any, Final

from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_CAP, TPM2_NT, TPMA_NV
from tpm2_pytss.types import TPM2B_NV_PUBLIC, TPMS_NV_PUBLIC

from attest.tpm.errors import TpmError

COUNTER_INDEX: Final = 0x01815175  # owner range 0x01800000..0x01bfffff (TCG Registry of Reserved TPM 2.0 Handles)
_COUNTER_BYTES: Final = 8
_READ_BYTES: Final = 512  # every TPM's NV buffer is at least this large
_MAX_HANDLES: Final = 254
_MAX_CERTIFICATES: Final = 8


def handles(esapi: Any, first: int) -> tuple[int, ...]:
    """All handles of the type of ``first``, ascending."""
    found: list[int] = []
    start = int(first)
    more = True
    while more and len(found) < _MAX_HANDLES:
        more, data = esapi.get_capability(TPM2_CAP.HANDLES, start, _MAX_HANDLES)
        batch = [int(handle) for handle in data.data.handles]
        if not batch:
            break
        found += batch
        start = batch[-1] + 1
    return tuple(found)


def exists(esapi: Any, index: int) -> bool:
    """Whether an NV index is defined."""
    return index in handles(esapi, 0x01000000)


def read(esapi: Any, index: int) -> bytes | None:
    """The whole content of an index that may be read with its own empty password, or None where absent."""
    if not exists(esapi, index):
        return None
    handle = esapi.tr_from_tpmpublic(index)
    public, _ = esapi.nv_read_public(handle)
    size = int(public.nvPublic.dataSize)
    reader = handle if int(public.nvPublic.attributes) & int(TPMA_NV.AUTHREAD) else ESYS_TR.OWNER
    content = b""
    while len(content) < size:
        length = min(_READ_BYTES, size - len(content))
        content += bytes(esapi.nv_read(handle, length, len(content), auth_handle=reader))
    return content


def split_der(*areas: bytes) -> tuple[bytes, ...]:
    """The DER certificates in NV areas, one after another; padding after the last is dropped."""
    found: list[bytes] = []
    for area in areas:
        rest = area
        while len(rest) > 4 and rest[:2] == b"\x30\x82" and len(found) < _MAX_CERTIFICATES:
            size = 4 + int.from_bytes(rest[2:4], "big")
            if size > len(rest):
                raise TpmError(
                    "tpm-certificate", found=f"{len(rest)} bytes of a certificate of {size}", expected="all of it"
                )
            found.append(rest[:size])
            rest = rest[size:]
    return tuple(found)


def counter_create(esapi: Any, index: int) -> int:
    """Define the counter unless it is there and make it readable by a first increment."""
    if not exists(esapi, index):
        attributes = TPMA_NV.OWNERWRITE | TPMA_NV.OWNERREAD | TPMA_NV.AUTHREAD | TPMA_NV.NO_DA
        public = TPMS_NV_PUBLIC(
            nvIndex=index,
            nameAlg=TPM2_ALG.SHA256,
            attributes=attributes | (int(TPM2_NT.COUNTER) << TPMA_NV.TPM2_NT_SHIFT),
            dataSize=_COUNTER_BYTES,
        )
        esapi.nv_define_space(None, TPM2B_NV_PUBLIC(nvPublic=public), auth_handle=ESYS_TR.OWNER)
    handle, attributes = _counter(esapi, index)
    if not attributes & int(TPMA_NV.WRITTEN):
        esapi.nv_increment(handle, auth_handle=ESYS_TR.OWNER)
    return counter_read(esapi, index)


def counter_increment(esapi: Any, index: int) -> int:
    """Increment and read back."""
    handle, _ = _counter(esapi, index)
    esapi.nv_increment(handle, auth_handle=ESYS_TR.OWNER)
    return counter_read(esapi, index)


def counter_read(esapi: Any, index: int) -> int:
    """The counter's value."""
    handle, _ = _counter(esapi, index)
    return int.from_bytes(bytes(esapi.nv_read(handle, _COUNTER_BYTES, 0, auth_handle=handle)), "big")


def _counter(esapi: Any, index: int) -> tuple[Any, int]:
    if not exists(esapi, index):
        raise TpmError(
            "tpm-counter", found=f"no NV index 0x{index:08x}", expected="a counter", hint="create the counter first"
        )
    handle = esapi.tr_from_tpmpublic(index)
    public, _ = esapi.nv_read_public(handle)
    attributes = int(public.nvPublic.attributes)
    if attributes >> int(TPMA_NV.TPM2_NT_SHIFT) & 0xF != int(TPM2_NT.COUNTER):
        raise TpmError(
            "tpm-counter",
            found=f"another kind of index at 0x{index:08x}",
            expected="a counter",
            hint="choose another index",
        )
    return handle, attributes
