"""``sitsctl attest seal``: authority, target, approvals, a trial and a withdrawal, as people would do them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from typer.testing import CliRunner

from attest.boot.policy import BootState, make_policy
from attest.command import GateKey
from attest.structures import object_name
from attest.tpm import Swtpm, TpmDevice
from sitsedge.cli.attest_commands import app
from sitsedge.supervisor.keys import write_public
from tests.attest.evidence.forge import RECORD
from tests.sitsedge.conftest import copy_mill

OK, REFUSED, USAGE = 0, 1, 2
POWERED_UP = {0: bytes(32), 7: bytes(32)}  # a simulated TPM that measured nothing


def run(*arguments: str | Path, code: int = OK) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["seal", *map(str, arguments), "--output", "json"])
    assert done.exit_code == code, (done.output, done.exception)
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def text(*arguments: str | Path, code: int = OK) -> str:
    done = CliRunner().invoke(app, ["seal", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def refusal(*arguments: str | Path, code: int) -> str:
    return str(run(*arguments, code=code)["error"]["code"])


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seal")
    copy_mill(folder / "mill")
    key = GateKey.create(folder / "policy.key")
    write_public(key.public, folder / "policy.pub")
    for name, pcrs in (("now", POWERED_UP), ("other", POWERED_UP | {7: b"\x07" * 32})):
        states = [BootState(label=name, pcrs=pcrs)]
        validity = {"not_before_ns": 0, "not_after_ns": 1 << 62}
        policy = make_policy(name="mill", version=1, states=states, tpm_kinds=["swtpm"], **validity)
        (folder / f"{name}.cose").write_bytes(policy.sign(key))
    text("authority", folder / "seal.key")
    return folder


@pytest.fixture(scope="module")
def device(plant: Path) -> tuple[str | Path, ...]:
    config = ("--config", plant / "mill" / "deployment.yaml", "--state-dir", plant / "state")
    return (*config, "--authority", plant / "seal.key.pub")


def approve(plant: Path, target: Path, policy: str, out: str, *more: str | Path, code: int = OK) -> dict[str, Any]:
    signed = ("--policy", plant / f"{policy}.cose", "--policy-key", plant / "policy.pub", "--key", plant / "seal.key")
    return run("approve", target, *signed, "--pcr", "0,7", "--out", plant / out, *more, code=code)


def test_states_are_approved_tried_and_withdrawn(plant: Path, device: tuple[str | Path, ...]) -> None:
    assert (plant / "seal.key").stat().st_mode & 0o777 == 0o600
    target, key = plant / "target", plant / "key.pem"
    made = run("target", *device, "--out", target, "--key-out", key)
    generation = made["generation"]
    numbers = load_pem_public_key(key.read_bytes()).public_numbers()  # type: ignore[union-attr]
    assert made["key"] == f"{numbers.x:064x}{numbers.y:064x}"  # type: ignore[union-attr]

    approve(plant, target, "other", "wrong-state")
    assert refusal("try", plant / "wrong-state", *device, code=REFUSED) == "seal-state"
    approved = approve(plant, target, "now", "first")
    assert [(a["label"], a["use"]) for a in approved["approvals"]] == [("now", "sign"), ("now", "unseal")]
    assert run("show", plant / "first") == approved
    assert "now: sign, generation" in text("show", plant / "first")
    tried = run("try", plant / "first", *device)
    assert (tried["uses"], tried["tpm_kind"]) == (["sign", "unseal"], "swtpm")

    approve(plant, target, "now", "second", "--generation", str(generation + 1), "--use", "sign")
    retire = ("retire", str(generation + 1), *device, "--approvals")
    assert refusal(*retire, plant / "first", code=REFUSED) == "seal-approvals"
    assert run("try", plant / "first", *device)["ok"], "nothing was withdrawn for approvals that are withdrawn by it"
    assert run(*retire, plant / "second")["generation"] == generation + 1
    assert refusal("try", plant / "first", *device, code=REFUSED) == "seal-stale"
    assert run("try", plant / "second", *device)["uses"] == ["sign"]


def test_secrets_of_an_enrolled_device_go_to_its_own_tpm_only(plant: Path, device: tuple[str | Path, ...]) -> None:
    target, record = plant / "enrolled-target", plant / "state" / "trust" / "device-record.cbor"
    run("target", *device, "--out", target)
    approve(plant, target, "now", "enrolled")
    with Swtpm(plant / "state" / "tpm") as simulator, TpmDevice(simulator.tcti) as tpm:
        own = object_name(tpm.ek().public)
    key = GateKey.load(plant / "policy.key")
    record.write_bytes(dataclasses.replace(RECORD, ek_name=own).sign(key))
    assert run("try", plant / "enrolled", *device)["uses"] == ["sign", "unseal"]
    record.write_bytes(dataclasses.replace(RECORD, ek_name=b"\x00\x0b" + bytes(32)).sign(key))
    assert refusal("try", plant / "enrolled", *device, code=3) == "tpm-ek"
    record.unlink()


def test_policy_of_another_key_is_not_approved(plant: Path, tmp_path: Path, device: tuple[str | Path, ...]) -> None:
    run("target", *device, "--out", tmp_path / "target")
    write_public(GateKey.create(tmp_path / "other.key").public, tmp_path / "other.pub")
    signed = ("--policy", plant / "now.cose", "--policy-key", tmp_path / "other.pub", "--key", plant / "seal.key")
    data = run("approve", tmp_path / "target", *signed, "--pcr", "0", "--out", tmp_path / "never", code=REFUSED)
    assert data["error"]["code"] == "cose-kid"
    assert "now.cose" in data["error"]["message"]
    assert not (tmp_path / "never").exists()


def test_an_approval_over_pcrs_that_nothing_was_measured_into_is_warned_of(
    plant: Path, tmp_path: Path, device: tuple[str | Path, ...]
) -> None:
    run("target", *device, "--out", tmp_path / "target")
    signed = ("--policy-key", plant / "policy.pub", "--key", plant / "seal.key", "--pcr", "0,7")
    for name, warned in (("now", True), ("other", False)):
        asked = ("approve", tmp_path / "target", "--policy", plant / f"{name}.cose", *signed, "--out", tmp_path / name)
        assert ("nothing was measured into the chosen PCRs" in text(*asked)) is warned


@pytest.mark.parametrize(("pcr", "code"), [("0,99", "seal-pcrs"), ("", "seal-pcrs"), ("0,11", "seal-pcrs")])
def test_pcrs_that_the_policy_does_not_fix_are_refused(
    plant: Path, tmp_path: Path, device: tuple[str | Path, ...], pcr: str, code: str
) -> None:
    target = tmp_path / "target"
    run("target", *device, "--out", target)
    signed = ("--policy", plant / "now.cose", "--policy-key", plant / "policy.pub", "--key", plant / "seal.key")
    assert refusal("approve", target, *signed, "--pcr", pcr, "--out", tmp_path / "x", code=USAGE) == code


def test_key_that_others_can_read_is_refused(plant: Path, tmp_path: Path, device: tuple[str | Path, ...]) -> None:
    open_key = tmp_path / "open.key"
    open_key.write_bytes((plant / "seal.key").read_bytes())
    open_key.chmod(0o644)
    run("target", *device, "--out", tmp_path / "target")
    signed = ("--policy", plant / "now.cose", "--policy-key", plant / "policy.pub", "--key", open_key)
    refused = refusal("approve", tmp_path / "target", *signed, "--pcr", "0", "--out", tmp_path / "x", code=USAGE)
    assert refused == "seal-key-file"


def test_files_of_another_kind_are_refused(plant: Path, tmp_path: Path, device: tuple[str | Path, ...]) -> None:
    run("target", *device, "--out", tmp_path / "target")
    assert refusal("show", tmp_path / "target", code=USAGE) == "seal-file"
    assert refusal("show", tmp_path / "absent", code=USAGE) == "file-missing"
    signed = ("--policy", plant / "now.cose", "--policy-key", plant / "policy.pub", "--key", plant / "seal.key")
    asked = ("approve", tmp_path / "target", *signed, "--pcr", "0", "--out", tmp_path / "x")
    assert "sign or unseal" in text(*asked, "--use", "decrypt", code=USAGE)
    assert text(*asked, "--use", "unseal")
