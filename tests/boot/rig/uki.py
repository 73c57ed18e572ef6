"""Unified kernel images: build with objcopy from systemd's stub, sign with sbsign, put on an ESP with mtools."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.boot.rig.image import pad
from tests.boot.rig.needs import Arch
from tests.boot.rig.packages import Packages, run

OS_RELEASE: Final = b'ID=sits\nNAME="SITS boot rig"\nVERSION_ID=1\n'
# Virtual addresses behind the stub's own sections and apart from one another (ukify's layout before it computed one).
_ADDRESSES: Final = {
    ".osrel": 0x20000,
    ".cmdline": 0x30000,
    ".pcrpkey": 0x40000,
    ".pcrsig": 0x50000,
    ".linux": 0x2000000,
    ".initrd": 0x4000000,
}
#: The stub hands these on without looking into them.
EXTRAS: Final = {".pcrpkey": b"public key of a signed PCR policy\n", ".pcrsig": b'{"sha256": []}'}
_CERTIFICATE_ALIGNMENT: Final = 8  # sbsign would pad the file, which changes what is hashed
_ESP_MIB: Final = 64


def build(
    packages: Packages,
    *,
    kernel: bytes,
    initrd: bytes,
    cmdline: str,
    folder: Path,
    extras: Mapping[str, bytes],
) -> bytes:
    """An unsigned UKI. ``extras``: further sections by name."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {".osrel": OS_RELEASE, ".cmdline": cmdline.encode(), **extras, ".linux": kernel, ".initrd": initrd}
    command: list[str | Path] = [packages.arch.objcopy]
    for name, data in contents.items():
        source = folder / f"section{name}"
        source.write_bytes(data)
        command += ["--add-section", f"{name}={source}", "--change-section-vma", f"{name}={_ADDRESSES[name]:#x}"]
    target = folder / "uki.efi"
    run([*command, packages.stub(), target])
    return pad(_timeless(target.read_bytes()), _CERTIFICATE_ALIGNMENT)


def _timeless(image: bytes) -> bytes:
    """Without the time at which objcopy ran (COFF file header) and the checksum over it."""
    data = bytearray(image)
    (start,) = struct.unpack_from("<I", data, 0x3C)
    data[start + 8 : start + 12] = bytes(4)
    data[start + 24 + 64 : start + 24 + 68] = bytes(4)
    return bytes(data)


def sign(image: bytes, *, key: Path, certificate: Path, folder: Path) -> bytes:
    """The image with an Authenticode signature by ``key``."""
    folder.mkdir(parents=True, exist_ok=True)
    plain, signed = folder / "plain.efi", folder / "signed.efi"
    plain.write_bytes(image)
    run(["sbsign", "--key", key, "--cert", certificate, "--output", signed, plain])
    return signed.read_bytes()


def esp(image: bytes, *, arch: Arch, folder: Path) -> bytes:
    """A FAT disk whose removable-media path holds ``image``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"BOOT{arch.efi.upper()}.EFI"
    program, disk = folder / name, folder / "esp.img"
    program.write_bytes(image)
    with disk.open("wb") as file:
        file.truncate(_ESP_MIB << 20)
    run(["mformat", "-i", disk, "-F", "-N", "51753175", "::"])
    run(["mmd", "-i", disk, "::/EFI", "::/EFI/BOOT"])
    run(["mcopy", "-i", disk, program, f"::/EFI/BOOT/{name}"])
    return disk.read_bytes()
