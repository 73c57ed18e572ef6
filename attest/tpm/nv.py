"""Handles in use, and certificates in non-volatile indices. Works on an open ESAPI context."""

from __future__ import annotations

from typing import Any, Final

from tpm2_pytss.constants import ESYS_TR, TPM2_CAP, TPMA_NV

from attest.tpm.errors import TpmError

_READ_BYTES: Final = 512  # every TPM's NV buffer is at least this large
NV_FIRST: Final = 0x01000000
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
    return index in handles(esapi, NV_FIRST)


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
