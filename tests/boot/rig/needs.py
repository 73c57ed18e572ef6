"""What the rig needs of the host: programs and firmware, each with the Debian package that brings it.

Nothing is installed: ``missing`` names what to install, and the tests skip with that text.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture of the rig: names of the same thing in Debian, GNU, PyPI and QEMU."""

    debian: str
    triplet: str
    machine: str
    qemu: str
    compiler: str
    objcopy: str
    efi: str
    firmware: Path
    firmware_vars: Path
    formatted_vars: Path

    def __str__(self) -> str:
        return self.machine


X86_64: Final = Arch(
    debian="amd64",
    triplet="x86_64-linux-gnu",
    machine="x86_64",
    qemu="qemu-system-x86_64",
    compiler="gcc",
    objcopy="objcopy",
    efi="x64",
    firmware=Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"),
    firmware_vars=Path("/usr/share/OVMF/OVMF_VARS_4M.fd"),
    formatted_vars=Path("/usr/share/OVMF/OVMF_VARS_4M.fd"),
)
AARCH64: Final = Arch(
    debian="arm64",
    triplet="aarch64-linux-gnu",
    machine="aarch64",
    qemu="qemu-system-aarch64",
    compiler="aarch64-linux-gnu-gcc",
    objcopy="aarch64-linux-gnu-objcopy",
    efi="aa64",
    firmware=Path("/usr/share/AAVMF/AAVMF_CODE.fd"),
    firmware_vars=Path("/usr/share/AAVMF/AAVMF_VARS.fd"),
    formatted_vars=Path("/usr/share/AAVMF/AAVMF_VARS.ms.fd"),  # the other is blank until the firmware has run once
)

_COMMON: Final = {
    "swtpm": "swtpm",
    "swtpm_setup": "swtpm-tools",
    "tpm2_checkquote": "tpm2-tools",
    "tpm2_eventlog": "tpm2-tools",
    "apt-get": "apt",
    "dpkg": "dpkg",
    "readelf": "binutils",
    "sbsign": "sbsigntool",
    "mformat": "mtools",
    "mcopy": "mtools",
}
_BY_ARCH: Final = {
    X86_64: {
        "qemu-system-x86_64": "qemu-system-x86",
        "gcc": "gcc",
        "objcopy": "binutils",
        str(X86_64.firmware): "ovmf",
    },
    AARCH64: {
        "qemu-system-aarch64": "qemu-system-arm",
        "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
        "aarch64-linux-gnu-objcopy": "binutils-aarch64-linux-gnu",
        str(AARCH64.firmware): "qemu-efi-aarch64",
    },
}


def missing(arch: Arch) -> str:
    """The apt-get line that installs what is not there, or nothing."""
    needs = {**_COMMON, **_BY_ARCH[arch]}
    packages = sorted({package for name, package in needs.items() if not _present(name)})
    return f"apt-get install {' '.join(packages)}" if packages else ""


def _present(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else shutil.which(name) is not None
