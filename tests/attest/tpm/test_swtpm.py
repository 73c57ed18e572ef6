"""The simulated TPM: made once, private, one at a time, and never left behind."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from attest.tpm import Swtpm, TpmDevice, TpmError, TpmMissing
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm, template

ROOT = Path(__file__).resolve().parents[3]


def test_first_start_makes_a_tpm_with_its_own_ca(tmp_path: Path) -> None:
    template()  # skips where swtpm is absent
    with Swtpm(tmp_path / "state with spaces" / "tpm") as simulator:
        exported = simulator.export_ca(tmp_path / "trust")
        device = TpmDevice(simulator.tcti, deadline_s=DEADLINE_S)
        assert len(device.ek().certificates) == 1
        device.close()
    assert [path.name for path in exported] == ["swtpm-root.pem", "swtpm-issuer.pem"]
    assert all(path.read_text().startswith("-----BEGIN CERTIFICATE") for path in exported)
    assert not any("PRIVATE" in path.read_text() for path in (tmp_path / "trust").iterdir())


def test_state_is_private(swtpm: Swtpm) -> None:
    assert stat.S_IMODE(swtpm.state_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((swtpm.state_dir / "ca").stat().st_mode) == 0o700
    assert stat.S_IMODE(swtpm.socket_path.stat().st_mode) & 0o077 == 0


def test_start_and_stop_are_idempotent(swtpm: Swtpm) -> None:
    pid = swtpm.pid
    swtpm.start()
    assert swtpm.pid == pid
    swtpm.stop()
    swtpm.stop()
    assert swtpm.pid is None
    assert not swtpm.socket_path.exists()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_stop_ends_a_hung_process(swtpm: Swtpm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attest.tpm.swtpm._STOP_S", 0.05)
    assert swtpm.pid is not None
    os.kill(swtpm.pid, signal.SIGSTOP)
    swtpm.stop()
    assert swtpm.pid is None


def test_second_instance_is_refused(swtpm: Swtpm) -> None:
    with pytest.raises(TpmError) as caught:
        Swtpm(swtpm.state_dir).start()
    assert caught.value.code == "swtpm-in-use"
    assert caught.value.hint


def test_stale_socket_of_a_killed_simulator_is_replaced(swtpm: Swtpm) -> None:
    pid = swtpm.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert swtpm.socket_path.exists()
    successor = Swtpm(swtpm.state_dir)
    successor.start()
    assert successor.pid is not None
    successor.stop()


def test_damaged_state_is_a_typed_error(tmp_path: Path) -> None:
    simulator = fresh_swtpm(tmp_path / "tpm")
    (tmp_path / "tpm" / "tpm2-00.permall").write_bytes(b"not a TPM state")
    with pytest.raises(TpmError) as caught:
        _use(simulator)
    # Where it ends between its first connection and ours there is no socket any more.
    assert caught.value.code in ("swtpm-start", "tpm-lost", "tpm-refused", "tpm-unreachable")
    simulator.stop()


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TpmMissing) as caught:
        Swtpm(tmp_path / "tpm").start()
    assert caught.value.code == "swtpm-not-installed"
    assert "apt-get install" in caught.value.hint


def test_failed_setup_leaves_no_half_made_tpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "swtpm_setup").write_text("#!/bin/sh\nexit 3\n")
    (tools / "swtpm_setup").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with pytest.raises(TpmError) as caught:
        Swtpm(tmp_path / "tpm").start()
    assert caught.value.code == "swtpm-setup"
    assert "3" in caught.value.found
    assert not (tmp_path / "tpm" / "tpm2-00.permall").exists()


def test_missing_ca_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(TpmError) as caught:
        Swtpm(tmp_path).export_ca(tmp_path / "trust")
    assert caught.value.code == "swtpm-ca"


def test_simulator_dies_with_its_parent(tmp_path: Path) -> None:
    state = tmp_path / "tpm"
    fresh_swtpm(state)
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom attest.tpm import Swtpm\n"
        "s = Swtpm(Path(sys.argv[1])); s.start(); print(s.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    # The simulator inherits nothing we could wait for, so wait for its end itself.
    handle = os.pidfd_open(pid)
    try:
        parent.kill()
        parent.communicate()
        ended, _, _ = select.select([handle], [], [], 30)
        assert ended
    finally:
        os.close(handle)


def test_long_socket_path(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100) / "tpm"
    deep.parent.mkdir(parents=True)
    with fresh_swtpm(deep) as simulator:
        device = TpmDevice(simulator.tcti, deadline_s=DEADLINE_S)
        assert device.clock().reset_count >= 1
        device.close()


def _use(simulator: Swtpm) -> None:
    simulator.start()
    TpmDevice(simulator.tcti, deadline_s=DEADLINE_S).clock()
