"""Response codes of a TPM as typed errors (TPM 2.0 Library Part 2 §6.6.3)."""

from __future__ import annotations

from typing import Final

from attest.tpm.errors import TpmBusy, TpmError, TpmFailed, TpmFull, TpmLockout, TpmLost

LAYER_MASK: Final = 0x00FF0000  # non-zero: not from the TPM, but from the software between
RC_VALUE: Final = 0x084
RC_POLICY: Final = 0x126
RC_PCR_CHANGED: Final = 0x128
RC_POLICY_FAIL: Final = 0x09D
RC_SIGNATURE: Final = 0x09B
RC_INTEGRITY: Final = 0x09F
RC_BINDING: Final = 0x0A5
_FORMAT_ONE: Final = 0x080
_FORMAT_ONE_CODE: Final = 0x0BF  # without the number of the handle, session or parameter
_NOT_STARTED: Final = 0x100
_FAILURE: Final = 0x101
_NV_SPACE: Final = 0x14B
_LOCKOUT: Final = 0x921
_BUSY: Final = frozenset({0x908, 0x909, 0x90A, 0x920, 0x922, 0x923})  # yielded … NV unavailable: later may work
_FULL: Final = frozenset({0x902, 0x903, 0x904, 0x905, 0x906, _NV_SPACE})
_AUTH_FAIL: Final = 0x08E
_BAD_AUTH: Final = 0x0A2


def base_code(rc: int) -> int:
    """The code without the number of the handle, session or parameter it complains about."""
    return rc & _FORMAT_ONE_CODE if rc & _FORMAT_ONE and not rc & LAYER_MASK else rc


def error_of(rc: int, text: str) -> TpmError:
    """The typed error of a response code."""
    found = f"0x{rc:x} {text}"
    if rc & LAYER_MASK:
        hint = "the next call opens a fresh connection"
        return TpmLost("tpm-lost", found=found, expected="a usable context", hint=hint)
    if rc in _BUSY:
        return TpmBusy("tpm-busy", found=found, expected="an answer", hint="the TPM is busy: try again later")
    if rc in _FULL:
        hint = "remove what nobody needs: tpm2_getcap handles-transient, handles-loaded-session, handles-persistent"
        return TpmFull("tpm-full", found=found, expected="room in the TPM", hint=hint)
    if rc == _LOCKOUT:
        hint = "wait for the recovery time, or reset it with the lockout password (tpm2_dictionarylockout)"
        return TpmLockout("tpm-lockout", found=found, expected="no dictionary-attack lockout", hint=hint)
    if rc in (_FAILURE, _NOT_STARTED):
        hint = "if the next call says so again, restart the TPM (a simulated one: is its disk full?)"
        return TpmFailed("tpm-failure", found=found, expected="a TPM in working order", hint=hint)
    hint = ""
    if base_code(rc) in (_AUTH_FAIL, _BAD_AUTH):
        hint = "a hierarchy password is set: give the owner and endorsement passwords"
    return TpmError("tpm-refused", found=found, expected="success", hint=hint)
