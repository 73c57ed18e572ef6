"""systemd's UEFI stub: what it measures of a unified kernel image, and what it hands to the kernel inside.

Sources: systemd-stub(7), systemd-measure(1); UAPI Group, Unified Kernel Image specification; Linux, "initramfs buffer
format". What those leave open (order, archives, spaces) is as boots with the stubs 252 and 257 showed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from attest.boot import pe
from attest.boot.errors import PredictError

MAX_OPTIONS_CHARS: Final = 4096  # COMMAND_LINE_SIZE is 2048 on both architectures
OLDEST: Final = 252  # the first to measure into PCR 11, and Debian 12's
NEWER: Final = 257  # Debian 13's; between the two the rules changed one by one, and no boot here showed when
#: The stub's order, and which of the two generations is the first to measure each.
SECTIONS: Final = (
    (".linux", OLDEST),
    (".osrel", OLDEST),
    (".cmdline", OLDEST),
    (".initrd", OLDEST),
    (".splash", OLDEST),
    (".dtb", OLDEST),
    (".uname", NEWER),
    (".sbat", NEWER),
    (".pcrpkey", OLDEST),
)
#: What the newer stub chooses by the machine, or hands on in ways no boot here has shown.
_NOT_PREDICTED: Final = (".ucode", ".profile", ".dtbauto", ".hwids", ".efifw")
#: Every section whose name may be in PCR 11, whatever the stub's version.
SECTION_NAMES: Final = frozenset((*(name for name, _ in SECTIONS), *_NOT_PREDICTED))
#: Sections that the stub hands to the system as files: each an archive of its own behind the initrd.
_HANDED_ON: Final = (
    (".pcrsig", "tpm2-pcr-signature.json", OLDEST),
    (".pcrpkey", "tpm2-pcr-public-key.pem", OLDEST),
    (".osrel", "os-release", NEWER),
)
_STUB_MARK: Final = re.compile(rb"#### LoaderInfo: systemd-stub (\d{1,4})[^#]{0,100}####")
#: The same as the stub tells it to the running system (StubInfo): aarch64 images may lack the section with the mark.
_STUB_INFO: Final = re.compile("systemd-stub ".encode("utf-16-le") + rb"((?:[0-9]\0){1,4})")
_STUB_CODE: Final = (".text", ".rodata", ".data")
_CPIO_ALIGNMENT: Final = 4


def stub_version(image: pe.Image) -> int:
    """The systemd version of an image's stub. Raises ``PredictError`` for one whose rules are not known for certain."""
    mark = _STUB_MARK.search(image.section(".sdmagic") or b"")
    told = (_STUB_INFO.search(image.section(name) or b"") for name in _STUB_CODE)
    found = mark or next((match for match in told if match is not None), None)
    if found is None:
        raise PredictError(found="an image without systemd's stub", expected="a unified kernel image of systemd-stub")
    version = int(found[1].replace(b"\0", b""))
    if version != OLDEST and version < NEWER:
        raise PredictError(
            found=f"systemd-stub {version}",
            expected=f"{OLDEST}, or {NEWER} and later",
            hint="build the image with another stub, or take the policy from a reference boot",
        )
    return version


def initrd_digest(image: pe.Image, version: int) -> bytes | None:
    """Of the initrd that the kernel gets: the image's, then an archive for each section that is handed on."""
    initrd = image.section(".initrd") or b""
    extra = [
        _archive(file, contents)
        for name, file, since in _HANDED_ON
        if version >= since and (contents := image.section(name))
    ]
    if extra:
        initrd = b"".join((initrd, bytes(-len(initrd) % _CPIO_ALIGNMENT), *extra))
    return hashlib.sha256(initrd).digest() if initrd else None


def measured_sections(image: pe.Image, version: int) -> tuple[tuple[str, bytes], ...]:
    """Name and SHA-256 of each section that goes into PCR 11, in that order. Raises ``PredictError``."""
    unknown = next((section.name for section in image.sections if section.name in _NOT_PREDICTED), None)
    if version >= NEWER and unknown is not None:
        raise PredictError(
            found=f"an image with a section {unknown}",
            expected=f"none of {', '.join(_NOT_PREDICTED)}",
            hint="take the policy from a reference boot",
        )
    measured: list[tuple[str, bytes]] = []
    for name, since in SECTIONS:
        contents = image.section(name) if version >= since else None
        if contents is not None:
            measured.append((name, hashlib.sha256(contents).digest()))
    return tuple(measured)


def own_options(section: bytes, version: int) -> str:
    """The image's own command line as the stub hands it on: control characters as spaces, none at the end.

    The newer stub takes those in front away as well.
    """
    try:
        text = section.split(b"\0")[0].decode("ascii")
    except UnicodeDecodeError as error:
        raise PredictError(found="a command line (.cmdline) that is not ASCII", expected="ASCII") from error
    tidy = "".join(" " if char < " " else char for char in text).rstrip(" ")
    return checked_options(tidy if version < NEWER else tidy.lstrip(" "))


def passed_options(options: str) -> str:
    """A command line from outside the image, as the stub takes it. Raises ``PredictError`` for one it would tidy."""
    if options != options.strip(" ") or any(char < " " for char in options):
        raise PredictError(found=f"a command line {options[:80]!r}", expected="one without spaces at its ends")
    return checked_options(options)


def checked_options(options: str) -> str:
    """Load options that a kernel can take. Raises ``PredictError``."""
    if len(options) > MAX_OPTIONS_CHARS or "\0" in options:
        raise PredictError(
            found=f"load options of {len(options)} characters", expected=f"at most {MAX_OPTIONS_CHARS}, without NUL"
        )
    return options


def _archive(name: str, contents: bytes) -> bytes:
    """A cpio archive ("newc") with the file ``/.extra/NAME``, byte for byte as the stub makes it."""
    folder, path = b".extra\0", b".extra/" + name.encode("ascii") + b"\0"
    made = _entry(1, 0o040555, b"", folder) + _entry(2, 0o100444, contents, path)
    return made + b"070701" + b"0" * 32 + b"00000001" + b"0" * 48 + b"0000000B" + b"0" * 8 + b"TRAILER!!!\0\0\0\0"


def _entry(number: int, mode: int, contents: bytes, name: bytes) -> bytes:
    fields = (number, mode, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    head += bytes(-len(head) % _CPIO_ALIGNMENT)
    return head + contents + bytes(-len(contents) % _CPIO_ALIGNMENT)
