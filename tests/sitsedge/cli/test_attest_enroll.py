"""Enrolment through files and paper, revocation and EAR results: the commands against a simulated TPM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from attest import cose
from attest.command import GateKey
from attest.evidence.record import parse_record
from attest.evidence.revocation import parse_list
from attest.tpm.authority import create_authority, public_pem
from sitsedge.cli.attest_commands import app
from sitsedge.supervisor.keys import write_public
from tests.sitsedge.conftest import copy_mill

OK, REFUSED, USAGE, ENVIRONMENT = 0, 1, 2, 3


def run(*arguments: str | Path, code: int = OK) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture(scope="module")
def plant(mill_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device and a verifier who exchange files; what one test makes, the next uses."""
    return tmp_path_factory.mktemp("plant")


@pytest.fixture(scope="module")
def mill_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_mill(tmp_path_factory.mktemp("example") / "mill").parent


@pytest.mark.parametrize("form", ["bytes", "paper"])
def test_a_device_is_enrolled_by_files(mill_folder: Path, plant: Path, form: str) -> None:
    config, state = mill_folder / "deployment.yaml", plant / "state"
    key = plant / "policy.key"
    if not key.exists():
        GateKey.create(key)
    paper = ["--paper"] if form == "paper" else []
    folder = plant / form
    folder.mkdir()
    device = ("--config", config, "--state-dir", state)
    run("enroll", "request", *device, "--out", folder / "request", *paper)
    ca = state / "trust" / "tpm-ca"
    sent = ("--out", folder / "challenge", "--pending", folder / "pending")
    run("enroll", "challenge", folder / "request", "--ca", ca, *sent, *paper)
    run("enroll", "answer", folder / "challenge", *device, "--out", folder / "answer", *paper)
    who = ("--device-id", "edge-1", "--enrolled-by", "a person", "--key", key)
    record_file = folder / "device-record.cbor"
    finish = ("enroll", "finish", folder / "answer", "--pending", folder / "pending", *who, "--output", "json")
    data = json.loads(run(*finish, "--out", record_file).stdout)
    record, message = parse_record(record_file.read_bytes())
    cose.verify(message, public=GateKey.load(key).public)
    assert (data["device_id"], data["tpm_kind"], data["record_id"]) == ("edge-1", "swtpm", record.record_id.hex())
    assert (folder / "request").read_bytes().startswith(b"-----BEGIN") is (form == "paper")
    assert run(*finish, "--out", record_file, code=USAGE).stdout.startswith(
        '{"ok": false, "error": {"code": "file-exists"'
    )
    if form == "bytes":
        assert "credential" not in data
        answer = bytearray((folder / "answer").read_bytes())
        answer[-1] ^= 1
        (folder / "wrong").write_bytes(answer)
        wrong = ("enroll", "finish", folder / "wrong", "--pending", folder / "pending", *who, "--output", "json")
        refused = run(*wrong, "--out", folder / "never", code=REFUSED)
        assert json.loads(refused.stdout)["error"]["code"] == "credential"
        assert not (folder / "never").exists()
    else:
        replaced = run(*finish, "--replaces", plant / "bytes" / "device-record.cbor", "--out", folder / "spare")
        old, _ = parse_record((plant / "bytes" / "device-record.cbor").read_bytes())
        assert json.loads(replaced.stdout)["replaces"] == old.record_id.hex()
        assert "revoke the old record" in replaced.stderr


def test_a_record_is_revoked_and_evidence_is_judged_with_it(mill_folder: Path, plant: Path, tmp_path: Path) -> None:
    config, state = mill_folder / "deployment.yaml", plant / "state"
    enrolled = json.loads(run("enroll", "--config", config, "--state-dir", state, "--output", "json").stdout)
    evidence = tmp_path / "evidence"
    nonce = "ab" * 32
    run("quote", "--config", config, "--state-dir", state, "--nonce", nonce, "--out", evidence)
    digests = ("--module", "00" * 32, "--deployment", "00" * 32)
    checked = ("verify", evidence, "--nonce", nonce, "--trust", state / "trust", *digests, "--output", "json")
    verdict = json.loads(run(*checked, code=REFUSED).stdout)
    failed = [check["name"] for check in verdict["checks"] if not check["ok"]]
    assert failed == ["module-digest", "deployment-digest"]  # this test did not say which ones to expect
    authority = tmp_path / "seal.pub"
    authority.write_bytes(public_pem(create_authority(tmp_path / "seal.key")))
    verdict = json.loads(run(*checked, "--seal-authority", authority, code=REFUSED).stdout)
    assert [check["name"] for check in verdict["checks"] if not check["ok"]] == [*failed, "command-key"]

    listed, key = tmp_path / "revocations.cose", state / "keys" / "policy.key"
    record = state / "trust" / "device-record.cbor"
    signing = ("--list", listed, "--key", key, "--days", "30", "--output", "json")
    made = json.loads(run("revoke", record, *signing, "--reason", "stolen").stdout)
    assert (made["version"], [entry["record_id"] for entry in made["revoked"]]) == (1, [enrolled["record_id"]])
    ear = tmp_path / "ear.json"
    more = ("--revocations", listed, "--min-policy-version", "2", "--ear", ear)
    verdict = json.loads(run(*checked, *more, code=REFUSED).stdout)
    failed = [check["name"] for check in verdict["checks"] if not check["ok"]]
    assert failed == ["record-revocation", "boot-policy-version", "module-digest", "deployment-digest"]
    assert "revoked: stolen" in json.dumps(verdict)
    appraisal = json.loads(ear.read_text())["submods"]["sits-edge"]
    assert appraisal["ear_status"] == "contraindicated"
    assert appraisal["ear_trustworthiness_vector"]["instance-identity"] == 96
    token = tmp_path / "ear.jwt"
    run(*checked, "--ear", token, "--ear-key", key, code=REFUSED)
    assert token.read_text().count(".") == 2

    renewed = json.loads(run("revoke", *signing).stdout)
    assert (renewed["version"], renewed["revoked"]) == (2, made["revoked"])
    assert parse_list(listed.read_bytes())[0].version == 2
    assert "stolen" in run("revocations", listed).stdout

    other = tmp_path / "other.key"
    write_public(GateKey.create(other).public, tmp_path / "other.pub")
    refused = run("revoke", record, "--list", listed, "--key", other, "--days", "30", code=ENVIRONMENT)
    assert "revocation-list" in refused.stderr
    assert parse_list(listed.read_bytes())[0].version == 2


def test_wrong_words_are_a_matter_of_usage(tmp_path: Path) -> None:
    assert "--config" in run("enroll", code=USAGE).stderr
    assert "file-missing" in run("revocations", tmp_path / "none", code=USAGE).stderr
    (tmp_path / "record").write_bytes(b"no record")
    GateKey.create(tmp_path / "key")
    signing = ("--list", tmp_path / "list", "--key", tmp_path / "key", "--days", "1")
    assert "cose-format" in run("revoke", tmp_path / "record", *signing, code=ENVIRONMENT).stderr
    assert not (tmp_path / "list").exists()
