"""Every wrong input is one line and a hint, with the documented exit code, and nothing is left running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from attest.command import GateKey
from sitsedge.supervisor.keys import KeyFileError, authority
from sitsedge.supervisor.state import FOLDERS
from tests.sitsedge.conftest import replace
from tests.support.processes import of_state

OK, REFUSED, USAGE, ENVIRONMENT = 0, 1, 2, 3


def sitsctl(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real command line in a process of its own."""
    command = [sys.executable, "-m", "sitsedge.cli.entry", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **(env or {})}
    )


def deploy(mill: Path, state: Path, *more: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return sitsctl("deploy", "--config", mill, "--state-dir", state, *more, env=env)


def assert_nothing_runs(state: Path) -> None:
    assert of_state(state) == {}


def test_dry_run_starts_nothing_and_leaves_nothing(mill: Path, tmp_path: Path) -> None:
    done = deploy(mill, tmp_path / "state", "--dry-run")
    assert done.returncode == OK, done.stderr
    assert "nothing was started" in done.stdout
    assert not (tmp_path / "state").exists()


def test_dry_run_as_json(mill: Path, tmp_path: Path) -> None:
    done = deploy(mill, tmp_path / "state", "--dry-run", "--output", "json")
    assert json.loads(done.stdout)["started"] is False


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("profile: development", "profil: development", ["unknown key 'profil'", "deployment.yaml:4:1"]),
        ("period_ms: 10.0", "period_ms: ten", ["cycle.period_ms", "'ten'"]),
        ("model.onnx", "modell.onnx", ["no such file 'modell.onnx'", ":10:"]),
        ("initial: AUTO", "initial: FULL", ["mode.initial", "'FULL'"]),
    ],
    ids=["unknown-key", "wrong-type", "missing-file", "unknown-mode"],
)
def test_a_wrong_file_is_exit_2_with_file_line_column(
    mill: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    replace(mill, old, new)
    done = deploy(mill, tmp_path / "state")
    assert done.returncode == USAGE
    for word in words:
        assert word in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_unit_mismatch_is_exit_2(mill: Path, tmp_path: Path) -> None:
    replace(mill, "roll_force_dev, unit: MN", "roll_force_dev, unit: kN")
    done = deploy(mill, tmp_path / "s")
    assert done.returncode == USAGE
    assert "module's unit 'MN'" in done.stderr
    assert_nothing_runs(tmp_path / "s")


def test_an_empty_range_is_exit_2(mill: Path, tmp_path: Path) -> None:
    replace(mill.parent / "limits.yaml", "range: [-0.25, 0.25]", "range: [0.25, 0.25]")
    done = deploy(mill, tmp_path / "s")
    assert done.returncode == USAGE, done.stderr
    assert "limits.yaml:" in done.stderr
    assert_nothing_runs(tmp_path / "s")


def test_missing_swtpm_is_one_line_and_a_hint(mill: Path, tmp_path: Path) -> None:
    done = deploy(mill, tmp_path / "s", env={"PATH": str(tmp_path)})
    assert done.returncode == ENVIRONMENT
    assert "swtpm-not-installed" in done.stderr
    assert "apt-get install swtpm" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_tpm_where_none_may_be_simulated(mill: Path, tmp_path: Path) -> None:
    replace(mill, "allow_simulated: true", "allow_simulated: false")
    done = deploy(mill, tmp_path / "s")
    assert done.returncode == ENVIRONMENT
    assert "tpm-none" in done.stderr


def test_a_port_in_use_is_named(mill: Path, tmp_path: Path) -> None:
    port = int(mill.read_text().split("port: ")[1].split()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", port))
        done = deploy(mill, tmp_path / "s")
    assert done.returncode == ENVIRONMENT
    assert f"127.0.0.1:{port}" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_key_that_others_can_read_is_refused(mill: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    for name in FOLDERS:
        (state / name).mkdir(parents=True)
    GateKey.create(state / "keys" / "gate.key")
    (state / "keys" / "gate.key").chmod(0o644)
    done = deploy(mill, state)
    assert done.returncode == ENVIRONMENT
    assert "0600" in done.stderr
    assert_nothing_runs(state)


def test_a_key_that_is_no_key_is_refused(mill: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    for name in FOLDERS:
        (state / name).mkdir(parents=True)
    key = state / "keys" / "gate.key"
    key.write_text("not a key")
    key.chmod(0o600)
    done = deploy(mill, state)
    assert done.returncode == ENVIRONMENT
    assert "key-file" in done.stderr


def test_an_expired_certificate_is_named(mill: Path, tmp_path: Path) -> None:
    import datetime as dt

    from fieldbus.opcua import create_identity

    state = tmp_path / "s"
    for name in FOLDERS:
        (state / name).mkdir(parents=True)
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=30)
    create_identity(state / "pki", "gate", application_uri="urn:test:gate", days=7, not_before=long_ago)
    done = deploy(mill, state)
    assert done.returncode == ENVIRONMENT
    assert "expired" in done.stderr
    assert "hint:" in done.stderr
    assert_nothing_runs(state)


def test_attestation_none_is_refused_in_production(mill: Path, tmp_path: Path) -> None:
    text = mill.read_text().replace("profile: development", "profile: production")
    text = text.replace("  fields:", "  unsecured_because: a test has no network\n  fields:")
    text = text.replace("allow_simulated: true", "allow_simulated: false").split("simulation:")[0]
    mill.write_text(text)
    done = deploy(mill, tmp_path / "s", "--attestation-mode", "none")
    assert done.returncode == ENVIRONMENT
    assert "attestation-mode" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_production_profile_makes_no_keys(mill: Path, tmp_path: Path) -> None:
    text = mill.read_text().replace("profile: development", "profile: production")
    text = text.replace("  fields:", "  unsecured_because: a test has no network\n  fields:")
    text = text.replace("allow_simulated: true", "allow_simulated: false").split("simulation:")[0]
    mill.write_text(text)
    done = deploy(mill, tmp_path / "s")
    assert done.returncode == ENVIRONMENT
    assert "publisher.pub" in done.stderr
    assert "never makes its own keys" in done.stderr


def test_a_production_device_holds_no_key_of_the_plant(tmp_path: Path) -> None:
    GateKey.create(tmp_path / "policy.key")
    with pytest.raises(KeyFileError, match=r"policy\.key on a device in production"):
        authority(tmp_path / "policy.key", tmp_path / "policy.pub", development=False, what="boot policy")
    with pytest.raises(KeyFileError, match=r"no publisher\.pub"):
        authority(tmp_path / "publisher.key", tmp_path / "publisher.pub", development=False, what="publisher")
    public, private = authority(tmp_path / "policy.key", tmp_path / "policy.pub", development=True, what="boot policy")
    assert private is not None
    (tmp_path / "policy.key").unlink()
    known = authority(tmp_path / "policy.key", tmp_path / "policy.pub", development=False, what="boot policy")
    assert known == (public, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ("deploy",),
        ("deploy", "--config", "x.yaml", "--attestation-mode", "tpm3"),
        ("deploy", "--config", "x.yaml", "--verify-on-boot", "maybe"),
        ("demo", "--attack", "nonsense"),
        ("demo", "--for", "soon"),
        ("deploy", "--config", "x.yaml", "--for", "-1"),
        ("deploy", "--config", "x.yaml", "--for", "nan"),
        ("mode", "BOGUS", "--state-dir", "/nowhere"),
        ("mode", "OFF", "--state-dir", "/nowhere", "--reason", "x" * 70_000),
        ("watch", "--state-dir", "/nowhere"),
        ("nothing",),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    done = sitsctl(*arguments)
    assert done.returncode == USAGE
    assert "Traceback" not in done.stderr


def test_status_without_a_deployment_is_exit_1(mill: Path, tmp_path: Path) -> None:
    done = sitsctl("status", "--state-dir", tmp_path / "none", "--output", "json")
    assert done.returncode == REFUSED
    assert json.loads(done.stdout)["running"] is False
    done = sitsctl("status")
    assert done.returncode == USAGE
    assert "no-deployment" in done.stderr


def test_mode_without_a_gate_is_one_line_and_a_hint(tmp_path: Path) -> None:
    done = sitsctl("mode", "SHADOW", "--state-dir", tmp_path)
    assert done.returncode == ENVIRONMENT
    assert "gate-unreachable" in done.stderr


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("model.onnx", "garbage", "onnx"),
        ("calibration.csv", "", "calibration"),
        ("limits.yaml", "nonsense: [", "limits.yaml"),
    ],
)
def test_a_dry_run_compiles_the_module(mill: Path, tmp_path: Path, file: str, content: str, words: str) -> None:
    (mill.parent / file).write_text(content)
    done = deploy(mill, tmp_path / "s", "--dry-run")
    assert done.returncode == USAGE
    assert words in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("module", "list"), ("watch",), ("status",), ("mode", "OFF")])
def test_looking_at_a_deployment_never_makes_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = sitsctl(*command, "--state-dir", tmp_path / "absent")
    assert done.returncode != OK
    assert not (tmp_path / "absent").exists()


def test_a_terminal_that_knows_no_micrometres_is_no_error(mill: Path, tmp_path: Path) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = sitsctl("audit", "verify", tmp_path, env=env)
    assert done.returncode == REFUSED
    assert "Traceback" not in done.stderr


def test_audit_of_nothing_is_refused(tmp_path: Path) -> None:
    done = sitsctl("audit", "verify", tmp_path, "--output", "json")
    assert done.returncode == REFUSED
    assert json.loads(done.stdout)["ok"] is False
