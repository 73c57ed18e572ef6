"""NV counters: numbers that only go up, whoever holds the disk or the owner password (Part 1 §37.2.4).

Each purpose has an index of its own. An index that is taken by something else is never touched: that is an error
with a name. A counter removed and made again starts above every counter this TPM ever had. A simulated TPM's counter
lives on the same disk as everything else and rolls back with it: it cannot vouch against its own disk.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_NT, TPMA_NV
from tpm2_pytss.types import TPM2B_NV_PUBLIC, TPMS_NV_PUBLIC

from attest.tpm import nv
from attest.tpm.connection import Connection
from attest.tpm.errors import TpmError

COUNTER_BYTES: Final = 8
MAX_ADVANCE: Final = 1024  # one NV write each, some 10 ms on hardware; a larger step is a mistake, and wears the TPM
_ATTRIBUTES: Final = (
    int(TPMA_NV.OWNERWRITE | TPMA_NV.OWNERREAD | TPMA_NV.AUTHREAD | TPMA_NV.NO_DA)
    | int(TPM2_NT.COUNTER) << TPMA_NV.TPM2_NT_SHIFT
)


class Counter(enum.IntEnum):
    """Indices in the owner's range 0x01800000..0x01bfffff (TCG Registry of Reserved TPM 2.0 Handles)."""

    DEPLOYMENT = 0x01815175
    LEDGER = 0x01815176
    APPROVALS = 0x01815177


class NvCounter:
    """One counter of a TPM. All calls raise ``TpmError`` (``tpm-counter``, ``tpm-counter-collision``) and its kin.

    A call whose answer was lost may have counted: read again. Counting once too often refuses nothing that is new.
    """

    def __init__(self, connection: Connection, index: int) -> None:
        self._connection = connection
        self.index = index

    def create(self) -> int:
        """Make it unless it is there, and return its value."""
        with self._connection.call() as esapi:
            return create(esapi, self.index)

    def value(self) -> int:
        """Its value; ``tpm-counter`` where it was never made."""
        with self._connection.call() as esapi:
            return read(esapi, self.index)

    def increment(self) -> int:
        """One up; returns the new value."""
        with self._connection.call() as esapi:
            handle = _counter(esapi, self.index)[0]
            esapi.nv_increment(handle, auth_handle=ESYS_TR.OWNER)
            return read(esapi, self.index)

    def advance_to(self, target: int) -> int:
        """Up to ``target``, at most ``MAX_ADVANCE`` steps. ``tpm-counter-rollback`` where it is past that already."""
        with self._connection.call() as esapi:
            handle = _counter(esapi, self.index)[0]
            value = read(esapi, self.index)
            if target < value:
                raise TpmError("tpm-counter-rollback", found=f"a step to {target}", expected=f"{value} or more")
            if target - value > MAX_ADVANCE:
                raise TpmError(
                    "tpm-counter-step", found=f"a step of {target - value}", expected=f"at most {MAX_ADVANCE}"
                )
            for _ in range(target - value):
                esapi.nv_increment(handle, auth_handle=ESYS_TR.OWNER)
            return read(esapi, self.index)

    def require(self, at_least: int) -> int:
        """Its value if it is not below one remembered elsewhere; else ``tpm-counter-rollback``."""
        value = self.value()
        if value < at_least:
            raise TpmError(
                "tpm-counter-rollback",
                found=f"{value} at NV index 0x{self.index:08x}",
                expected=f"{at_least} or more",
                hint="another TPM, or the state of a simulated one was put back",
            )
        return value


def create(esapi: Any, index: int) -> int:
    """Define the counter unless it is there, and make it readable by a first increment."""
    if not nv.exists(esapi, index):
        public = TPMS_NV_PUBLIC(nvIndex=index, nameAlg=TPM2_ALG.SHA256, attributes=_ATTRIBUTES, dataSize=COUNTER_BYTES)
        esapi.nv_define_space(None, TPM2B_NV_PUBLIC(nvPublic=public), auth_handle=ESYS_TR.OWNER)
    handle, written, _ = _counter(esapi, index)
    if not written:
        esapi.nv_increment(handle, auth_handle=ESYS_TR.OWNER)
    return read(esapi, index)


def read(esapi: Any, index: int) -> int:
    """The counter's value."""
    handle, written, _ = _counter(esapi, index)
    if not written:
        raise _absent(index, "never counted")
    return int.from_bytes(bytes(esapi.nv_read(handle, COUNTER_BYTES, 0, auth_handle=handle)), "big")


def handle_and_name(esapi: Any, index: int) -> tuple[Any, bytes]:
    """For a policy: the counter's ``ESYS_TR`` and its name, which holds its index and attributes (Part 1 §16)."""
    handle, _, name = _counter(esapi, index)
    return handle, name


def _counter(esapi: Any, index: int) -> tuple[Any, bool, bytes]:
    if not nv.exists(esapi, index):
        raise _absent(index, "no NV index")
    handle = esapi.tr_from_tpmpublic(index)
    public, name = esapi.nv_read_public(handle)
    area = public.nvPublic
    attributes, written = int(area.attributes), int(TPMA_NV.WRITTEN)
    if attributes & ~written != _ATTRIBUTES or int(area.dataSize) != COUNTER_BYTES or bytes(area.authPolicy):
        raise TpmError(
            "tpm-counter-collision",
            found=f"NV index 0x{index:08x} with attributes 0x{attributes:08x} and {int(area.dataSize)} bytes",
            expected=f"a counter of ours (0x{_ATTRIBUTES:08x}, {COUNTER_BYTES} bytes)",
            hint="another program uses this index; it was left alone",
        )
    return handle, bool(attributes & written), bytes(name)


def _absent(index: int, found: str) -> TpmError:
    hint = "create the counter first"
    return TpmError("tpm-counter", found=f"{found} 0x{index:08x}", expected="a counter", hint=hint)
