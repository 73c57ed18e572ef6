"""What a boot will measure, computed from its files before they are installed, so that a policy can allow it first.

====  ========================================================================================================
PCR   predicted measurements
====  ========================================================================================================
4     Authenticode SHA-256 of each program that firmware starts: the unified kernel image, and the kernel inside it
      where the stub hands it to the firmware; or the kernel alone
9     by Linux's EFI stub: load options (UTF-16, with its NUL), then the initrd
11    by systemd-stub: name (with its NUL) and contents of each section it knows, in its fixed order
12    by systemd-stub: a command line that came from outside the image, where it accepts one
====  ========================================================================================================

All else is the firmware's, the machine's and other boot loaders': it comes from a reference log of the same machine,
in which the old kernel's measurements are replaced by the new one's (``predict`` with ``reference``). Without one,
PCR 4 is predicted for firmware that starts the program itself from a boot option, as most does.

Sources: UAPI Group, Linux TPM PCR Registry and Unified Kernel Image specification; systemd-stub(7) and
systemd-measure(1); Linux, drivers/firmware/efi/libstub (5.17 and later measure the initrd, load options since 6.0 or
a distribution's backport). Boot phases that systemd measures into PCR 11 afterwards are no part of this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.boot import efi, pe, stub
from attest.boot.errors import PredictError
from attest.boot.event_types import (
    EV_EFI_ACTION,
    EV_EFI_BOOT_SERVICES_APPLICATION,
    EV_EFI_VARIABLE_DRIVER_CONFIG,
    EV_EVENT_TAG,
    EV_IPL,
    EV_SEPARATOR,
)
from attest.boot.eventlog import Event, EventLog

PCR_PROGRAMS: Final = 4
PCR_SECURE_BOOT: Final = 7
PCR_KERNEL_INPUT: Final = 9
PCR_IMAGE: Final = 11
PCR_COMMAND_LINE: Final = 12
PREDICTED: Final = (PCR_PROGRAMS, PCR_KERNEL_INPUT, PCR_IMAGE, PCR_COMMAND_LINE)

TAG_INITRD: Final = 0x8F3B22EC
TAG_OPTIONS: Final = 0x8F3B22ED
_TAG_TEXTS: Final = {TAG_INITRD: b"Linux initrd\0", TAG_OPTIONS: b"LOADED_IMAGE::LoadOptions\0"}

#: The device path under which systemd-stub hands the inner kernel to the firmware.
_STUB_PAYLOAD: Final = "55c5d1f8-04cd-46b5-8a20-e56cbb3052d0"
_CALLING: Final = b"Calling EFI Application from Boot Option"
_IMAGE_EVENT_BYTES: Final = 32  # UEFI_IMAGE_LOAD_EVENT without a device path


@dataclass(frozen=True, slots=True)
class Boot:
    """What is to be booted: programs (digests, in order), and what stub and kernel measure of their inputs."""

    programs: tuple[bytes, ...]
    options: str
    initrd: bytes | None
    sections: tuple[tuple[str, bytes], ...] = ()
    passed: str | None = None

    def events(self) -> tuple[Event, ...]:
        """The measurements in the order in which they are made."""
        first, *inner = (_program(digest) for digest in self.programs)
        made = [first]
        for name, digest in self.sections:
            made += _section(name, digest)
        if self.passed is not None:
            data = _utf16(self.passed)
            made.append(Event(PCR_COMMAND_LINE, EV_IPL, hashlib.sha256(data).digest(), data))
        made += inner
        made.append(_tagged(TAG_OPTIONS, hashlib.sha256(_utf16(self.options)).digest()))
        if self.initrd is not None:
            made.append(_tagged(TAG_INITRD, self.initrd))
        return tuple(made)


def kernel_boot(kernel: bytes, *, initrd: bytes | None, options: str) -> Boot:
    """A kernel that the firmware starts with an initrd. ``options``: exactly the load options it gets.

    QEMU's and other firmware's loaders add to the command line (`` initrd=initrd``); so does a boot entry's author.
    Raises ``ImageError`` or ``PredictError``.
    """
    digest = None if initrd is None else hashlib.sha256(initrd).digest()
    return Boot(programs=(pe.parse(kernel).digest,), options=stub.checked_options(options), initrd=digest)


def uki_boot(image: bytes, *, secure_boot: bool, inner_measured: bool | None = None, passed: str | None = None) -> Boot:
    """A unified kernel image with systemd's stub.

    ``passed`` is a command line from a boot entry; the stub takes it unless Secure Boot is on and the image has its
    own. ``inner_measured``: whether the firmware measures the kernel inside as a program of its own; by default it
    does where Secure Boot is off (the stub turns the firmware's check off for it where it is on). Raises
    ``ImageError`` or ``PredictError``.
    """
    parsed = pe.parse(image)
    version = stub.stub_version(parsed)
    kernel = parsed.section(".linux")
    if not kernel:
        raise PredictError(found="an image without a kernel (.linux)", expected="a unified kernel image")
    inner = pe.parse(kernel).digest
    own = parsed.section(".cmdline")
    taken = None if passed is None or (secure_boot and own) else stub.passed_options(passed)
    measured = not secure_boot if inner_measured is None else inner_measured
    return Boot(
        programs=(parsed.digest, inner) if measured else (parsed.digest,),
        options=stub.own_options(own or b"", version) if taken is None else taken,
        initrd=stub.initrd_digest(parsed, version),
        sections=stub.measured_sections(parsed, version),
        passed=taken,
    )


def secure_boot_in(log: EventLog) -> bool:
    """Whether a boot had Secure Boot on, by PCR 7. Raises ``PredictError`` where the log does not say."""
    for event in log.of(PCR_SECURE_BOOT):
        variable = efi.variable(event.data) if event.kind == EV_EFI_VARIABLE_DRIVER_CONFIG else None
        if variable is not None and variable.name == "SecureBoot":
            return variable.value == b"\x01"
    raise PredictError(found="a log that does not tell the state of Secure Boot", expected="a log of UEFI firmware")


def inner_kernel_in(log: EventLog) -> bool | None:
    """Whether a boot's firmware measured the kernel inside a unified image; None where it booted no such image."""
    if not any(event.kind == EV_IPL and _section_name(event) == ".linux" for event in log.of(PCR_IMAGE)):
        return None
    programs = [event for event in log.of(PCR_PROGRAMS) if event.kind == EV_EFI_BOOT_SERVICES_APPLICATION]
    return bool(programs) and _is_inner(programs[-1])


def predict(boot: Boot, *, reference: EventLog | None = None) -> EventLog:
    """The log of ``boot``: that of a reference boot of the same machine with the old kernel's measurements replaced.

    Raises ``PredictError`` where the reference was booted in a way in which files leave other traces (GRUB).
    """
    new = boot.events()
    if reference is None:
        zeros = bytes(4)
        lead = (
            Event(PCR_PROGRAMS, EV_EFI_ACTION, hashlib.sha256(_CALLING).digest(), _CALLING),
            Event(PCR_PROGRAMS, EV_SEPARATOR, hashlib.sha256(zeros).digest(), zeros),
        )
        return EventLog(lead + new)
    old = _old_positions(reference)
    new = _from_the_same_places(new, [reference.events[position] for position in sorted(old)])
    waiting = {pcr: [event for event in new if event.pcr == pcr] for pcr in PREDICTED}
    last = {reference.events[position].pcr: position for position in sorted(old)}
    events: list[Event] = []
    for position, event in enumerate(reference.events):
        if position not in old:
            events.append(event)
            continue
        rest = waiting[event.pcr]
        count = len(rest) if position == last[event.pcr] else 1
        events += rest[:count]
        del rest[:count]
    events += [event for pcr in PREDICTED for event in waiting[pcr]]
    return EventLog(tuple(events), reference.startup_locality)


def _from_the_same_places(new: Sequence[Event], old: Sequence[Event]) -> tuple[Event, ...]:
    """The new programs with the device paths of the old ones: an update replaces files where they are."""
    paths = iter([event.data for event in old if event.pcr == PCR_PROGRAMS])
    return tuple(
        Event(event.pcr, event.kind, event.digest, next(paths, event.data)) if event.pcr == PCR_PROGRAMS else event
        for event in new
    )


def _old_positions(reference: EventLog) -> frozenset[int]:
    """Where the reference's kernel left its traces."""
    programs: list[int] = []
    traces: list[int] = []
    for position, event in enumerate(reference.events):
        if not event.extends:
            continue
        if event.pcr == PCR_PROGRAMS and event.kind == EV_EFI_BOOT_SERVICES_APPLICATION:
            programs.append(position)
        elif event.pcr in (PCR_KERNEL_INPUT, PCR_IMAGE, PCR_COMMAND_LINE):
            if not _is_trace(event):
                raise PredictError(
                    found=f"a reference boot with {event.describe()[:120]} in PCR {event.pcr}",
                    expected="a boot whose PCR 9, 11 and 12 only systemd-stub and the kernel extended",
                    hint="boot loaders that measure what they read (GRUB) are not predicted",
                )
            traces.append(position)
    if not programs:
        raise PredictError(found="a reference boot that started no program", expected="the log of a UEFI boot")
    count = 2 if len(programs) > 1 and _is_inner(reference.events[programs[-1]]) else 1
    return frozenset((*programs[-count:], *traces))


def _is_trace(event: Event) -> bool:
    if event.pcr == PCR_KERNEL_INPUT:
        return event.kind == EV_EVENT_TAG and int.from_bytes(event.data[:4], "little") in _TAG_TEXTS
    if event.pcr == PCR_IMAGE:
        return event.kind == EV_IPL and _section_name(event) in stub.SECTION_NAMES
    # Anything else the stub puts there (credentials, extensions) is tagged, not EV_IPL.
    return event.kind == EV_IPL and event.digest == hashlib.sha256(event.data).digest()


def _is_inner(event: Event) -> bool:
    return _STUB_PAYLOAD in (efi.image_path(event.data) or "")


def _section_name(event: Event) -> str:
    return efi.utf16(event.data) or ""


def _program(digest: bytes) -> Event:
    return Event(PCR_PROGRAMS, EV_EFI_BOOT_SERVICES_APPLICATION, digest, bytes(_IMAGE_EVENT_BYTES))


def _section(name: str, digest: bytes) -> list[Event]:
    data = _utf16(name)
    named = hashlib.sha256(name.encode("ascii") + b"\0").digest()
    return [Event(PCR_IMAGE, EV_IPL, named, data), Event(PCR_IMAGE, EV_IPL, digest, data)]


def _tagged(tag: int, digest: bytes) -> Event:
    text = _TAG_TEXTS[tag]
    data = tag.to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    return Event(PCR_KERNEL_INPUT, EV_EVENT_TAG, digest, data)


def _utf16(text: str) -> bytes:
    return (text + "\0").encode("utf-16-le", "surrogatepass")
