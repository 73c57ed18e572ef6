"""``sitsctl proof setup``, ``contribute``, ``verify-setup``, ``export`` and ``import``: a whole ceremony by files."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attest.proof import Groth16Prover, NativeVerifier, ceremony, failed_check, key_hash
from attest.proof.keys import VerificationKey
from sitsedge.cli.main import app
from tests.attest.proof.support import CTX, toy_circuit
from tests.attest.proof.trapdoor import Trapdoor

OK, REFUSED, USAGE, ENVIRONMENT = 0, 1, 2, 3


def run(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["proof", *map(str, arguments)], input=stdin)
    return done.exit_code, done.stdout, done.stderr


def told(*arguments: str | Path, stdin: bytes = b"", code: int = OK) -> dict[str, Any]:
    """What the command says as JSON."""
    found, out, err = run(*arguments, "--output", "json", stdin=stdin)
    assert found == code, err
    data: dict[str, Any] = json.loads(out)
    return data


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``toy.circuit``, ``pot`` (one contributor), ``ceremony`` (two and a beacon), ``open`` (before the beacon)."""
    folder = tmp_path_factory.mktemp("ceremony")
    circuit = toy_circuit().encode()
    (folder / "toy.circuit").write_bytes(circuit)
    assert run("setup", folder / "pot", "--power", str(ceremony.power_for(circuit)))[0] == OK
    told("contribute", folder / "pot", "--name", "ann")
    code, _, err = run("setup", folder / "ceremony", "--circuit", folder / "toy.circuit", "--phase1", folder / "pot")
    assert code == OK, err
    told("contribute", folder / "ceremony", "--name", "vendor")
    told("contribute", folder / "ceremony", "--name", "operator", "--entropy-file", "-", stdin=b"dice 3 1 4")
    shutil.copy(folder / "ceremony" / "transcript.sitsct", folder / "open")
    told("contribute", folder / "ceremony", "--name", "draw", "--beacon", "00ff", "--iterations", "11")
    return folder


def test_a_whole_ceremony(base: Path) -> None:
    data = told("verify-setup", base / "ceremony")
    assert (data["ok"], data["failed"], data["contributors"]) == (True, None, 2)
    assert [(c["name"], c["beacon"]) for c in data["contributions"]] == [
        ("vendor", False),
        ("operator", False),
        ("draw", True),
    ]
    assert data["phase1"]["not_rechecked"] == []
    assert run("export", base / "ceremony", base / "keys")[0] == OK
    proving, key = (base / "keys" / "proving.key").read_bytes(), (base / "keys" / "verification.key").read_bytes()
    assert key_hash(key).hex() == data["vk_sha256"]
    proven = Groth16Prover(toy_circuit().encode(), proving).prove((3, -5), CTX)
    verifier = NativeVerifier(key, vk_sha256=key_hash(key))
    assert failed_check(verifier, (3, -5), proven.outputs, CTX, proven.proof) is None
    assert run("import", base / "keys" / "verification_key.json", base / "again.key")[0] == OK
    assert (base / "again.key").read_bytes() == key


def test_the_report_for_people_names_everybody_and_says_what_was_not_checked(base: Path, tmp_path: Path) -> None:
    told("contribute", base / "pot", "--name", "bob", "--out", tmp_path / "two")
    assert run("export", tmp_path / "two", tmp_path / "two.ptau")[0] == OK
    code, out, _ = run("import", tmp_path / "two.ptau", tmp_path / "cut", "--power", "2")
    assert code == OK
    assert "1. ann" in out
    assert "2. bob" in out
    assert "not re-checked: the powers that contributions before the last left behind" in out
    assert "not re-checked: the last contribution's hashes: cut down" in out
    code, out, _ = run("verify-setup", base / "ceremony")
    assert (code, out.splitlines()[-1]) == (OK, "verified")
    assert "3. draw (beacon)" in out
    assert "of 2 contributors" in out


def test_a_stranger_s_name_does_not_steer_the_terminal(base: Path, tmp_path: Path) -> None:
    """snarkjs takes any name; ours are checked, so one is put into the exported file."""
    told("contribute", base / "pot", "--name", "mal.ory", "--out", tmp_path / "two")
    assert run("export", tmp_path / "two", tmp_path / "two.ptau")[0] == OK
    data = (tmp_path / "two.ptau").read_bytes()
    (tmp_path / "two.ptau").write_bytes(data.replace(b"mal.ory", b"mal\x1bory"))
    code, out, _ = run("verify-setup", tmp_path / "two.ptau")
    assert code == OK
    assert "2. mal\\x1bory" in out
    assert "\x1b" not in out


def test_a_contributor_finds_the_own_hash(base: Path, tmp_path: Path) -> None:
    data = told("contribute", base / "open", "--name", "x", "--out", tmp_path / "longer")
    digest = data["contribution"]
    files = ("--circuit", base / "toy.circuit", "--phase1", base / "pot")
    assert told("verify-setup", tmp_path / "longer", *files, "--contribution", digest)["ok"]
    data = told("verify-setup", base / "ceremony", "--contribution", digest, code=REFUSED)
    assert (data["ok"], data["failed"]) == (False, "setup-missing")
    code, _, err = run("verify-setup", tmp_path / "longer")
    assert (code, "--phase1" in err) == (USAGE, True)


def test_the_first_failing_step_is_named(base: Path, tmp_path: Path) -> None:
    data = bytearray((base / "open").read_bytes())
    data[data.index(b"operator")] ^= 0x20
    (tmp_path / "bad").write_bytes(data)
    files = ("--circuit", base / "toy.circuit", "--phase1", base / "pot")
    code, out, _ = run("verify-setup", tmp_path / "bad", *files)
    assert code == REFUSED
    assert "REFUSED: setup-proof: contribution 2" in out
    assert "Operator" in out
    assert told("verify-setup", tmp_path / "bad", *files, code=REFUSED)["failed"] == "setup-proof"
    code, _, err = run("contribute", tmp_path / "bad", "--name", "x")
    assert (code, "setup-proof" in err) == (REFUSED, True)


def test_a_ceremony_without_contributors_gives_no_keys(base: Path, tmp_path: Path) -> None:
    files = ("--circuit", base / "toy.circuit", "--phase1", base / "pot")
    assert run("setup", tmp_path / "empty", *files)[0] == OK
    assert told("verify-setup", tmp_path / "empty", code=REFUSED)["failed"] == "setup-empty"
    code, _, err = run("export", tmp_path / "empty", tmp_path / "keys")
    assert (code, "setup-empty" in err) == (REFUSED, True)
    assert not (tmp_path / "keys").exists()


def test_a_phase_1_alone(base: Path, tmp_path: Path) -> None:
    data = told("verify-setup", base / "pot")
    assert [c["name"] for c in data["phase1"]["contributions"]] == ["ann"]
    assert run("setup", tmp_path / "new", "--power", "2", "--curve", "bls12-381")[0] == OK
    assert told("verify-setup", tmp_path / "new", code=REFUSED)["failed"] == "phase1-empty"


def test_a_foreign_key_with_a_fixed_gamma_is_taken_only_when_asked(base: Path, tmp_path: Path) -> None:
    key = Trapdoor.make(toy_circuit().curve, 4).key()
    text = json.loads((base / "keys" / "verification_key.json").read_text()) if (base / "keys").exists() else None
    assert key.n_public == 4
    if text is None:
        assert run("export", base / "ceremony", base / "keys")[0] == OK
        text = json.loads((base / "keys" / "verification_key.json").read_text())
    g2 = toy_circuit().curve.parameters.g2_generator
    text["vk_gamma_2"] = [[str(c) for c in g2.x], [str(c) for c in g2.y], ["1", "0"]]
    (tmp_path / "fixed.json").write_text(json.dumps(text))
    code, _, err = run("import", tmp_path / "fixed.json", tmp_path / "key")
    assert (code, "key-lint" in err) == (REFUSED, True)
    assert run("import", tmp_path / "fixed.json", tmp_path / "key", "--snarkjs")[0] == OK
    assert VerificationKey.curve_of((tmp_path / "key").read_bytes()) is toy_circuit().curve


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["setup", "new"], USAGE, "--power"),
        (["setup", "new", "--power", "4", "--circuit", "toy.circuit"], USAGE, "--phase1"),
        (["setup", "new", "--circuit", "toy.circuit"], USAGE, "--phase1"),
        (["setup", "new", "--power", "21"], USAGE, "got power 21, expected 2 to 20"),
        (["setup", "new", "--power", "4", "--curve", "bn128"], USAGE, "curve-unknown"),
        (["setup", "pot", "--power", "4"], USAGE, "file-exists"),
        (["setup", "new", "--circuit", "toy.circuit", "--phase1", "toy.circuit"], USAGE, "file-kind"),
        (["setup", "new", "--circuit", "pot", "--phase1", "pot"], USAGE, "got pot: a phase 1 file, expected a circuit"),
        (["setup", "new", "--circuit", "missing", "--phase1", "pot"], USAGE, "missing"),
        (["contribute", "toy.circuit", "--name", "x"], USAGE, "file-kind"),
        (["contribute", "missing", "--name", "x"], USAGE, "missing"),
        (["contribute", "pot", "--name", "x", "--out", "ceremony"], USAGE, "file-exists"),
        (["contribute", "pot", "--name", "x", "--beacon", "XY"], USAGE, "hex"),
        (["contribute", "pot", "--name", "x", "--beacon", "00", "--iterations", "300"], USAGE, "--iterations"),
        (
            ["contribute", "pot", "--name", "x", "--beacon", "00", "--iterations", "9"],
            USAGE,
            "got a beacon to be hashed 2^9 times",
        ),
        (["verify-setup", "toy.circuit"], USAGE, "file-kind"),
        (["import", "toy.circuit", "new"], USAGE, "file-kind"),
        (["import", "missing", "new"], USAGE, "missing"),
        (["import", "ceremony", "new"], USAGE, "ceremony"),
        (["contribute", "pot", "--name", ""], USAGE, "got a contributor's name of 0 bytes, expected 1 to 64"),
        (["contribute", "pot", "--name", "a\tb"], USAGE, "control characters, expected"),
        (["contribute", "pot", "--name", "x", "--entropy-file", "missing"], USAGE, "missing"),
        (["export", "toy.circuit", "new"], USAGE, "file-kind"),
    ],
)
def test_wrong_use(base: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str) -> None:
    monkeypatch.chdir(base)
    found, _, err = run(*arguments)
    assert (found, words in err) == (code, True), err
    assert not (base / "new").exists()


def test_the_wrong_power_is_told_once_with_a_hint(tmp_path: Path) -> None:
    code, _, err = run("setup", tmp_path / "new", "--power", "99")
    assert (code, err.count("2 to 20"), err.count("99")) == (USAGE, 1, 1)
    assert "2^POWER rows" in err


def test_a_beacon_is_the_last_step(base: Path, tmp_path: Path) -> None:
    code, _, err = run("contribute", base / "ceremony", "--name", "late")
    assert (code, "setup-ended" in err, "contribution 3" in err) == (REFUSED, True, True)
    told("contribute", base / "pot", "--name", "draw", "--beacon", "00ff", "--out", tmp_path / "ended")
    code, _, err = run("contribute", tmp_path / "ended", "--name", "late")
    assert (code, "phase1-ended" in err) == (REFUSED, True)
    assert told("verify-setup", tmp_path / "ended")["phase1"]["after_beacon"] == 0


def test_contributions_after_a_beacon_that_another_tool_took_are_told(base: Path, tmp_path: Path) -> None:
    """Ours are not: the beacon's mark is taken out of the file for as long as the next one contributes."""
    path, mark, none = tmp_path / "pot", b"\4draw\x0a\2\x00\xff", b"\4draw\0"
    told("contribute", base / "pot", "--name", "draw", "--beacon", "00ff", "--out", path)
    path.write_bytes(path.read_bytes().replace(mark, none))
    told("contribute", path, "--name", "late")
    path.write_bytes(path.read_bytes().replace(none, mark))
    data = told("verify-setup", path)
    assert [(c["name"], c["beacon"]) for c in data["phase1"]["contributions"]] == [
        ("ann", False),
        ("draw", True),
        ("late", False),
    ]
    assert data["phase1"]["after_beacon"] == 1
    assert run("export", path, tmp_path / "foreign.ptau")[0] == OK
    code, out, _ = run("import", tmp_path / "foreign.ptau", tmp_path / "taken")
    assert (code, "1 contributions after a beacon" in out) == (OK, True)


@pytest.mark.parametrize("name", ["transcript.sitsct", "phase1.sitspt", "circuit.sitsr1c"])
@pytest.mark.parametrize("damage", ["missing", "folder"])
def test_a_damaged_folder_names_the_file(base: Path, tmp_path: Path, name: str, damage: str) -> None:
    shutil.copytree(base / "ceremony", tmp_path / "copy")
    file = tmp_path / "copy" / name
    file.unlink()
    if damage == "folder":
        file.mkdir()
    for arguments in (("verify-setup", tmp_path / "copy"), ("export", tmp_path / "copy", tmp_path / "keys")):
        code, _, err = run(*arguments)
        assert (code, str(file) in err, "hint:" in err) == (USAGE, True, True), err
    if name == "transcript.sitsct":
        code, _, err = run("contribute", tmp_path / "copy", "--name", "x")
        assert (code, str(file) in err) == (USAGE, True), err


def test_a_full_disk_names_the_path_and_what_it_takes(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system reports it late: when the file is synchronised."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run("contribute", base / "pot", "--name", "x", "--out", tmp_path / "new")
    size = (base / "pot").stat().st_size
    assert code == ENVIRONMENT
    assert f"got {tmp_path / 'new'}: no space left (" in err
    assert f"expected about {size} bytes free" in err
    assert "hint: free space" in err
    assert list(tmp_path.iterdir()) == []
