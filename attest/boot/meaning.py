"""What a boot event says, in words, and whether its words are what was measured.

``describe`` gives ``subject: value``: the part before the first colon names what the event is about and stays the same
when the value changes, so two boots can be compared line by line. Sources: TCG PC Client Platform Firmware Profile
1.06 §10.4.1 (firmware); UAPI Group, Linux TPM PCR Registry; systemd-stub(7), the GRUB manual (measured boot), shim's
README.tpm, Linux drivers/firmware/efi/libstub (boot loader and kernel).

A digest covers the event's data for some types only; elsewhere the data is a claim beside a digest of something else
(a program's image, a file). ``is_measured`` tells which, and catches data that contradicts the digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attest.boot import banks, efi
from attest.boot import event_types as types

OWN_PREFIX: Final = b"sits:"
KERNEL_PCR: Final = 11
LINE_CHARS_MAX: Final = 220  # a policy keeps 256 characters of a reference event, with its type of up to 32

_TEXT_CHARS_MAX: Final = 200
_LATIN_END: Final = "\u0180"
_SECURE_BOOT_LISTS: Final = ("PK", "KEK", "db", "dbx", "dbt", "dbr", "MokList", "MokListX", "MokListTrusted")
_SWITCHES: Final = ("SecureBoot", "SetupMode", "AuditMode", "DeployedMode", "MokSBState", "MokListTrusted")
_GRUB_PREFIXES: Final = (b"grub_cmd: ", b"kernel_cmdline: ", b"module_cmdline: ", b"grub_cmd ", b"kernel_cmdline ")
_ERROR_SEPARATOR: Final = (1).to_bytes(4, "little")
_TAGS: Final = {  # Linux's EFI stub; systemd's boot loader and stub
    0x8F3B22EC: "initrd",
    0x8F3B22ED: "kernel command line",
    0xF5BC582A: "boot loader configuration",
    0x6C46F751: "devicetree add-on",
    0x49DFFE0F: "initrd add-on",
    0xDAC08E1A: "microcode add-on",
    0x13AED6DB: "profile of the kernel image",
}
_IMAGES: Final = {
    types.EV_EFI_BOOT_SERVICES_APPLICATION: "program",
    types.EV_EFI_BOOT_SERVICES_DRIVER: "boot driver",
    types.EV_EFI_RUNTIME_SERVICES_DRIVER: "runtime driver",
}
_BLOBS: Final = (
    types.EV_POST_CODE,
    types.EV_POST_CODE2,
    types.EV_EFI_PLATFORM_FIRMWARE_BLOB,
    types.EV_EFI_PLATFORM_FIRMWARE_BLOB2,
    types.EV_S_CRTM_CONTENTS,
)
_VARIABLES: Final = (
    types.EV_EFI_VARIABLE_DRIVER_CONFIG,
    types.EV_EFI_VARIABLE_BOOT,
    types.EV_EFI_VARIABLE_BOOT2,
    types.EV_EFI_VARIABLE_AUTHORITY,
)
#: The profile says that these events' digest is the hash of their data.
_WHOLE: Final = (
    types.EV_SEPARATOR,
    types.EV_S_CRTM_VERSION,
    types.EV_EFI_ACTION,
    types.EV_EFI_GPT_EVENT,
    types.EV_EFI_VARIABLE_DRIVER_CONFIG,
    types.EV_EFI_VARIABLE_BOOT,
    types.EV_EFI_VARIABLE_BOOT2,
    types.EV_EFI_VARIABLE_AUTHORITY,
)


def is_measured(pcr: int, kind: int, data: bytes, *, digest: bytes, bank: int) -> bool | None:
    """True: ``digest`` covers the data. False: it should and does not. None: it covers something else.

    Raises ``EventLogError`` for a bank whose hash this machine has not.
    """
    for candidate in _candidates(pcr, kind, data):
        if banks.digest(bank, candidate) == digest:
            return True
    if kind == types.EV_IPL and data.startswith(OWN_PREFIX):
        return False
    if kind not in _WHOLE:
        return None
    if kind == types.EV_EFI_VARIABLE_AUTHORITY:
        return None if data[:16] == efi.SHIM_LOCK.bytes_le else False  # older shims measure something of their own
    return False


def _candidates(pcr: int, kind: int, data: bytes) -> Iterator[bytes]:
    """The byte strings that the digest of such an event may cover, out of its data."""
    yield data
    if kind == types.EV_SEPARATOR:
        yield _ERROR_SEPARATOR  # the data then tells the error
    elif kind in (types.EV_EFI_VARIABLE_BOOT, types.EV_EFI_VARIABLE_AUTHORITY):
        parsed = efi.variable(data)  # EDK II and shim measure the value alone
        if parsed is not None:
            yield parsed.value
    elif kind == types.EV_IPL:
        for prefix in _GRUB_PREFIXES:
            if data.startswith(prefix):
                yield data[len(prefix) :].rstrip(b"\0")
        name = efi.utf16(data)
        if pcr == KERNEL_PCR and name is not None and name.isascii():
            yield name.encode("ascii") + b"\0"  # systemd-stub: the section's name, then its content


def describe(pcr: int, kind: int, data: bytes) -> str:
    """What the event says, as ``subject: value`` where both exist; empty where nothing in it can be read."""
    return _words(pcr, kind, data)[:LINE_CHARS_MAX]


def _words(pcr: int, kind: int, data: bytes) -> str:
    if kind in _VARIABLES:
        return _variable(kind, data)
    if kind in _IMAGES:
        path = efi.image_path(data)
        return "" if path is None else f"{_IMAGES[kind]}: {path or 'without a path'}"
    if kind == types.EV_SEPARATOR:
        return _separator(data)
    if kind in _BLOBS and (found := efi.blob(data)) is not None:
        name, base, size = found
        return f"firmware {name or 'volume'} at {base:#x}: {size} bytes"
    if kind == types.EV_EFI_GPT_EVENT and (table := efi.gpt(data)) is not None:
        entries = "; ".join(efi.partition_text(entry) for entry in table.partitions)
        return f"partition table: disk {table.disk}, {entries or 'no partitions'}"
    if kind == types.EV_EVENT_TAG:
        return _tagged(data)
    if kind == types.EV_S_CRTM_VERSION:
        return f"firmware version: {_readable(data) or data[:32].hex()}"
    text = _readable(data)
    if not text:
        return ""
    return repr(text)


def _variable(kind: int, data: bytes) -> str:
    parsed = efi.variable(data)
    if parsed is None:
        return ""
    name = efi.printable(parsed.name)
    if kind == types.EV_EFI_VARIABLE_AUTHORITY:
        return f"authority {name}: {_authority(parsed.value)}"
    return f"variable {name}: {_variable_value(parsed)}"


def _variable_value(parsed: efi.Variable) -> str:
    name, value = parsed.name, parsed.value
    if name in _SECURE_BOOT_LISTS and (entries := efi.signatures(value)) is not None:
        return _entries(entries)
    if name in _SWITCHES and len(value) == 1:
        return "on" if value[0] else "off"
    if name == "BootOrder" and len(value) % 2 == 0:
        return ", ".join(f"Boot{int.from_bytes(value[i : i + 2], 'little'):04X}" for i in range(0, len(value), 2))
    if name.startswith("Boot") and (option := efi.boot_option(value)) is not None:
        return f"{option.description!r} {option.path}{'' if option.active else ' (inactive)'}"
    return _readable(value) or value[:32].hex() or "empty"


def _entries(entries: tuple[efi.Signature, ...]) -> str:
    """Certificates by name, hashes by number: what fits in a line."""
    if not entries:
        return "empty"
    named = [entry.text for entry in entries if entry.kind == "certificate"]
    rest = len(entries) - len(named)
    return "; ".join([*named, f"{rest} {'hash' if rest == 1 else 'hashes'}"] if rest else named)


def _authority(value: bytes) -> str:
    """What allowed a program to start: EFI_SIGNATURE_DATA (owner, certificate), a certificate alone, or text."""
    for candidate in (value[16:], value):
        name = efi.certificate_name(candidate)
        if name is not None:
            return f"certificate {name}"
    if len(value) == 16 + 32:
        return f"hash {value[16:].hex()}"
    if len(value) == 1:
        return "on" if value[0] else "off"
    return _readable(value) or value[:32].hex() or "empty"


def _separator(data: bytes) -> str:
    if data in (bytes(4), b"\xff" * 4):
        return "end of the firmware's part"
    return f"error while starting: {_readable(data) or data[:32].hex()}"


def _tagged(data: bytes) -> str:
    """TCG_PCClientTaggedEvent: identifier, size, data."""
    if len(data) < 8 or int.from_bytes(data[4:8], "little") != len(data) - 8:
        return ""
    tag = int.from_bytes(data[:4], "little")
    text = _readable(data[8:])
    return f"{_TAGS.get(tag, f'tag {tag:#010x}')}: {text or f'{len(data) - 8} bytes'}"


def _readable(data: bytes) -> str:
    """UTF-8 or UTF-16 text on one line; empty for what is neither, or only looks like UTF-16 by chance."""
    for encoding in ("utf-8", "utf-16-le"):
        try:
            text = data.decode(encoding).rstrip("\0\r\n").replace("\n", " ").replace("\t", " ")
        except UnicodeDecodeError:
            continue
        if text and text.isprintable() and (encoding == "utf-8" or 2 * sum(c < _LATIN_END for c in text) >= len(text)):
            return text[:_TEXT_CHARS_MAX]
    return ""
