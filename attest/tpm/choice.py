"""Which TPM to use: the machine's own first, a simulated one only where the deployment allows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from attest.tpm.errors import TpmMissing
from attest.tpm.swtpm import SOCKET_NAME

TpmKind = Literal["hardware", "swtpm"]
HARDWARE_DEVICE: Final = Path("/dev/tpmrm0")  # the kernel's resource manager: no handle leaks between programs


@dataclass(frozen=True, slots=True)
class TpmChoice:
    """A TCTI text for ``TpmDevice`` and what stands behind it."""

    tcti: str
    kind: TpmKind


def find_tcti(wish: str, *, allow_simulated: bool, state_dir: Path, hardware: Path = HARDWARE_DEVICE) -> TpmChoice:
    """Resolve ``auto``, ``hardware``, ``swtpm``, ``device:FILE`` or ``swtpm:path=FILE`` to one TPM.

    ``auto`` never passes over a hardware TPM that exists but cannot be opened: that would be a silent downgrade.
    ``state_dir`` is where ``Swtpm`` keeps the simulated one. Raises ``TpmMissing``.
    """
    if wish.startswith("device:"):
        return _hardware(Path(wish.removeprefix("device:")))
    if wish == "hardware" or (wish == "auto" and hardware.exists()):
        return _hardware(hardware)
    if wish not in ("auto", "swtpm") and not wish.startswith("swtpm:path="):
        raise TpmMissing("tpm-tcti", found=repr(wish), expected="auto, hardware, swtpm, device:FILE or swtpm:path=FILE")
    if not allow_simulated:
        raise TpmMissing(
            "tpm-not-allowed" if wish != "auto" else "tpm-none",
            found=f"no {hardware}" if wish == "auto" else "a simulated TPM",
            expected="a hardware TPM",
            hint="enable the TPM in the firmware; a development profile may allow a simulated one",
        )
    tcti = wish if wish.startswith("swtpm:path=") else f"swtpm:path={state_dir / SOCKET_NAME}"
    return TpmChoice(tcti, "swtpm")


def _hardware(device: Path) -> TpmChoice:
    if not device.exists():
        raise TpmMissing(
            "tpm-none",
            found=f"no {device}",
            expected="a hardware TPM",
            hint="enable the TPM in the firmware and load its driver",
        )
    if not os.access(device, os.R_OK | os.W_OK):
        raise TpmMissing(
            "tpm-permission",
            found=f"no permission on {device}",
            expected="read and write",
            hint="add this user to the group tss",
        )
    return TpmChoice(f"device:{device}", "hardware")
