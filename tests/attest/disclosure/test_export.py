"""Sealed exports of a real ledger: they verify alone, hold no input, and each falsification has its finding."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pycddl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.command import Mode, SessionKey, parse_command, parse_record, sign_record
from attest.disclosure import DisclosureError, Keys, Selection, Trust, write_export
from attest.disclosure import format as fmt
from attest.disclosure.__main__ import main
from attest.disclosure.format import IncludedRecord, Manifest, SealedRecord
from attest.disclosure.write import ExportWriter, development_keys, sealed_circuit
from attest.ledger import Ledger, RecordKind
from attest.proof import CircuitBuilder, Curve, Interval
from attest.proof.sealed import Salt
from tests.attest.disclosure.exports import (
    Case,
    change_epoch,
    change_manifest,
    change_record,
    codes,
    command_path,
    export,
    manifest_of,
    record,
    report,
    trusting,
)
from tests.attest.ledger.scenario import CIRCUIT, RULES, Scenario, whole

NAMES = ("1-1", "1-2", "1-3", "2-1", "2-2", "2-3")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("sealed")
    return export(whole(folder / "ledgers", commands=6), folder)


@pytest.fixture
def out(case: Case, tmp_path: Path) -> Path:
    shutil.copytree(case.out, tmp_path / "copy")
    return tmp_path / "copy"


def test_whole_export_verifies_with_its_files_alone(case: Case) -> None:
    found = report(case.out, trust=trusting(case))
    assert found.findings == []
    assert (found.ok, found.commands, found.proofs_checked) == (True, 6, 6)
    assert (found.gate_key_trusted, found.vk_trusted, found.development) == (True, True, True)
    assert manifest_of(case.out).commands == NAMES
    assert found.inputs[0] == {"name": "force", "low": -1000, "high": 1000}


def test_second_engine(case: Case, tmp_path: Path) -> None:
    few = export(case.scenario, tmp_path, selection=Selection(count=1))
    found = report(few.out, engine="py-ecc")
    assert (found.ok, found.proofs_checked, found.engine) == (True, 1, "py-ecc")


def test_other_curve(case: Case, tmp_path: Path) -> None:
    other = export(case.scenario, tmp_path, curve=Curve.BLS12_381, selection=Selection(count=2))
    found = report(other.out, trust=trusting(other))
    assert (found.ok, found.curve, found.proofs_checked) == (True, "bls12-381", 2)


def test_equal_inputs_have_unequal_commitments(case: Case) -> None:
    """Both epochs start with the same inputs, and outputs and model are the same."""
    first, second = record(case.out, "1-1"), record(case.out, "2-1")
    assert first.outputs == second.outputs
    assert first.commitment != second.commitment


def test_no_file_holds_a_command_its_signature_its_open_proof_or_a_salt(case: Case) -> None:
    everything = b"".join(path.read_bytes() for path in sorted(case.out.rglob("*")) if path.is_file())
    salts = json.loads(case.openings.read_text())["commands"]
    assert set(salts) == set(NAMES)
    assert not any(bytes.fromhex(entry["salt"]) in everything for entry in salts.values())
    device = Ledger.open_readonly(case.ledgers / "device" / "ledger.db")
    for leaf in device.iterate():
        if leaf.kind is RecordKind.COMMAND:
            parsed = parse_command(leaf.data, None)
            assert leaf.data not in everything
            assert parsed.command.proof not in everything
            assert parsed.envelope.signature not in everything
    device.close()


def test_salts_are_readable_by_their_owner_only(case: Case) -> None:
    assert case.openings.stat().st_mode & 0o777 == 0o600
    assert case.openings.parent == case.out.parent


def test_selection_by_records(case: Case, tmp_path: Path) -> None:
    device = Ledger.open_readonly(case.ledgers / "device" / "ledger.db")
    commands = [leaf.index for leaf in device.iterate() if leaf.kind is RecordKind.COMMAND]
    device.close()
    part = export(case.scenario, tmp_path, selection=Selection(first=commands[1], last=commands[2]))
    assert manifest_of(part.out).commands == ("1-2", "1-3")
    assert report(part.out).ok


def test_refused_and_unsent_commands_are_left_out(case: Case, tmp_path: Path) -> None:
    written = write_export(
        case.ledgers, tmp_path / "o", tmp_path / "s", curve=Curve.BN254, find_circuit=lambda _: CIRCUIT
    )
    assert written.left_out == 2
    assert written.manifest.commands == NAMES


def test_circuit_is_a_function_of_module_rules_and_curve(case: Case) -> None:
    assert fmt.sha256(sealed_circuit(CIRCUIT, RULES, Curve.BN254)) == manifest_of(case.out).circuit_sha256
    assert sealed_circuit(CIRCUIT, RULES, Curve.BN254) != sealed_circuit(CIRCUIT, RULES, Curve.BLS12_381)
    narrower = replace(RULES, inputs=(replace(RULES.inputs[0], low=-999), RULES.inputs[1]))
    assert sealed_circuit(CIRCUIT, narrower, Curve.BN254) != sealed_circuit(CIRCUIT, RULES, Curve.BN254)


# Falsified exports: what is changed, and the only finding it gives.


def other_ctx(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, ctx=record(out, "1-2").ctx))


def other_header(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, header=record(out, "1-2").header))


def later_decision(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        header = replace(it.header, t_decided_ns=it.header.t_decided_ns + 1)
        return replace(it, header=header, ctx=header.ctx())

    change_record(out, "1-1", change)


def other_module(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        header = replace(it.header, module_digest=bytes(32))
        return replace(it, header=header, ctx=header.ctx())

    change_record(out, "1-1", change)


def other_mode(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        header = replace(it.header, mode=Mode.MANUAL if hasattr(Mode, "MANUAL") else Mode.OFF)
        return replace(it, header=header, ctx=header.ctx())

    change_record(out, "1-1", change)


def stale_sample(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        header = replace(it.header, t_source_ns=it.header.t_source_ns - 1_000_000_000)
        return replace(it, header=header, ctx=header.ctx())

    change_record(out, "1-1", change)


def other_outputs(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, outputs=(it.outputs[0] + 1,)))


def outputs_beyond_limits(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, outputs=(2501,)))


def other_commitment(out: Path, case: Case) -> None:
    flipped = lambda data: data[:-1] + bytes([data[-1] ^ 1])  # noqa: E731
    change_record(out, "1-1", lambda it: replace(it, commitment=flipped(it.commitment)))


def commitment_not_canonical(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, commitment=b"\xff" * 32))


def commitment_of_another_command(out: Path, case: Case) -> None:
    change_record(out, "2-1", lambda it: replace(it, commitment=record(out, "1-1").commitment))


def proof_of_another_command(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, proof=record(out, "1-2").proof))


def proof_is_no_point(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, proof=bytes(len(it.proof))))


def receipt_of_another_command(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, receipt=record(out, "1-2").receipt))


def receipt_by_another_key(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        parsed = parse_record(it.receipt.data)
        return replace(it, receipt=replace(it.receipt, data=sign_record(parsed.record, SessionKey.generate())))

    change_record(out, "1-1", change)


def receipt_that_the_gate_signed_later(out: Path, case: Case) -> None:
    def change(it: SealedRecord) -> SealedRecord:
        parsed = parse_record(it.receipt.data).record
        changed = sign_record(replace(parsed, t_written_ns=7), case.scenario.gate_key)  # type: ignore[call-arg]
        return replace(it, receipt=replace(it.receipt, data=changed))

    change_record(out, "1-1", change)


def receipt_at_another_index(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, receipt=replace(it.receipt, index=it.receipt.index + 1)))


def receipt_with_another_path(out: Path, case: Case) -> None:
    change_record(out, "1-1", lambda it: replace(it, receipt=replace(it.receipt, path=it.receipt.path[:-1])))


def receipt_that_is_an_epoch_record(out: Path, case: Case) -> None:
    epoch = IncludedRecord.decode((out / fmt.EPOCHS / "1.cbor").read_bytes())
    change_record(out, "1-1", lambda it: replace(it, receipt=epoch))


def record_damaged(out: Path, case: Case) -> None:
    path = command_path(out, "1-1")
    path.write_bytes(path.read_bytes()[:-1])


def record_missing(out: Path, case: Case) -> None:
    command_path(out, "1-1").unlink()


def record_too_many(out: Path, case: Case) -> None:
    shutil.copyfile(command_path(out, "1-1"), command_path(out, "1-9"))


def record_under_another_name(out: Path, case: Case) -> None:
    shutil.copyfile(command_path(out, "1-2"), command_path(out, "1-1"))


def epoch_damaged(out: Path, case: Case) -> None:
    change_epoch(out, 1, lambda it: replace(it, index=it.index + 1))


def epoch_of_another_number(out: Path, case: Case) -> None:
    shutil.copyfile(out / fmt.EPOCHS / "2.cbor", out / fmt.EPOCHS / "1.cbor")


def epoch_missing(out: Path, case: Case) -> None:
    (out / fmt.EPOCHS / "1.cbor").unlink()


def rules_changed(out: Path, case: Case) -> None:
    looser = replace(RULES, outputs=(replace(RULES.outputs[0], high=9000),))
    (out / fmt.RULES_FILE).write_bytes(looser.encode())


def rules_changed_with_manifest(out: Path, case: Case) -> None:
    """Then they are not those that the gate's epoch records pin."""
    looser = replace(RULES, outputs=(replace(RULES.outputs[0], high=9000),)).encode()
    (out / fmt.RULES_FILE).write_bytes(looser)
    change_manifest(out, rules_sha256=fmt.sha256(looser))


def rules_damaged(out: Path, case: Case) -> None:
    (out / fmt.RULES_FILE).write_bytes(b"\xa0")
    change_manifest(out, rules_sha256=fmt.sha256(b"\xa0"))


def key_changed(out: Path, case: Case) -> None:
    path = out / fmt.KEY_FILE
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")


def key_of_the_open_circuit(out: Path, case: Case) -> None:
    key = case.scenario.model.verification_key
    (out / fmt.KEY_FILE).write_bytes(key)
    change_manifest(out, vk_sha256=fmt.sha256(key))


def key_of_the_same_circuit_made_again(out: Path, case: Case) -> None:
    key = development_keys(sealed_circuit(CIRCUIT, RULES, Curve.BN254)).verification_key
    (out / fmt.KEY_FILE).write_bytes(key)
    change_manifest(out, vk_sha256=fmt.sha256(key))


def checkpoint_damaged(out: Path, case: Case) -> None:
    (out / fmt.CHECKPOINT_FILE).write_bytes(b"x")


def checkpoint_of_the_device(out: Path, case: Case) -> None:
    device = Ledger.open_readonly(case.ledgers / "device" / "ledger.db")
    (out / fmt.CHECKPOINT_FILE).write_bytes(device.last_checkpoint() or b"")
    device.close()


def checkpoint_by_another_key(out: Path, case: Case) -> None:
    change_manifest(out, gate_public=SessionKey.generate().public.hex())


def checkpoint_before_the_receipts(out: Path, case: Case) -> None:
    gate = Ledger.open_readonly(case.ledgers / "gate" / "ledger.db")
    first = next(note for _, note in gate.checkpoints())
    (out / fmt.CHECKPOINT_FILE).write_bytes(first)
    gate.close()


def manifest_damaged(out: Path, case: Case) -> None:
    path = out / fmt.MANIFEST_FILE
    path.write_bytes(path.read_bytes().replace(b'"bn254"', b'"bn255"'))


def manifest_missing(out: Path, case: Case) -> None:
    (out / fmt.MANIFEST_FILE).unlink()


def development_key_in_production(out: Path, case: Case) -> None:
    change_manifest(out, profile="production")


FALSIFIED: list[tuple[Callable[[Path, Case], None], set[str]]] = [
    (other_ctx, {"ctx"}),
    (other_header, {"header"}),
    (later_decision, {"proof-pairing"}),
    (other_module, {"header", "proof-pairing"}),
    (other_mode, {"mode", "proof-pairing"}),
    (stale_sample, {"age", "proof-pairing"}),
    (other_outputs, {"receipt", "proof-pairing"}),
    (outputs_beyond_limits, {"receipt", "output-limit", "proof-pairing"}),
    (other_commitment, {"proof-pairing"}),
    (commitment_not_canonical, {"signal-range"}),
    (commitment_of_another_command, {"commitment-repeated", "proof-pairing"}),
    (proof_of_another_command, {"proof-pairing"}),
    (proof_is_no_point, {"proof-point"}),
    (receipt_of_another_command, {"receipt"}),
    (receipt_by_another_key, {"receipt"}),
    (receipt_that_the_gate_signed_later, {"inclusion"}),
    (receipt_at_another_index, {"inclusion"}),
    (receipt_with_another_path, {"inclusion"}),
    (receipt_that_is_an_epoch_record, {"receipt"}),
    (record_damaged, {"export-format"}),
    (record_missing, {"command-missing"}),
    (record_too_many, {"command-unknown"}),
    (record_under_another_name, {"header"}),
    (epoch_damaged, {"epoch"}),
    (epoch_of_another_number, {"epoch"}),
    (epoch_missing, {"export-io", "epoch"}),
    (rules_changed, {"rules"}),
    (rules_changed_with_manifest, {"epoch"}),
    (rules_damaged, {"rules"}),
    (key_changed, {"key-hash"}),
    (key_of_the_open_circuit, {"signal-count"}),
    (key_of_the_same_circuit_made_again, {"proof-pairing"}),
    (checkpoint_damaged, {"checkpoint"}),
    (checkpoint_of_the_device, {"checkpoint"}),
    (checkpoint_by_another_key, {"checkpoint"}),
    (checkpoint_before_the_receipts, {"inclusion", "epoch"}),
    (manifest_damaged, {"export-format"}),
    (manifest_missing, {"export-io"}),
    (development_key_in_production, {"development-key"}),
]


@pytest.mark.parametrize(("falsify", "expected"), FALSIFIED, ids=lambda it: getattr(it, "__name__", ""))
def test_falsified(falsify: Callable[[Path, Case], None], expected: set[str], out: Path, case: Case) -> None:
    falsify(out, case)
    assert codes(out) == expected


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_no_changed_byte_of_any_file_goes_unseen(case: Case, data: st.DataObject) -> None:
    """Any byte of any file, changed, inserted or cut off: a finding, never an exception."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(shutil.copytree(case.out, Path(folder) / "copy"))
        path = data.draw(st.sampled_from(sorted(p for p in out.rglob("*") if p.is_file())))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(("change", "insert", "cut"))):
            case "change":
                content[at] ^= data.draw(st.integers(1, 255))
            case "insert":
                content.insert(at, data.draw(st.integers(0, 255)))
            case _:
                del content[at:]
        path.write_bytes(content)
        found = report(out)
        assert not found.ok or declared_only(path, case.out / path.name)


def declared_only(changed: Path, original: Path) -> bool:
    """Whether two manifests differ in nothing but what the report calls the export's own word."""
    if changed.name != fmt.MANIFEST_FILE:
        return False
    ours, theirs = (asdict(Manifest.decode(path.read_bytes())) for path in (changed, original))
    return {name for name in ours if ours[name] != theirs[name]} <= set(fmt.DECLARED)


@pytest.mark.parametrize("name", fmt.DECLARED)
def test_what_nothing_bears_out_is_called_the_export_s_own_word(case: Case, tmp_path: Path, name: str) -> None:
    out = Path(shutil.copytree(case.out, tmp_path / "copy"))
    manifest = Manifest.decode((out / fmt.MANIFEST_FILE).read_bytes())
    other = {"profile": "other", "contributors": 0 if manifest.contributors else 1}.get(name, "ab" * 32)
    more = {"development": other == 0} if name == "contributors" else {}
    (out / fmt.MANIFEST_FILE).write_bytes(replace(manifest, **{name: other}, **more).encode())
    found = report(out)
    assert found.ok
    assert name in found.declared


def test_gate_key_that_the_third_party_knows_otherwise(case: Case) -> None:
    assert codes(case.out, trust=Trust(gate_public=SessionKey.generate().public)) == {"gate-key"}


def test_proof_key_that_the_third_party_knows_otherwise(case: Case) -> None:
    assert codes(case.out, trust=Trust(vk_sha256=bytes(32))) == {"key-hash"}


def test_words_taken_from_the_export_are_said_to_be(case: Case) -> None:
    found = report(case.out)
    assert (found.ok, found.gate_key_trusted, found.vk_trusted) == (True, False, False)


def test_checked_without_the_appliance(case: Case, tmp_path: Path) -> None:
    """Where neither the Rust core nor any device library can be imported."""
    few = export(case.scenario, tmp_path, selection=Selection(count=1))
    absent = ("attest._native", "tpm2_pytss", "asyncua", "wasmtime", "onnx", "onnxruntime", "numpy", "sitsedge")
    trusted = ["--gate-key", case.scenario.gate_key.public.hex(), "--vk-sha256", manifest_of(few.out).vk_sha256]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}));"
        f"from attest.disclosure.__main__ import main; sys.exit(main({[str(few.out), *trusted]!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["engine"], found["proofs_checked"]) == (True, "py-ecc", 1)


@pytest.mark.parametrize(("falsify", "code"), [(None, 0), (other_ctx, 1)])
def test_exit_codes(
    falsify: Callable[[Path, Case], None] | None,
    code: int,
    out: Path,
    case: Case,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if falsify is not None:
        falsify(out, case)
    assert main([str(out), "--engine", "native"]) == code
    assert json.loads(capsys.readouterr().out)["ok"] is (code == 0)


@pytest.mark.parametrize("argument", ["--gate-key=00", "--vk-sha256=xyz"])
def test_wrong_usage(argument: str, case: Case) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(case.out), argument])
    assert caught.value.code == 2


# Making one.


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(DisclosureError) as caught:
        work()
    return caught.value.code


def writer(folder: Path, selection: Selection | None = None) -> ExportWriter:
    return ExportWriter(folder, selection or Selection(), curve=Curve.BN254, find_circuit=lambda _: CIRCUIT)


def test_export_exists(case: Case, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    made = writer(case.ledgers, Selection(count=1))
    keys = development_keys(made.circuit)
    assert refusal(lambda: made.write(tmp_path / "here", tmp_path / "s", keys)) == "export-exists"
    (tmp_path / "s").write_text("")
    assert refusal(lambda: made.write(tmp_path / "new", tmp_path / "s", keys)) == "export-exists"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "s"]


def test_salts_are_never_inside_the_export(case: Case, tmp_path: Path) -> None:
    made = writer(case.ledgers, Selection(count=1))
    keys = development_keys(made.circuit)
    assert refusal(lambda: made.write(tmp_path / "out", tmp_path / "out" / "s", keys)) == "export-io"


def test_key_of_another_circuit(case: Case, tmp_path: Path) -> None:
    made = writer(case.ledgers, Selection(count=1))
    other = development_keys(sealed_circuit(CIRCUIT, RULES, Curve.BLS12_381))
    assert refusal(lambda: made.write(tmp_path / "out", tmp_path / "s", other)) == "export-keys"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_where_proving_fails(case: Case, tmp_path: Path) -> None:
    made = writer(case.ledgers, Selection(count=1))
    keys = development_keys(made.circuit)
    with pytest.raises(Exception, match="pk-format"):
        made.write(tmp_path / "out", tmp_path / "s", Keys(keys.proving_key[:-1], keys.verification_key))
    assert list(tmp_path.iterdir()) == []


def test_empty_range(case: Case) -> None:
    assert refusal(lambda: writer(case.ledgers, Selection(first=10_000))) == "export-empty"


def test_production_takes_no_development_key(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "ledgers", profile="production")
    scenario.open_epoch()
    scenario.run(1)
    scenario.close()
    made = writer(tmp_path / "ledgers")
    keys = development_keys(made.circuit)
    assert refusal(lambda: made.write(tmp_path / "out", tmp_path / "s", keys)) == "export-keys"
    ceremony = replace(keys, contributors=2)
    assert not made.write(tmp_path / "out", tmp_path / "s", ceremony).manifest.development
    assert report(tmp_path / "out").ok


def test_export_mixed(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "ledgers")
    scenario.open_epoch()
    scenario.run(1)
    scenario.rules = replace(RULES, decide_ms_max=29)
    scenario.open_epoch()
    scenario.run(1)
    scenario.close()
    assert refusal(lambda: writer(tmp_path / "ledgers")) == "export-mixed"
    first = Ledger.open_readonly(tmp_path / "ledgers" / "device" / "ledger.db")
    records = [leaf.index for leaf in first.iterate() if leaf.kind is RecordKind.COMMAND]
    first.close()
    assert len(records) == 2
    assert refusal(lambda: writer(tmp_path / "ledgers", Selection(first=records[1]))) == "export-rules"
    assert writer(tmp_path / "ledgers", Selection(last=records[0])).left_out == 0


def test_export_outputs(case: Case, tmp_path: Path) -> None:
    """A circuit that is not the module's gives other outputs than were recorded."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    a, b = builder.inputs()
    builder.add_out(0, builder.relu_shift(a + b * 3, Interval(-4000, 4000)))
    other = builder.finish().encode()
    made = ExportWriter(case.ledgers, Selection(), curve=Curve.BN254, find_circuit=lambda _: other)
    keys = development_keys(made.circuit)
    assert refusal(lambda: made.write(tmp_path / "out", tmp_path / "s", keys)) == "export-outputs"
    assert list(tmp_path.iterdir()) == []


def test_no_checkpoint_of_the_gate(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "ledgers")
    scenario.open_epoch()
    scenario.run(1)
    scenario.close(clean=False)
    assert refusal(lambda: writer(tmp_path / "ledgers")) == "export-empty"


def test_what_no_checkpoint_covers_is_left_out(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "ledgers")
    scenario.open_epoch()
    scenario.run(2)
    scenario.witness()
    scenario.run(1)
    scenario.close(clean=False)
    written = export(scenario, tmp_path)
    assert manifest_of(written.out).commands == ("1-1", "1-2")
    assert report(written.out).ok


SCHEMA = Path(__file__).resolve().parents[3] / "attest" / "disclosure" / "sealed-export.cddl"


def test_files_follow_their_schema(case: Case) -> None:
    schema = pycddl.Schema(SCHEMA.read_text())
    files = [*(case.out / fmt.COMMANDS).iterdir(), *(case.out / fmt.EPOCHS).iterdir()]
    assert len(files) == 8
    for path in files:
        schema.validate_cbor(path.read_bytes())


def test_manifest_has_one_encoding(case: Case) -> None:
    data = (case.out / fmt.MANIFEST_FILE).read_bytes()
    assert Manifest.decode(data).encode() == data
    words = json.loads(data)
    changes: tuple[dict[str, object], ...] = (
        {"curve": "p256"},
        {"profile": ""},
        {"vk_sha256": "00"},
        {"development": False},
        {"contributors": -1},
        {"commands": []},
        {"commands": ["1-1", 2]},
        {"format": "sits-sealed-export-2"},
        {"more": 1},
    )
    for change in changes:
        text = json.dumps(words | change, indent=1, sort_keys=True).encode() + b"\n"
        assert refusal(lambda text=text: Manifest.decode(text)) == "export-format", change
    for damaged in (data + b" ", data.replace(b'"2-1"', b'"02-1"'), data.replace(b'"1-2"', b'"1-1"'), b"[]", b"\xff"):
        assert refusal(lambda damaged=damaged: Manifest.decode(damaged)) == "export-format"


@pytest.mark.parametrize("size", [0, 10, 40, 200])
def test_any_bytes_are_a_record_or_one_typed_error(case: Case, size: int) -> None:
    data = command_path(case.out, "1-1").read_bytes()
    for damaged in (data[:size], data[:size] + b"\x00" + data[size + 1 :], data + bytes(size + 1)):
        try:
            found = SealedRecord.decode(damaged, Curve.BN254)
        except DisclosureError as error:
            assert error.code == "export-format"  # noqa: PT017
        else:
            assert found.encode() == damaged


def test_salt_of_an_export_serves_one_command(case: Case) -> None:
    entries = json.loads(case.openings.read_text())["commands"].values()
    assert len({entry["salt"] for entry in entries}) == len(entries)
    assert all(Salt(bytes.fromhex(entry["salt"])) for entry in entries)
