"""``sitsctl audit export --sealed``, ``verify-sealed`` and ``open`` on recorded ledgers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attest.proof.sealed.format import decode
from sitsedge.cli import recorded_modules
from sitsedge.cli.main import app
from sitsedge.modules.errors import BundleError
from sitsedge.modules.parts import ModuleParts
from tests.attest.ledger.scenario import CIRCUIT, MODULE, MODULE_MANIFEST, whole


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("state") / "ledger", commands=4).folder


@pytest.fixture(autouse=True)
def module_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store holds the scenario's module, under the digest its commands name."""

    def read_parts(root: Path, digest: bytes) -> ModuleParts:
        if root.name != digest.hex() or digest != MODULE:
            raise BundleError("bundle-io", found=f"no {root.name}", expected="a bundle")
        return ModuleParts(MODULE_MANIFEST, CIRCUIT)

    monkeypatch.setattr(recorded_modules, "read_parts", read_parts)


def test_export_verify_open(ledgers: Path, tmp_path: Path) -> None:
    out, opening = tmp_path / "out", tmp_path / "opening.cbor"
    code, text = run("export", "--sealed", ledgers.parent, out, "--output", "json")
    assert code == 0, text
    made = json.loads(text.splitlines()[-1])
    assert (made["commands"], made["left_out"], made["development_key"]) == (4, 2, True)
    code, text = run("open", tmp_path / "out.openings", ledgers, "2-1", opening)
    assert code == 0, text
    gate_key = ledgers / "anchors" / "gate.pub"
    trusted = ("--gate-key", gate_key, "--vk-sha256", made["vk_sha256"])
    code, text = run("verify-sealed", out, *trusted, "--opening", opening, "--output", "json")
    assert code == 0, text
    report = json.loads(text)
    assert (report["ok"], report["proofs_checked"], report["openings_checked"]) == (True, 4, 1)
    assert report["gate_key_trusted"]
    code, text = run("verify-sealed", out)
    assert code == 0
    assert "sealed export: OK" in text
    assert "development" in text
    assert "input force: -1000 to 1000 counts" in text


def test_altered_export_is_refused_with_exit_code_1(ledgers: Path, tmp_path: Path) -> None:
    code, text = run("export", "--sealed", ledgers, tmp_path / "out", "--records", "1")
    assert code == 0, text
    (path,) = (tmp_path / "out" / "commands").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    code, text = run("verify-sealed", tmp_path / "out")
    assert code == 1
    assert "FINDING export-format" in text


def test_circuit_for_a_ceremony(ledgers: Path, tmp_path: Path) -> None:
    code, text = run("export", "--sealed", ledgers, tmp_path / "c", "--circuit-only", "--curve", "bls12-381")
    assert code == 0, text
    assert decode((tmp_path / "c").read_bytes()).curve.text == "bls12-381"
    assert list(tmp_path.iterdir()) == [tmp_path / "c"]


def test_usage(ledgers: Path, tmp_path: Path) -> None:
    cases: list[tuple[str | Path, ...]] = [
        ("export", ledgers, tmp_path / "out"),
        ("export", "--sealed", ledgers, tmp_path / "out", "--curve", "p256"),
        ("export", "--sealed", ledgers, tmp_path / "out", "--keys", tmp_path),
        ("export", "--sealed", ledgers, tmp_path / "out", "--records", "0"),
        ("verify-sealed", tmp_path, "--engine", "other"),
        ("verify-sealed", tmp_path, "--vk-sha256", "00"),
        ("verify-sealed", tmp_path, "--vk-sha256", "x"),
        ("verify-sealed", tmp_path, "--gate-key", ledgers / "anchors" / "anchors.json"),
    ]
    for arguments in cases:
        code, text = run(*arguments)
        assert code == 2, (arguments, text)
    assert list(tmp_path.iterdir()) == []


def test_module_that_is_nowhere(ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(root: Path, digest: bytes) -> ModuleParts:
        raise BundleError("bundle-io", found="nothing", expected="a bundle")

    monkeypatch.setattr(recorded_modules, "read_parts", nothing)
    code, text = run("export", "--sealed", ledgers, tmp_path / "out")
    assert code == 2
    assert "--bundle" in text


def test_command_that_was_not_exported(ledgers: Path, tmp_path: Path) -> None:
    run("export", "--sealed", ledgers, tmp_path / "out")
    code, text = run("open", tmp_path / "out.openings", ledgers, "9-9", tmp_path / "o")
    assert code == 1
    assert "opening-unknown" in text
    assert not (tmp_path / "o").exists()


def test_open_names_the_path_that_is_wrong(ledgers: Path, tmp_path: Path) -> None:
    run("export", "--sealed", ledgers, tmp_path / "out", "--records", "1")
    (tmp_path / "there").write_bytes(b"")
    (tmp_path / "junk").write_bytes(b"{}")
    kept = tmp_path / "out.openings"
    for arguments, words in (
        ((tmp_path / "missing", ledgers, "2-1", tmp_path / "o"), str(tmp_path / "missing")),
        ((tmp_path, ledgers, "2-1", tmp_path / "o"), f"{tmp_path}: not a file"),
        ((kept, ledgers, "2-1", tmp_path / "there"), f"{tmp_path / 'there'} exists"),
        ((tmp_path / "junk", ledgers, "2-1", tmp_path / "o"), "openings-format"),
    ):
        code, text = run("open", *arguments)
        assert (code, words in text) == (2, True), text
    assert not (tmp_path / "o").exists()
    for arguments in ((tmp_path / "missing",), (tmp_path / "out", "--opening", tmp_path / "missing")):
        code, text = run("verify-sealed", *arguments)
        assert (code, str(tmp_path / "missing") in text) == (2, True), text
