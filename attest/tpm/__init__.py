"""The TPM: find or simulate one, make keys, quote, extend, count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.structures import Ak, Ek, Quote
from attest.tpm.choice import TpmChoice, find_tcti
from attest.tpm.errors import (
    SealError,
    TpmBusy,
    TpmDeadline,
    TpmError,
    TpmFailed,
    TpmFull,
    TpmLockout,
    TpmLost,
    TpmMissing,
)
from attest.tpm.swtpm import Swtpm

if TYPE_CHECKING:
    from attest.tpm.device import ClockInfo, TpmDevice
    from attest.tpm.sealing import Sealing

__all__ = [
    "Ak",
    "ClockInfo",
    "Ek",
    "Quote",
    "SealError",
    "Sealing",
    "Swtpm",
    "TpmBusy",
    "TpmChoice",
    "TpmDeadline",
    "TpmDevice",
    "TpmError",
    "TpmFailed",
    "TpmFull",
    "TpmLockout",
    "TpmLost",
    "TpmMissing",
    "find_tcti",
]


def __getattr__(name: str) -> object:
    """Load the part that needs tpm2-pytss only when it is used: the launcher and the verifier work without."""
    if name not in ("TpmDevice", "ClockInfo", "Sealing"):
        raise AttributeError(name)
    try:
        from attest.tpm import device, sealing
    except ImportError as error:
        raise TpmMissing(
            "tpm-library",
            found=f"no tpm2-pytss ({error})",
            expected="the extra 'tpm'",
            hint="apt-get install libtss2-dev, then pip install 'sitsedge[tpm]'",
        ) from error
    return getattr(sealing if name == "Sealing" else device, name)
