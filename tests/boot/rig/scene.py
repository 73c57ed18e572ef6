"""A machine with its enrolled TPM, the files of its reference boot, and boots with something changed."""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from attest.boot import eventlog, predict
from attest.boot.eventlog import EventLog
from attest.boot.measure import PCR_APPLICATION
from attest.tpm import Swtpm
from tests.boot.rig import image, opinions, secureboot, uki
from tests.boot.rig.machine import MEMORY_MIB, Setup, boot
from tests.boot.rig.needs import X86_64, Arch
from tests.boot.rig.packages import Packages
from tests.boot.rig.verifier import PCRS, Shown, Verifier

log = logging.getLogger("boot-rig")

#: Lies uncompressed behind the compressed part of the initrd, so that one byte of it can change and no other.
MARK: Final = b"rig-mark-0"
CHANGED_FILE: Final = "sitsedge/gate/core.py"
_LOADER_ADDS: Final = " initrd=initrd"  # the firmware's loader of QEMU's kernels tells the kernel where its initrd is


@dataclass(frozen=True, slots=True)
class Files:
    """What a boot is made of."""

    kernel: bytes
    initrd: bytes
    cmdline: str
    application: Mapping[str, bytes]

    def with_kernel_changed(self) -> Files:
        """One bit of a text in the kernel that nothing but people reads."""
        for text in (b"#1 SMP", b"Linux version 6."):
            position = self.kernel.find(text)
            if position >= 0:
                return replace(self, kernel=image.flip(self.kernel, position))
        raise AssertionError("no text in this kernel to change")

    def with_initrd_changed(self) -> Files:
        """One bit of a file in the initrd."""
        return replace(self, initrd=image.flip(self.initrd, self.initrd.rindex(MARK)))

    def with_cmdline_changed(self) -> Files:
        """One bit of the command line."""
        return replace(self, cmdline=self.cmdline.replace("rig.mark=a", "rig.mark=c"))

    def with_package_changed(self) -> Files:
        """One bit of our package on the disk that firmware does not measure."""
        data = self.application[CHANGED_FILE]
        position = data.index(b"\n    ")  # in the middle of a line's indentation nothing depends on this being Python
        return replace(self, application={**self.application, CHANGED_FILE: image.flip(data, position + 1)})


@dataclass(slots=True)
class Scene:
    """One machine, kept over several boots."""

    arch: Arch
    folder: Path
    packages: Packages
    files: Files
    tpm: Swtpm
    verifier: Verifier
    firmware_vars: bytes
    extras: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def make(cls, arch: Arch, folder: Path, *, cmdline: str) -> Scene:
        """Fetch or build what is not cached, make a new TPM with its CA."""
        packages = Packages(arch)
        initrd = image.build_initrd(packages, scratch=folder / "image") + image.marked_cpio(MARK)
        files = Files(image.kernel_image(packages), initrd, cmdline, image.application_files())
        tpm = Swtpm(folder / "tpm")
        tpm.start()
        tpm.stop()
        roots = [path.read_bytes() for path in tpm.ca_certificates()]
        store = arch.firmware_vars.read_bytes()
        return cls(arch, folder, packages, files, tpm, Verifier(roots), store)

    def enable_secure_boot(self) -> secureboot.Key:
        """Enrol keys of our own; returns the one that may sign images."""
        keys = [secureboot.make_key(name, self.folder / "keys") for name in ("PK", "KEK", "db")]
        store = secureboot.emptied(self.arch.formatted_vars.read_bytes())
        self.firmware_vars = secureboot.enrol(store, platform=keys[0], exchange=keys[1], signing=keys[2])
        return keys[2]

    def direct(self, files: Files) -> Setup:
        """A kernel that QEMU hands to the firmware, with initrd and command line."""
        return Setup(
            self.arch,
            image.application_disk(files.application),
            self.firmware_vars,
            kernel=files.kernel,
            initrd=files.initrd,
            cmdline=files.cmdline,
        )

    def uki(self, files: Files) -> bytes:
        """An unsigned unified kernel image of these files."""
        folder = self.folder / "uki"
        return uki.build(
            self.packages,
            kernel=files.kernel,
            initrd=files.initrd + b"\0\0",  # no multiple of four: the stub has to pad it where it appends
            cmdline=files.cmdline,
            folder=folder,
            extras=self.extras,
        )

    def disk(self, files: Files, program: bytes, *, firmware_vars: bytes | None = None) -> Setup:
        """A disk that starts ``program``."""
        store = self.firmware_vars if firmware_vars is None else firmware_vars
        esp = uki.esp(program, arch=self.arch, folder=self.folder / "esp")
        return Setup(self.arch, image.application_disk(files.application), store, esp=esp)

    def show(self, name: str, setup: Setup, *, enrol: bool = False) -> Shown:
        """Boot, enrol where asked to, and take evidence."""
        with boot(setup, tpm=self.tpm, folder=self.folder / "boots" / name) as agent:
            if enrol:
                self.verifier.enrol(agent)
            shown = self.verifier.ask(agent, ima=self.arch is X86_64)
        (self.folder / "boots" / name / "evidence.cose").write_bytes(shown.data)
        text = "%s, %s: the agent spoke after %.1f s (%.1f s of processor time)"
        log.info(text, self.folder.name, name, agent.ready_s, agent.cpu_s)
        self._ask_others(shown, self.folder / "opinions")
        return shown

    def _ask_others(self, shown: Shown, folder: Path) -> None:
        """tpm2-tools agree with our replay and our verifier on every log and quote of every boot."""
        replayed = {pcr: value.hex() for pcr, value in shown.log.replay().items()}
        assert opinions.pcrs_by_tpm2_eventlog(shown.evidence.event_log, folder) == replayed
        assert opinions.tpm2_checkquote(shown.evidence, nonce=shown.nonce, folder=folder)
        assert not opinions.tpm2_checkquote(shown.evidence, nonce=bytes(len(shown.nonce)), folder=folder)

    def predict_direct(self, files: Files, reference: EventLog) -> EventLog:
        """The log of a direct boot of these files, without having booted them."""
        kernel = files.kernel
        if self.arch is X86_64:
            kernel = qemu_patched(kernel, initrd_bytes=len(files.initrd))
        planned = predict.kernel_boot(kernel, initrd=files.initrd, options=files.cmdline + _LOADER_ADDS)
        return with_application(predict.predict(planned, reference=reference), files)


def with_application(log: EventLog, files: Files) -> EventLog:
    """The log with the digests of the packages on the disk as they will be measured."""
    changed = {
        f"sits:component {package} ": f"sits:component {package} sha256:{digest.hex()}"
        for package, digest in image.component_digests(files.application).items()
    }
    events = []
    for event in log.events:
        text = event.data.decode("utf-8", "replace") if event.pcr == PCR_APPLICATION else ""
        new = next((value for start, value in changed.items() if text.startswith(start)), None)
        events.append(event if new is None else eventlog.text_event(PCR_APPLICATION, new))
    return EventLog(tuple(events), log.startup_locality)


def values(log: EventLog) -> dict[int, str]:
    """What a log claims for the PCRs that are quoted, in hex."""
    return {pcr: log.value(pcr).hex() for pcr in PCRS}


def quoted(shown: Shown) -> dict[int, str]:
    """What the TPM quoted, in hex."""
    return {pcr: shown.evidence.pcrs[pcr].hex() for pcr in PCRS}


def qemu_patched(kernel: bytes, *, initrd_bytes: int, memory_mib: int = MEMORY_MIB) -> bytes:
    """An x86 kernel as QEMU 7.2 hands it to the firmware: it fills in the boot protocol's header fields.

    (Linux, Documentation/x86/boot.rst.) So PCR 4 of such a boot depends on the machine's memory and the size of the
    initrd, and no Authenticode signature survives; later QEMUs leave the header alone under UEFI.
    """
    data = bytearray(kernel)
    highest = min(struct.unpack_from("<I", data, 0x22C)[0], (memory_mib << 20) - 0x28000 - 1)
    data[0x210] = 0xB0  # type_of_loader: QEMU
    data[0x211] |= 0x80  # loadflags: CAN_USE_HEAP
    struct.pack_into("<II", data, 0x218, (highest - initrd_bytes) & ~4095, initrd_bytes)
    struct.pack_into("<H", data, 0x224, 0xFE00)  # heap_end_ptr
    struct.pack_into("<I", data, 0x228, 0x20000)  # cmd_line_ptr
    return bytes(data)
