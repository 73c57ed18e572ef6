"""A simulated TPM (swtpm) on a private Unix socket, for deployments that allow one.

Everything lives in one directory of mode 0700: the TPM's state, its socket, its log and the local CA whose root
goes into the trust store. The process dies with the thread that started it (``PR_SET_PDEATHSIG``), so start it
from a thread that lives as long as the daemon. A simulated TPM protects nothing against whoever owns its disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from attest.tpm.errors import TpmError, TpmLost, TpmMissing
from attest.tpm.transport_unix import connect_unix

SOCKET_NAME: Final = "tpm.sock"
_STATE_NAME: Final = "tpm2-00.permall"
_CA_FOLDER: Final = "ca"
_LOG_NAME: Final = "swtpm.log"
_SETUP_LOG_NAME: Final = "swtpm-setup.log"
_READY_S: Final = 10.0  # ready in about 10 ms on an idle machine
_SETUP_S: Final = 120.0  # about 1 s on an idle machine; RSA key search has a long tail
_STOP_S: Final = 3.0
_POLL_S: Final = 0.002
_PACKAGES_HINT: Final = "apt-get install swtpm swtpm-tools"


class Swtpm:
    """One simulated TPM with its state in ``state_dir``; made on first start."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir.absolute()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Swtpm:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def socket_path(self) -> Path:
        """The data socket; swtpm serves one connection at a time."""
        return self.state_dir / SOCKET_NAME

    @property
    def tcti(self) -> str:
        """The TCTI text for ``TpmDevice``."""
        return f"swtpm:path={self.socket_path}"

    @property
    def pid(self) -> int | None:
        """Process id while running."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        """Make the TPM on first use, start it and return once it accepts connections.

        Raises ``TpmMissing`` (not installed) or ``TpmError`` (``swtpm-in-use``, ``swtpm-setup``, ``swtpm-start``).
        """
        if self.pid is not None:
            return
        swtpm, setpriv = _program("swtpm", _PACKAGES_HINT), _program("setpriv", "apt-get install util-linux")
        _private_folder(self.state_dir)
        self._refuse_running()
        if not (self.state_dir / _STATE_NAME).exists():
            self._setup()
        command = [setpriv, "--pdeathsig", "KILL", "--", swtpm, "socket", "--tpm2"]
        command += ["--tpmstate", "dir=.,mode=0600", "--server", f"type=unixio,path={SOCKET_NAME},mode=0600"]
        command += ["--flags", "not-need-init,startup-clear", "--log", f"file={_LOG_NAME},level=1"]
        # A session of its own: Ctrl-C must reach the daemon, which still needs its TPM to shut down in order.
        self._process = subprocess.Popen(
            command,
            cwd=self.state_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_ready()

    def stop(self) -> None:
        """Stop the process and remove the socket; safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.socket_path.unlink(missing_ok=True)

    def ca_certificates(self) -> tuple[Path, ...]:
        """The local CA's root and issuer certificate (PEM files)."""
        folder = self.state_dir / _CA_FOLDER
        return (folder / "swtpm-localca-rootca-cert.pem", folder / "issuercert.pem")

    def export_ca(self, trust_dir: Path) -> tuple[Path, ...]:
        """Copy the local CA's certificates (never its keys) into ``trust_dir`` as ``swtpm-*.pem``."""
        trust_dir.mkdir(parents=True, exist_ok=True)
        written = []
        for source, name in zip(self.ca_certificates(), ("swtpm-root.pem", "swtpm-issuer.pem"), strict=True):
            certificate = x509.load_pem_x509_certificate(_read(source))
            target = trust_dir / name
            target.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
            written.append(target)
        return tuple(written)

    def _refuse_running(self) -> None:
        try:
            connect_unix(self.socket_path, timeout_s=_STOP_S).close()
        except (FileNotFoundError, ConnectionRefusedError):
            self.socket_path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise TpmError(
                "swtpm-socket", found=f"{self.socket_path}: {error.strerror or error}", expected="a free socket path"
            ) from error
        raise TpmError(
            "swtpm-in-use",
            found=f"another swtpm on {self.socket_path}",
            expected="a free socket",
            hint="stop the other deployment, or choose another state directory",
        )

    def _setup(self) -> None:
        setup = _program("swtpm_setup", _PACKAGES_HINT)
        localca = _program("swtpm_localca", _PACKAGES_HINT)
        ca = self.state_dir / _CA_FOLDER
        _private_folder(ca)
        settings = {
            "localca.conf": f"statedir = {ca}\nsigningkey = {ca}/signkey.pem\n"
            f"issuercert = {ca}/issuercert.pem\ncertserial = {ca}/certserial\n",
            "localca.options": "--platform-manufacturer SITS\n--platform-version 1\n--platform-model swtpm\n",
            "setup.conf": f"create_certs_tool = {localca}\ncreate_certs_tool_config = {ca}/localca.conf\n"
            f"create_certs_tool_options = {ca}/localca.options\nactive_pcr_banks = sha256\n",
        }
        for name, text in settings.items():
            (ca / name).write_text(text, encoding="utf-8")
        fresh = self.state_dir / "new"  # a set-up cut short must not look like a finished one
        shutil.rmtree(fresh, ignore_errors=True)
        _private_folder(fresh)
        command = [setup, "--tpm2", "--tpmstate", str(fresh), "--create-ek-cert", "--pcr-banks", "sha256"]
        command += ["--config", str(ca / "setup.conf"), "--logfile", str(self.state_dir / _SETUP_LOG_NAME)]
        code = _run_group(command, timeout_s=_SETUP_S)
        if code is None:
            raise TpmError("swtpm-setup", found=f"no end in {_SETUP_S:g} s", expected="a new TPM")
        if code != 0 or not (fresh / _STATE_NAME).exists():
            raise TpmError(
                "swtpm-setup",
                found=f"exit code {code}: {_last_line(self.state_dir / _SETUP_LOG_NAME)}",
                expected="a new TPM with EK certificates",
                hint=f"see {self.state_dir / _SETUP_LOG_NAME}",
            )
        (fresh / _STATE_NAME).rename(self.state_dir / _STATE_NAME)
        shutil.rmtree(fresh)

    def _await_ready(self) -> None:
        process = self._process
        assert process is not None
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            if process.poll() is not None:
                self._process = None
                raise TpmError(
                    "swtpm-start",
                    found=f"exit code {process.returncode}: {_last_line(self.state_dir / _LOG_NAME)}",
                    expected="a running swtpm",
                    hint=f"see {self.state_dir / _LOG_NAME}; another swtpm may hold this state",
                )
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                connect_unix(self.socket_path, timeout_s=_READY_S).close()
                return
            time.sleep(_POLL_S)
        self.stop()
        raise TpmLost("swtpm-start", found=f"no socket in {_READY_S:g} s", expected="a running swtpm")


def _program(name: str, hint: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise TpmMissing("swtpm-not-installed", found=f"no {name} on PATH", expected=name, hint=hint)
    return path


def _run_group(command: list[str], *, timeout_s: float) -> int | None:
    """Exit code of a program that starts others, ``None`` past the time; none of them outlives this call.

    swtpm_setup starts an swtpm of its own, which would stay if only swtpm_setup were ended by an interruption.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        umask=0o077,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)  # noqa: PTH101 - also where it existed before with a looser mode


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TpmError(
            "swtpm-ca",
            found=f"{file}: {error.strerror or error}",
            expected="the local CA's certificate",
            hint="start the simulated TPM once; it makes its CA then",
        ) from error


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "no log"
    return lines[-1][:200] if lines else "empty log"
