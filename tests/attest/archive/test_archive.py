"""Recorded commands proven again on BLS12-381: by both engines, alone and beside the ledger; alterations are found."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.archive import ArchiveError, ArchiveWriter, ModuleSource, verify_archive
from attest.archive.__main__ import main
from attest.archive.check import ArchiveReport
from attest.archive.format import ArchivedCommand, ArchiveManifest
from attest.archive.write import Keys, development_keys
from attest.command import ProofPolicy, SessionKey, parse_command, sign_command
from attest.ledger import Ledger
from attest.ledger.merkle import leaf_hash
from attest.proof import Curve, PyEccVerifier, ceremony, development_setup, key_hash
from attest.proof.ceremony_folder import CeremonyFolder
from attest.proof.circuit import on_curve
from tests.attest.ledger.scenario import CIRCUIT, MODULE, MODULE_MANIFEST, RULES, Scenario, whole

SOURCE = ModuleSource(MODULE_MANIFEST, CIRCUIT)
MODULE_FOLDER = f"modules/{MODULE.hex()}"


@pytest.fixture(scope="module")
def ledger_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven accepted commands, one that was not sent; the refused one is left out of every range below."""
    return whole(tmp_path_factory.mktemp("ledgers"), commands=6).path("gate")


def writer(folder: Path, ledger: Ledger, **changes: Any) -> ArchiveWriter:
    options: dict[str, Any] = {
        "name": "gate", "first": 0, "last": ledger.size - 1, "curve": Curve.BLS12_381, "find_module": lambda _: SOURCE,
    }  # fmt: skip
    return ArchiveWriter(folder, ledger, **(options | changes))


def archived(folder: Path, ledger_file: Path, **changes: Any) -> ArchiveManifest:
    ledger = Ledger.open_readonly(ledger_file)
    try:
        return writer(folder, ledger, **changes).run()
    finally:
        ledger.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, ledger_file: Path) -> Path:
    folder = tmp_path_factory.mktemp("archive") / "a"
    archived(folder, ledger_file)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def codes(report: ArchiveReport) -> set[str]:
    return {finding.code for finding in report.findings}


def test_the_second_engine_verifies_it_too(tmp_path: Path, ledger_file: Path, made: Path) -> None:
    last = ArchivedCommand.decode(lines_of(made)[1], 2).record
    archived(tmp_path / "a", ledger_file, last=last)
    report = verify_archive(tmp_path / "a", engine="py-ecc", ledger=ledger_file)
    assert report.ok, report.findings
    assert report.commands == report.proofs_checked == 2


def test_a_third_party_needs_neither_the_core_nor_the_appliance(tmp_path: Path, ledger_file: Path, made: Path) -> None:
    last = ArchivedCommand.decode(lines_of(made)[0], 1).record
    archived(tmp_path / "a", ledger_file, last=last)
    absent = ("attest._native", "tpm2_pytss", "asyncua", "wasmtime", "onnx", "onnxruntime", "numpy", "sitsedge")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}));"
        f"from attest.archive.__main__ import main; sys.exit(main([{str(tmp_path / 'a')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["ok"], report["engine"], report["proofs_checked"]) == (True, "py-ecc", 1)


@pytest.mark.parametrize(("change", "code"), [(lambda lines: lines, 0), (lambda lines: lines[::-1], 1)])
def test_exit_codes(copy: Path, ledger_file: Path, change: Any, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    change_lines(copy, change)
    assert main([str(copy), "--engine", "native", "--ledger", str(ledger_file)]) == code
    assert json.loads(capsys.readouterr().out)["ok"] is (code == 0)


def test_it_verifies_alone_and_against_the_ledger(made: Path, ledger_file: Path) -> None:
    report = verify_archive(made, ledger=ledger_file)
    assert report.ok, report.findings
    assert report.commands == report.proofs_checked == 6
    assert (report.curve, report.modules, report.development) == ("bls12-381", 1, 1)
    assert report.ledger_compared
    assert not verify_archive(made).ledger_compared


def test_proofs_are_on_the_other_curve_and_of_the_same_statements(made: Path, ledger_file: Path) -> None:
    key = (made / MODULE_FOLDER / "verification_key.bin").read_bytes()
    verifier = PyEccVerifier(key, vk_sha256=key_hash(key))
    assert verifier.curve is Curve.BLS12_381
    lines = (made / "commands.jsonl").read_bytes().splitlines(keepends=True)
    ledger = Ledger.open_readonly(ledger_file)
    for number, line in enumerate(lines, start=1):
        one = ArchivedCommand.decode(line, number)
        assert len(one.proof) == 192
        assert ledger.read(one.record).data == one.data
    ledger.close()


def test_a_range_of_records(tmp_path: Path, ledger_file: Path, made: Path) -> None:
    records = [ArchivedCommand.decode(line, 1).record for line in lines_of(made)]
    manifest = archived(tmp_path / "a", ledger_file, first=records[1], last=records[3])
    assert manifest.commands == 3
    report = verify_archive(tmp_path / "a", ledger=ledger_file)
    assert report.ok, report.findings


def test_deferred_commands_are_archived_like_any_other(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "l", rules=replace(RULES, proof_policy=ProofPolicy.DEFERRED))
    scenario.open_epoch()
    scenario.send(scenario.command(deferred=True))
    scenario.run(1)
    scenario.close()
    assert archived(tmp_path / "a", scenario.path("device")).commands == 2
    assert verify_archive(tmp_path / "a", ledger=scenario.path("device")).ok


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "commands.jsonl").read_bytes().splitlines(keepends=True)


# --- interruptions ----------------------------------------------------------------------------------------------------


class Interrupted(Exception):
    """Power lost."""


@pytest.mark.parametrize("torn", [b"", b'{"command":"d2', b"\xff"])
def test_an_interrupted_archive_is_continued(tmp_path: Path, ledger_file: Path, torn: bytes) -> None:
    folder = tmp_path / "a"
    ledger = Ledger.open_readonly(ledger_file)
    first = writer(folder, ledger)
    original, count = first._line, 0

    def line(leaf: Any) -> bytes:
        nonlocal count
        count += 1
        if count == 4:
            raise Interrupted
        return original(leaf)

    first._line = line  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        first.run()
    before = lines_of(folder)
    assert len(before) == 3
    assert codes(verify_archive(folder)) == {"archive-incomplete"}
    with (folder / "commands.jsonl").open("ab") as file:
        file.write(torn)
    manifest = writer(folder, ledger).run()
    ledger.close()
    assert manifest.complete
    assert lines_of(folder)[:3] == before, "nothing is proven twice"
    report = verify_archive(folder, ledger=ledger_file)
    assert report.ok, report.findings


def test_a_complete_archive_is_left_alone(made: Path, ledger_file: Path) -> None:
    before = (made / "commands.jsonl").read_bytes()
    archived(made, ledger_file)
    assert (made / "commands.jsonl").read_bytes() == before


def test_a_complete_archive_needs_no_proving_key(copy: Path) -> None:
    shutil.rmtree(copy / "keys")
    assert verify_archive(copy).ok


def test_an_incomplete_one_does(tmp_path: Path, ledger_file: Path, copy: Path) -> None:
    change_manifest(copy, complete=False)
    (copy / "commands.jsonl").write_bytes(b"")
    shutil.rmtree(copy / "keys")
    with pytest.raises(ArchiveError, match="archive-keys"):
        archived(copy, ledger_file)


@pytest.mark.parametrize(
    "changes", [{"curve": Curve.BN254}, {"name": "device"}, {"first": 1}, {"last": 3}], ids=lambda c: next(iter(c))
)
def test_another_archive_in_the_folder(made: Path, ledger_file: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ArchiveError, match="archive-other"):
        archived(made, ledger_file, **changes)


def test_an_archive_of_another_ledger_in_the_folder(made: Path, tmp_path: Path) -> None:
    other = whole(tmp_path / "l", commands=6).path("gate")
    with pytest.raises(ArchiveError, match="archive-other"):
        archived(made, other)


def test_other_files_in_the_folder(tmp_path: Path, ledger_file: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ArchiveError, match="archive-other"):
        archived(tmp_path, ledger_file)


# --- what cannot be archived ------------------------------------------------------------------------------------------


def test_a_command_whose_outputs_are_not_the_circuit_s(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "l")
    scenario.open_epoch()
    scenario.send(scenario.command(outputs=(8,)), gate=False)
    scenario.close()
    with pytest.raises(ArchiveError, match="archive-outputs"):
        archived(tmp_path / "a", scenario.path("device"))


@pytest.mark.parametrize(
    "source",
    [
        ModuleSource(b"{}", CIRCUIT),
        ModuleSource(MODULE_MANIFEST, CIRCUIT[:-1]),
        ModuleSource(MODULE_MANIFEST, on_curve(CIRCUIT, Curve.BLS12_381)),
    ],
    ids=["another manifest", "a damaged circuit", "a circuit on another curve"],
)
def test_a_module_that_is_another(tmp_path: Path, ledger_file: Path, source: ModuleSource) -> None:
    with pytest.raises(ArchiveError, match="archive-module"):
        archived(tmp_path / "a", ledger_file, find_module=lambda _: source)


def test_keys_of_another_curve(tmp_path: Path, ledger_file: Path) -> None:
    keys = Keys(*development_setup(CIRCUIT))
    with pytest.raises(ArchiveError, match="archive-keys"):
        archived(tmp_path / "a", ledger_file, make_keys=lambda *_: keys)


def test_keys_of_a_ceremony_are_not_called_development(tmp_path: Path, ledger_file: Path) -> None:
    def keys(digest: bytes, circuit: bytes) -> Keys:
        return replace(development_keys(digest, circuit), contributors=3)

    archived(tmp_path / "a", ledger_file, make_keys=keys)
    assert verify_archive(tmp_path / "a").development == 0


def test_keys_of_a_real_ceremony(tmp_path: Path, ledger_file: Path) -> None:
    circuit = on_curve(CIRCUIT, Curve.BLS12_381)
    phase1 = tmp_path / "phase1"
    ceremony.new_phase1(phase1, curve=Curve.BLS12_381, power=ceremony.power_for(circuit))
    ceremony.contribute(phase1, name="vendor")
    folder = CeremonyFolder.create(tmp_path / "c", circuit=circuit, phase1=phase1)
    for name in ("operator", "auditor"):
        ceremony.contribute(folder.transcript, name=name)

    def keys(_: bytes, wanted: bytes) -> Keys:
        made = folder.verify(wanted)
        return Keys(made.proving_key, made.verification_key, made.contributions)

    manifest = archived(tmp_path / "a", ledger_file, make_keys=keys)
    assert [entry.contributors for entry in manifest.modules.values()] == [2]
    report = verify_archive(tmp_path / "a", ledger=ledger_file)
    assert report.ok, report.findings
    assert report.development == 0


# --- alterations ------------------------------------------------------------------------------------------------------


def change_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "archive.json"
    body = json.loads(path.read_bytes())
    body |= changes
    path.write_text(json.dumps(body))


def change_lines(folder: Path, change: Callable[[list[bytes]], list[bytes]], *, honest_digest: bool = True) -> None:
    """Alter lines; with the digest and the count in the manifest made to fit, as a forger would."""
    data = b"".join(change(lines_of(folder)))
    (folder / "commands.jsonl").write_bytes(data)
    if honest_digest:
        lines = data.count(b"\n")
        change_manifest(folder, commands=lines, commands_sha256=hashlib.sha256(data).hexdigest())


def edited(line: bytes, **changes: Any) -> bytes:
    one = ArchivedCommand.decode(line, 1)
    return replace(one, **changes).encode()


LINES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], set[str], set[str]]] = {
    # what is done, findings alone, findings with the ledger
    "a proof of another command": (
        lambda lines: [edited(lines[0], proof=ArchivedCommand.decode(lines[1], 2).proof), *lines[1:]],
        {"proof"},
        {"proof"},
    ),
    "a proof that is nothing": (lambda lines: [edited(lines[0], proof=bytes(192)), *lines[1:]], {"proof"}, {"proof"}),
    "a proof of the other curve": (
        lambda lines: [edited(lines[0], proof=bytes(128)), *lines[1:]],
        {"proof"},
        {"proof"},
    ),
    "a wrong leaf hash": (
        lambda lines: [edited(lines[0], leaf_hash=bytes(32)), *lines[1:]],
        {"leaf-hash"},
        {"leaf-hash"},
    ),
    "a line twice": (lambda lines: [lines[0], *lines], {"archive-order"}, {"archive-order", "ledger-record"}),
    "two lines exchanged": (
        lambda lines: [lines[1], lines[0], *lines[2:]],
        {"archive-order"},
        {"archive-order", "ledger-missing", "ledger-record"},
    ),
    "a line left out": (lambda lines: lines[1:], set(), {"ledger-missing"}),
    "the last line left out": (lambda lines: lines[:-1], set(), {"ledger-missing"}),
    "another record number": (
        lambda lines: [edited(lines[0], record=ArchivedCommand.decode(lines[0], 1).record + 1), *lines[1:]],
        set(),
        {"ledger-missing", "ledger-record"},
    ),
    "a command of nobody": (
        lambda lines: [of_another_ledger(lines[0]), *lines[1:]],
        {"proof"},
        {"proof", "ledger-record"},
    ),
}


def of_another_ledger(line: bytes) -> bytes:
    """The same header signed by somebody else over other inputs; the proof cannot fit."""
    one = ArchivedCommand.decode(line, 1)
    command = replace(one.command, inputs=(1, 1))
    data = sign_command(command, SessionKey.generate())
    return replace(one, data=data, command=parse_command(data, None).command, leaf_hash=leaf_hash(data)).encode()


@pytest.mark.parametrize("name", LINES)
def test_altered_lines(copy: Path, ledger_file: Path, name: str) -> None:
    change, alone, beside = LINES[name]
    change_lines(copy, change)
    assert codes(verify_archive(copy)) == alone
    assert codes(verify_archive(copy, ledger=ledger_file)) == beside


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"outputs":[', b'"outputs":[1,'),
        (b'"inputs":[', b'"inputs":[1,'),
        (b'"epoch":1', b'"epoch":2'),
        (b'"mode":"AUTO"', b'"mode":"OFF"'),
        (b'"ctx":"', b'"ctx":"00'),
        (b'{"command"', b'{ "command"'),
        (b'"record":', b'"record":-'),
        (b'"record":', b'"Record":'),
        (b'"proof":"', b'"proof":"Z'),
        (b'"command":"d2', b'"command":"d3'),
        (b'"record":', b'"record":1,"record":'),
    ],
)
def test_words_that_differ_from_the_bytes(copy: Path, old: bytes, new: bytes) -> None:
    change_lines(copy, lambda lines: [lines[0].replace(old, new, 1), *lines[1:]])
    assert codes(verify_archive(copy)) == {"archive-format"}


def test_lines_that_do_not_fit_their_digest(copy: Path) -> None:
    change_lines(copy, lambda lines: lines[:-1], honest_digest=False)
    assert codes(verify_archive(copy)) == {"archive-format"}


@pytest.mark.parametrize("tail", [b"{", b"x" * 200_000])
def test_a_torn_or_endless_line(copy: Path, tail: bytes) -> None:
    change_lines(copy, lambda lines: [*lines, tail])
    assert codes(verify_archive(copy)) == {"archive-format"}


@pytest.mark.parametrize("name", ["manifest.json", "circuit.bin", "verification_key.bin"])
@pytest.mark.parametrize("how", ["flipped", "missing", "empty"])
def test_altered_module_files(copy: Path, name: str, how: str) -> None:
    path = copy / MODULE_FOLDER / name
    if how == "missing":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(b"" if how == "empty" else data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert codes(verify_archive(copy)) == {"archive-module"}


@pytest.mark.parametrize("key", ["source_circuit_sha256", "circuit_sha256", "rows_sha256", "vk_sha256"])
def test_digests_that_are_not_those_of_the_files(copy: Path, key: str) -> None:
    body = json.loads((copy / "archive.json").read_bytes())
    body["modules"][MODULE.hex()][key] = "00" * 32
    change_manifest(copy, modules=body["modules"])
    assert codes(verify_archive(copy)) == {"archive-module"}


def test_a_key_of_other_rows_verifies_nothing(copy: Path) -> None:
    """The chain of digests cannot show that a key belongs to its circuit; its proofs fail all the same."""
    _, key = development_setup(on_curve(CIRCUIT, Curve.BLS12_381))
    (copy / MODULE_FOLDER / "verification_key.bin").write_bytes(key)
    body = json.loads((copy / "archive.json").read_bytes())
    body["modules"][MODULE.hex()]["vk_sha256"] = key_hash(key).hex()
    change_manifest(copy, modules=body["modules"])
    report = verify_archive(copy)
    assert codes(report) == {"proof"}
    assert report.proofs_checked == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "sits-archive-2"},
        {"curve": "secp256k1"},
        {"size": -1},
        {"first": True},
        {"root": "00"},
        {"root": "AB" * 32},
        {"complete": 1},
        {"modules": []},
        {"modules": {"00": {}}},
        {"origin": ""},
        {"more": 1},
    ],
    ids=str,
)
def test_a_manifest_of_another_form(copy: Path, changes: dict[str, Any]) -> None:
    change_manifest(copy, **changes)
    assert codes(verify_archive(copy)) == {"archive-format"}


def test_a_development_mark_that_contradicts_the_contributors(copy: Path) -> None:
    body = json.loads((copy / "archive.json").read_bytes())
    body["modules"][MODULE.hex()]["development"] = False
    change_manifest(copy, modules=body["modules"])
    assert codes(verify_archive(copy)) == {"archive-format"}


def test_no_archive_at_all(tmp_path: Path) -> None:
    assert codes(verify_archive(tmp_path)) == {"archive-io"}


def test_another_ledger(made: Path, tmp_path: Path) -> None:
    other = whole(tmp_path / "l", commands=6).path("gate")
    assert "ledger-other" in codes(verify_archive(made, ledger=other))


def test_a_ledger_that_was_cut_since(made: Path, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "l")
    scenario.open_epoch()
    scenario.run(1)
    scenario.close()
    found = codes(verify_archive(made, ledger=scenario.path("gate")))
    assert {"ledger-other", "ledger-record"} <= found


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_are_an_archive_s_part_or_one_error(data: bytes) -> None:
    for decode in (ArchiveManifest.decode, lambda line: ArchivedCommand.decode(line, 1)):
        with pytest.raises(ArchiveError, match="archive-format"):
            decode(data)
