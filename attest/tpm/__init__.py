"""The TPM: find or simulate one, make keys, quote, extend, count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.structures import Ak, Ek, Quote
from attest.tpm.choice import TpmChoice, find_tcti
from attest.tpm.errors import TpmDeadline, TpmError, TpmLost, TpmMissing
from attest.tpm.swtpm import Swtpm

if TYPE_CHECKING:
    from attest.tpm.device import ClockInfo, TpmDevice

__all__ = [
    "Ak",
    "ClockInfo",
    "Ek",
    "Quote",
    "Swtpm",
    "TpmChoice",
    "TpmDeadline",
    "TpmDevice",
    "TpmError",
    "TpmLost",
    "TpmMissing",
    "find_tcti",
]


def __getattr__(name: str) -> object:
    """Load the part that needs tpm2-pytss only when it is used: the launcher and the verifier work without."""
    if name not in ("TpmDevice", "ClockInfo"):
        raise AttributeError(name)
    try:
        from attest.tpm import device
    except ImportError as error:
        raise TpmMissing(
            "tpm-library",
            found=f"no tpm2-pytss ({error})",
            expected="the extra 'tpm'",
            hint="apt-get install libtss2-dev, then pip install 'sitsedge[tpm]'",
        ) from error
    return getattr(device, name)
