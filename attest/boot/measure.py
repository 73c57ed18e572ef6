"""Measured boot in software, for machines whose firmware measures nothing (a simulated TPM, a Raspberry Pi).

What is measured, once per TPM power-up:

====  =====================  ===========================================================================
PCR   name                   events
====  =====================  ===========================================================================
11    kernel                 release, version and machine of the running kernel
12    kernel command line    /proc/cmdline
13    application            each of our packages and the native extension, one digest per component
====  =====================  ===========================================================================

11 and 12 are where systemd's UEFI stub measures the same things, 13 is its PCR for system extensions (UAPI Group,
Linux TPM PCR Registry); none can be reset without a power-up. Where firmware keeps an event log, it and the boot
loader have measured the kernel, so only PCR 13 is extended, and our events are appended to the firmware's.

Every event's data is text and its digest SHA-256 of that text, so a verifier reads what was measured. The log is
written before the TPM is extended: after a crash the PCRs hold a prefix of the log, and measuring goes on there.
A component that changed after it was measured is measured again, which moves PCR 13 to a value that no policy for
a clean boot allows. Trust begins with this program itself: it shows an honest system's state, and cannot show a
system that lied about its first measurement. On UEFI machines trust begins in the firmware.

Source text is measured, compiled bytecode is not: a ``__pycache__`` file planted beside a module would run in its
place. The packaged services and a production deployment's processes therefore compile into a fresh folder
(PYTHONPYCACHEPREFIX).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from attest.boot import eventlog
from attest.boot.errors import EventLogError, MeasureError
from attest.boot.eventlog import Event, EventLog
from attest.structures import extend

PCR_KERNEL: Final = 11
PCR_CMDLINE: Final = 12
PCR_APPLICATION: Final = 13
SOFTWARE_PCRS: Final = (PCR_KERNEL, PCR_CMDLINE, PCR_APPLICATION)
PCR_KERNEL_INPUT: Final = 9  # Linux's EFI stub: load options and initrd; where no unified image is booted, only there
# With the firmware's own, 0..7 (TCG PFP §3.3.4). GRUB's 8 and those that user space goes on extending (10, 15) are out.
QUOTED_PCRS: Final = (0, 1, 2, 3, 4, 5, 6, 7, PCR_KERNEL_INPUT, *SOFTWARE_PCRS)

FIRMWARE_LOG: Final = Path("/sys/kernel/security/tpm0/binary_bios_measurements")
PACKAGES: Final = ("attest", "fieldbus", "sitsedge")
_NATIVE_PREFIX: Final = "_native"  # attest/_native.abi3.so
_CMDLINE: Final = Path("/proc/cmdline")
_MAX_FILES: Final = 10_000
_CHUNK_BYTES: Final = 1 << 20


class PcrBank(Protocol):
    """The part of a ``TpmDevice`` that measuring needs."""

    def read_pcrs(self, pcrs: Iterable[int], /) -> dict[int, bytes]:
        """SHA-256 values by PCR."""
        ...

    def extend(self, pcr: int, digest: bytes, /) -> None:
        """Extend one PCR of the SHA-256 bank."""
        ...


@dataclass(frozen=True, slots=True)
class SystemState:
    """What is measured of a machine: kernel identity, command line, component name → SHA-256."""

    kernel: str
    cmdline: str
    components: Mapping[str, bytes]

    def events(self, *, firmware_measured: bool) -> tuple[Event, ...]:
        """The events of a boot into this state, in a fixed order."""
        kernel = (
            eventlog.text_event(PCR_KERNEL, f"sits:kernel {self.kernel}"),
            eventlog.text_event(PCR_CMDLINE, f"sits:cmdline {self.cmdline}"),
        )
        ours = tuple(
            eventlog.text_event(PCR_APPLICATION, f"sits:component {name} sha256:{digest.hex()}")
            for name, digest in sorted(self.components.items())
        )
        return ours if firmware_measured else kernel + ours


def current_state(components: Mapping[str, Sequence[Path]] | None = None) -> SystemState:
    """The state of this machine now. ``components``: name → files or folders; default: our packages."""
    uname = platform.uname()
    chosen = installed_components() if components is None else components
    return SystemState(
        kernel=f"{uname.system} {uname.release} {uname.version} {uname.machine}",
        cmdline=_CMDLINE.read_text(encoding="utf-8", errors="backslashreplace").strip(),
        components={name: component_digest(paths) for name, paths in chosen.items()},
    )


def installed_components() -> dict[str, list[Path]]:
    """Our packages as they are installed, and the native extension apart; nothing is imported to find them."""
    found: dict[str, list[Path]] = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            found[package] = [Path(place) for place in spec.submodule_search_locations]
    native = [file for place in found.get("attest", []) for file in sorted(place.glob(f"{_NATIVE_PREFIX}*.so"))]
    if native:
        found["native"] = native
    return found


def component_digest(paths: Sequence[Path]) -> bytes:
    """SHA-256 over (name, size, SHA-256) of every file, by name; bytecode caches and the native extension excluded.

    The native extension is a component of its own, so inside a package's folder it is skipped.
    """
    lines: list[bytes] = []
    for path in paths:
        files = [path] if path.is_file() else _files(path)
        for file in files:
            name = file.name if file == path else file.relative_to(path).as_posix()
            digest, size = _file_digest(file)
            lines.append(f"{name}\0{size}\0{digest}\n".encode())
    if len(lines) > _MAX_FILES:
        raise MeasureError(found=f"{len(lines)} files", expected=f"at most {_MAX_FILES}")
    return hashlib.sha256(b"".join(sorted(lines))).digest()


def measure_software(
    tpm: PcrBank,
    *,
    log_path: Path,
    state: SystemState | None = None,
    firmware_log: bytes | None = None,
) -> bytes:
    """Measure what has not been measured since the TPM's power-up; returns the whole event log.

    ``log_path`` keeps the log across restarts of the daemon; ``firmware_log`` is the firmware's, where there is
    one (``read_firmware_log``). Raises ``MeasureError`` where the PCRs hold something no log explains.
    """
    now = current_state() if state is None else state
    firmware = eventlog.parse(firmware_log) if firmware_log is not None else EventLog(())
    pcrs = SOFTWARE_PCRS if firmware_log is None else (PCR_APPLICATION,)
    wanted = now.events(firmware_measured=firmware_log is not None)
    values = tpm.read_pcrs(pcrs)

    saved = _own_events(log_path, firmware)
    done = _measured(saved, values, firmware, pcrs)
    if not done:  # a log of an earlier power-up, or one whose first event was never extended
        saved, done = (), _measured((), values, firmware, pcrs)
    if done is None:
        raise MeasureError(
            found=f"PCRs {', '.join(map(str, pcrs))} with values that {log_path.name} does not explain",
            expected="PCRs as after power-up, or as the saved log says",
            hint="restart the TPM (power-cycle the machine, or restart the simulated one)",
        )
    own = saved if saved else wanted
    latest = {_subject(event): event for event in own}
    own += tuple(event for event in wanted if latest.get(_subject(event)) != event)
    log = EventLog(firmware.events + own, firmware.startup_locality)
    encoded = log.encode()
    if len(own) > done:
        _write_atomically(log_path, encoded)
        for event in own[done:]:
            tpm.extend(event.pcr, event.digest)
    return encoded


def read_firmware_log(path: Path = FIRMWARE_LOG) -> bytes | None:
    """The firmware's event log as the kernel shows it, or None where firmware measured nothing."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise MeasureError(
            found=f"no permission on {path}", expected="read", hint="run as root or give CAP_DAC_READ_SEARCH"
        ) from error
    return data or None


def _own_events(log_path: Path, firmware: EventLog) -> tuple[Event, ...]:
    """Our events of the saved log; none where it is absent, damaged, or of another boot."""
    try:
        log = eventlog.parse(log_path.read_bytes())
    except (FileNotFoundError, EventLogError):
        return ()
    count = len(firmware.events)
    same_boot = log.events[:count] == firmware.events and log.startup_locality == firmware.startup_locality
    return log.events[count:] if same_boot else ()


def _measured(
    own: tuple[Event, ...], values: Mapping[int, bytes], firmware: EventLog, pcrs: Sequence[int]
) -> int | None:
    """How many of our events the PCRs already hold, or None where they hold something else."""
    state = {pcr: firmware.value(pcr) for pcr in pcrs}
    for count in range(len(own) + 1):
        if state == {pcr: values.get(pcr) for pcr in pcrs}:
            return count
        if count < len(own) and own[count].pcr in state:
            state[own[count].pcr] = extend(state[own[count].pcr], own[count].digest)
    return None


def _subject(event: Event) -> bytes:
    """What an event of ours is about: ``sits:kernel``, ``sits:component attest``, …"""
    words = event.data.split(b" ")
    return b" ".join(words[:2]) if words[0] == b"sits:component" else words[0]


def _files(folder: Path) -> list[Path]:
    return [
        file
        for file in folder.rglob("*")
        if file.is_file()
        and "__pycache__" not in file.parts
        and not (file.parent == folder and file.name.startswith(_NATIVE_PREFIX) and file.suffix == ".so")
    ]


def _file_digest(file: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise MeasureError(found=f"{file}: {error.strerror or error}", expected="a file that can be read") from error
    return digest.hexdigest(), size


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise MeasureError(
            found=f"{path}: {error.strerror or error}",
            expected="an event log that can be written",
            hint="nothing was measured; make room or give write permission and start again",
        ) from error
