"""One emulated machine: QEMU (TCG), UEFI firmware, a simulated TPM, and the agent's serial port.

``accel=tcg`` always: ``/dev/kvm`` may exist and still fail with UEFI inside a container or virtual machine. Each boot
starts from the same copy of the firmware's variables, so the reference boot and every later one are comparable; the
TPM's state is kept from boot to boot, as in a real machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from attest import cbor
from attest.cbor import CborKey, CborValue
from attest.tpm import Swtpm
from attest.tpm.transport_unix import connect_unix
from tests.boot.rig.image import pad
from tests.boot.rig.needs import Arch

MEMORY_MIB: Final = 1024
ANSWER_S: Final = 480.0  # a boot takes half a minute on two idle cores; the machine may be busy
_MAX_MESSAGE: Final = 4 << 20
_STOP_S: Final = 20.0
_POLL_S: Final = 0.02
_PORT: Final = "agent.sock"
_CONTROL: Final = "swtpm.sock"
CONSOLE: Final = "console.log"
_REFUSED: Final = "Access Denied"


class NoAgent(RuntimeError):
    """The machine ended, or went silent, before the agent spoke; carries the end of the console."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What to boot. Either ``kernel`` (with ``initrd`` and ``cmdline``) by QEMU, or an ``esp`` disk by the firmware."""

    arch: Arch
    application: bytes
    firmware_vars: bytes
    kernel: bytes | None = None
    initrd: bytes = b""
    cmdline: str = ""
    esp: bytes | None = None


@dataclass(slots=True)
class Agent:
    """The connection to the agent of a running machine."""

    connection: socket.socket
    started: float
    process: subprocess.Popen[bytes]
    console: Path
    hello: Mapping[CborKey, CborValue] = field(default_factory=dict)
    ready_s: float = 0.0
    cpu_s: float = 0.0

    def ask(self, kind: str, **fields: object) -> Mapping[CborKey, CborValue]:
        """One message and its answer."""
        self.tell(kind, **fields)
        return self.hear()

    def tell(self, kind: str, **fields: object) -> None:
        """One message without answer."""
        data = cbor.dumps({"t": kind, **fields})
        self.connection.sendall(struct.pack(">I", len(data)) + data)

    def hear(self) -> Mapping[CborKey, CborValue]:
        """The next message. Raises ``NoAgent`` where the machine ends or stays silent, or the agent reports a fault."""
        (size,) = struct.unpack(">I", self._exactly(4))
        assert size <= _MAX_MESSAGE
        message = cbor.loads(self._exactly(size), max_bytes=_MAX_MESSAGE)
        assert isinstance(message, dict)
        if message["t"] == "fault":
            raise NoAgent(f"the agent failed: {message['text']!r}")
        return message

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self.connection.recv(size - len(data))
            except (TimeoutError, ConnectionResetError):
                chunk = b""
            if not chunk:
                raise NoAgent(f"no word from the agent; end of the console: {tail(self.console)}")
            data += chunk
        return data


@contextlib.contextmanager
def boot(setup: Setup, *, tpm: Swtpm, folder: Path) -> Iterator[Agent]:
    """Start a machine and wait for its agent; ends machine and TPM on the way out."""
    folder.mkdir(parents=True)
    command = _qemu(setup, folder)
    with _swtpm(tpm, folder):
        started = time.monotonic()
        with (folder / "qemu.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            connection = _connect(folder / _PORT, process)
            connection.settimeout(ANSWER_S)
            agent = Agent(connection, started, process, folder / CONSOLE)
            with connection:
                agent.hello = agent.hear()
                agent.ready_s = time.monotonic() - started
                agent.cpu_s = _cpu_s(process.pid)
                yield agent
                agent.tell("stop")
                process.wait(_STOP_S)
        finally:
            _end(process)


def refusal(setup: Setup, *, tpm: Swtpm, folder: Path) -> str:
    """Start a machine whose firmware should start nothing; the line in which it says so."""
    folder.mkdir(parents=True)
    with _swtpm(tpm, folder), (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(
            _qemu(setup, folder), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            until = time.monotonic() + ANSWER_S
            while time.monotonic() < until and process.poll() is None:
                text = (folder / CONSOLE).read_bytes() if (folder / CONSOLE).exists() else b""
                lines = text.decode("ascii", "replace").splitlines()
                for line in lines:
                    if "Linux version" in line:
                        raise AssertionError("a kernel started")
                    if "failed to load" in line and _REFUSED in line:
                        return line
                time.sleep(_POLL_S)
            raise NoAgent(f"the firmware refused nothing; end of the console: {tail(folder / CONSOLE)}")
        finally:
            _end(process)


def tail(console: Path) -> str:
    """The last lines a machine wrote, printable."""
    try:
        text = console.read_bytes()[-1500:].decode("ascii", "replace")
    except OSError:
        return "(nothing)"
    return "".join(char if char.isprintable() or char == "\n" else "." for char in text)


def _qemu(setup: Setup, folder: Path) -> list[str]:
    x86 = setup.arch.machine == "x86_64"
    (folder / "vars.fd").write_bytes(setup.firmware_vars)
    (folder / "application.tar").write_bytes(pad(setup.application, 512))
    drive = "if=pflash,format=raw,unit={unit},file={file}{more}"
    command = [setup.arch.qemu, "-nodefaults", "-nographic", "-no-reboot", "-m", str(MEMORY_MIB), "-smp", "1"]
    if x86:
        command += ["-machine", "q35,smm=on,accel=tcg", "-cpu", "max"]
        command += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    else:
        command += ["-machine", "virt,accel=tcg", "-cpu", "max,pauth-impdef=on"]
    command += ["-drive", drive.format(unit=0, file=setup.arch.firmware, more=",readonly=on")]
    command += ["-drive", drive.format(unit=1, file="vars.fd", more="")]
    command += ["-chardev", f"socket,id=tpm,path={_CONTROL}", "-tpmdev", "emulator,id=tpm0,chardev=tpm"]
    command += ["-device", "tpm-crb,tpmdev=tpm0" if x86 else "tpm-tis-device,tpmdev=tpm0"]
    command += ["-serial", f"file:{CONSOLE}"]
    command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={_PORT},server=on,wait=off"]
    command += ["-device", "virtserialport,chardev=agent,name=sits.boot"]
    command += ["-drive", "if=none,id=app,format=raw,readonly=on,file=application.tar"]
    command += ["-device", "virtio-blk-pci,drive=app"]
    if setup.kernel is not None:
        (folder / "kernel").write_bytes(setup.kernel)
        (folder / "initrd").write_bytes(setup.initrd)
        command += ["-kernel", "kernel", "-initrd", "initrd", "-append", setup.cmdline]
    if setup.esp is not None:
        (folder / "esp.img").write_bytes(setup.esp)
        command += ["-drive", "if=none,id=esp,format=raw,file=esp.img", "-device", "nvme,drive=esp,serial=esp"]
    return command


@contextlib.contextmanager
def _swtpm(tpm: Swtpm, folder: Path) -> Iterator[None]:
    """swtpm as QEMU wants it: no data socket, a control socket, and it ends when QEMU leaves."""
    command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={tpm.state_dir},mode=0600"]
    command += ["--ctrl", f"type=unixio,path={_CONTROL}", "--terminate", "--log", "file=swtpm.log,level=1"]
    with (folder / "swtpm.err").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _await(folder / _CONTROL, process)
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        _end(process)


def _connect(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    _await(path, process)
    return connect_unix(path, timeout_s=_STOP_S)


def _await(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _STOP_S
    while not path.is_socket():
        if process.poll() is not None or time.monotonic() > until:
            logs = "; ".join(tail(log) for log in sorted(path.parent.glob("*.log")))
            raise NoAgent(f"no socket {path.name}: {logs}")
        time.sleep(_POLL_S)


def _cpu_s(pid: int) -> float:
    """Processor time of a process so far: about what its boot takes on an idle machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5), fields 14 and 15


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
