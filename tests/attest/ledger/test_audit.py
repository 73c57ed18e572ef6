"""Audits of whole ledgers, of ledgers with one fault each, and of unclean ends."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attest.command import (
    Alarm,
    CycleRefused,
    LateProof,
    ProofKind,
    ReadBack,
    SessionKey,
    Witness,
    parse_command,
    sign_command,
    sign_record,
)
from attest.ledger import Ledger, LedgerError, RecordKind, audit, kind_of
from attest.ledger.anchors import load_anchors
from attest.ledger.layout import write_range
from attest.ledger.merkle import CompactRange, leaf_hash
from attest.proof import Curve, PyEccVerifier, key_hash
from tests.attest.ledger.scenario import DEVICE_ID, DEVICE_ORIGIN, GATE_ID, RULES, Scenario, model, whole


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scenario]:
    folder = tmp_path_factory.mktemp("ledgers")
    return folder, whole(folder)


@pytest.fixture
def copy(recorded: tuple[Path, Scenario], tmp_path: Path) -> Path:
    shutil.copytree(recorded[0], tmp_path / "copy")
    return tmp_path / "copy"


def codes(folder: Path, **options: object) -> set[str]:
    return {finding.code for finding in audit.verify(folder, **options).findings}  # type: ignore[arg-type]


def test_a_whole_ledger_verifies_with_every_proof(recorded: tuple[Path, Scenario]) -> None:
    report = audit.verify(recorded[0])
    assert report.findings == []
    assert report.ok
    assert (report.accepted, report.proofs_checked) == (12, 12)
    assert report.refused == {"proof-statement": 1}
    assert [epoch.evidence for epoch in report.epochs] == ["none", "none"]
    assert (report.tail_device, report.tail_gate, report.tail_receipts) == (0, 0, 0)
    assert report.ledgers["device"].closed
    assert report.ledgers["gate"].closed
    assert report.to_dict()["ok"] is True


def test_a_sample_of_proofs_and_none(recorded: tuple[Path, Scenario]) -> None:
    assert audit.verify(recorded[0], proofs=5).proofs_checked == 5
    assert audit.verify(recorded[0], proofs=1000).proofs_checked == 12
    assert audit.verify(recorded[0], proofs="none").proofs_checked == 0


def test_progress_counts_every_record_and_changes_nothing(recorded: tuple[Path, Scenario]) -> None:
    folder, _ = recorded
    seen: list[audit.Progress] = []
    report = audit.verify(folder, progress=seen.append)
    assert report.to_dict() == audit.verify(folder).to_dict()
    total = 2 * report.ledgers["device"].size + report.ledgers["gate"].size
    assert [step.records for step in seen] == list(range(total))
    assert {step.records_total for step in seen} == {total}
    assert seen[-1].proofs == report.proofs_checked > 0


def test_py_ecc_agrees(recorded: tuple[Path, Scenario]) -> None:
    report = audit.verify(recorded[0], proofs=1, engine="py-ecc")
    assert report.ok
    assert report.proofs_checked == 1


def test_a_gate_that_keeps_receipts_only(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, gate_keeps_commands=False)
    scenario.open_epoch()
    scenario.run(4)
    scenario.close()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert report.proofs_checked == 4


def test_receipts_may_come_in_another_order(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    scenario.open_epoch()
    held: list[tuple[str, bytes]] = []
    append = scenario.gate.append
    scenario.gate.append = (  # type: ignore[method-assign]
        lambda kind, data: append(kind, data) if kind != "receipt" else len(held) + bool(held.append((kind, data)))
    )
    scenario.run(4)
    scenario.gate.append = append  # type: ignore[method-assign]
    for kind, data in reversed(held):
        scenario.gate.append(kind, data)
    scenario.close()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert report.proofs_checked == 4


def test_audit_while_both_sides_write(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    scenario.open_epoch()
    scenario.run(3)
    scenario.witness()
    scenario.send(scenario.command(), reply=False)  # the gate has not committed, so it has not answered
    scenario.device.commit()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert report.tail_gate == 1
    scenario.close()
    assert audit.verify(tmp_path).ok


# --- storage faults: each rule has one way to break it ---------------------------------------------------


def rewrite(folder: Path, side: str, change: Callable[[list[tuple[int, bytes]]], None], *, cover: bool) -> None:
    """Change the list of (kind, data); ``cover`` recomputes hashes, nodes and range as a careful forger would."""
    path = folder / side / "ledger.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    rows = db.execute("SELECT kind, data, hash FROM leaves ORDER BY idx").fetchall()
    records = [(kind, data) for kind, data, _ in rows]
    hashes = {data: hash_ for _, data, hash_ in rows}
    change(records)
    db.execute("DELETE FROM leaves")
    tree = CompactRange()
    for index, (kind, data) in enumerate(records):
        hash_ = leaf_hash(data) if cover else hashes.get(data, b"\0" * 32)
        tree.append(leaf_hash(data))
        db.execute("INSERT INTO leaves VALUES (?, ?, ?, ?)", (index, kind, hash_, data))
    if cover:
        write_range(db, tree)
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def first(records: list[tuple[int, bytes]], kind: str, skip: int = 0) -> int:
    found = [index for index, (_, data) in enumerate(records) if kind_of(data) == kind]
    return found[skip]


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def swap(records: list[tuple[int, bytes]]) -> None:
    a, b = first(records, "command", 1), first(records, "command", 2)
    records[a], records[b] = records[b], records[a]


def duplicate(records: list[tuple[int, bytes]]) -> None:
    records.append(records[first(records, "command")])


def delete(records: list[tuple[int, bytes]]) -> None:
    del records[first(records, "command", 2)]


def alter(records: list[tuple[int, bytes]]) -> None:
    at = first(records, "command", 2)
    records[at] = (records[at][0], flip(records[at][1], -1))


def insert_unknown(records: list[tuple[int, bytes]]) -> None:
    records.insert(4, (7, b"\xd2\x84\x43\xa1\x01\x27"))


def cut(records: list[tuple[int, bytes]]) -> None:
    del records[-5:]


FAULTS = {
    "swapped": (swap, "ledger-reordered"),
    "duplicated": (duplicate, "ledger-reordered"),
    "deleted": (delete, "ledger-cut"),
    "altered": (alter, "command"),
    "inserted": (insert_unknown, "unknown-record"),
    "cut": (cut, "ledger-cut"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_careful_forger_of_the_device_ledger_is_named(copy: Path, name: str) -> None:
    change, code = FAULTS[name]
    rewrite(copy, "device", change, cover=True)
    found = codes(copy)
    assert code in found
    assert found & {"checkpoint-root", "ledger-cut"} or name == "duplicated"


@pytest.mark.parametrize("name", FAULTS)
def test_a_careless_forger_is_named(copy: Path, name: str) -> None:
    change, code = FAULTS[name]
    rewrite(copy, "device", change, cover=False)
    found = codes(copy)
    assert code in found
    assert found & {"leaf-hash", "ledger-cut", "unknown-record"}


@pytest.mark.parametrize("side", ["device", "gate"])
@pytest.mark.parametrize("cover", [True, False])
def test_every_record_altered_deleted_or_moved_is_found(tmp_path: Path, side: str, cover: bool) -> None:
    """The exhaustive form of the two tests above, on one ledger file in place of a fuzzer's luck."""
    whole(tmp_path, commands=4)
    path = tmp_path / side / "ledger.db"
    original = path.read_bytes()
    size = sqlite3.connect(path).execute("SELECT count(*) FROM leaves").fetchone()[0]
    for index in range(size):
        changes: tuple[Callable[[list[tuple[int, bytes]]], None], ...] = (
            lambda records, at=index: records.__setitem__(at, (records[at][0], flip(records[at][1], -70))),
            lambda records, at=index: records.__delitem__(at),
            lambda records, at=index: records.insert(at, records[(at + 3) % len(records)]),
            lambda records, at=index: records.insert(0, records.pop(at)) if at else records.reverse(),
        )
        for number, change in enumerate(changes):
            rewrite(tmp_path, side, change, cover=cover)
            report = audit.verify(tmp_path, proofs="none")
            assert not report.ok, f"record {index}, change {number}"
            path.write_bytes(original)


def test_a_changed_index_leaves_a_gap(copy: Path) -> None:
    db = sqlite3.connect(copy / "device" / "ledger.db")
    db.execute("UPDATE leaves SET idx = idx + 5 WHERE idx = (SELECT max(idx) FROM leaves)")
    db.commit()
    db.close()
    assert "ledger-cut" in codes(copy)


def test_a_wrong_stored_kind(copy: Path) -> None:
    db = sqlite3.connect(copy / "gate" / "ledger.db")
    db.execute("UPDATE leaves SET kind = 9 WHERE idx = 3")
    db.commit()
    db.close()
    assert codes(copy) == {"unknown-record"}


def test_a_changed_compact_range(copy: Path) -> None:
    db = sqlite3.connect(copy / "gate" / "ledger.db")
    size = db.execute("SELECT count(*) FROM leaves").fetchone()[0]
    write_range(db, CompactRange(size, [b"x" * 32] * size.bit_count()))
    db.commit()
    db.close()
    assert codes(copy) == {"leaf-hash"}


@pytest.mark.parametrize("side", ["device", "gate"])
def test_checkpoints_are_held_against_key_and_tree(copy: Path, side: str) -> None:
    db = sqlite3.connect(copy / side / "ledger.db")
    size, note = db.execute("SELECT size, note FROM checkpoints ORDER BY id LIMIT 1").fetchone()
    lines = note.split(b"\n")
    other = b"\n".join([lines[0], lines[1], lines[2][:-4] + b"AAA=", *lines[3:]])
    db.execute("INSERT INTO checkpoints (size, note) VALUES (?, ?)", (10**6, note.replace(lines[1], b"1000000", 1)))
    db.execute("INSERT INTO checkpoints (size, note) VALUES (?, ?)", (size, note))
    db.execute("UPDATE checkpoints SET note = ? WHERE id = 1", (other,))
    db.execute("INSERT INTO checkpoints (size, note) VALUES (1, x'00')")
    db.execute("INSERT INTO checkpoints (size, note) VALUES (1, ?)", (note,))
    db.commit()
    db.close()
    assert codes(copy) == {"checkpoint-signature", "checkpoint-root", "ledger-cut", "ledger-reordered"}


def test_a_checkpoint_by_an_unknown_key_must_be_covered(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    known, scenario.device.signer = scenario.device.signer, SessionKey.generate()
    early = CycleRefused(DEVICE_ID, 0, 0, "no-epoch", "none", "one", 3, scenario.now_ns)
    scenario.device.append("cycle-refused", sign_record(early, scenario.device.signer))
    scenario.device.checkpoint()
    scenario.device.signer = known
    scenario.open_epoch()
    scenario.run(2)
    scenario.close()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert (report.ledgers["device"].checkpoints_unknown, report.ledgers["device"].unauthenticated) == (1, 1)
    ledger = Ledger.open(scenario.path("device"), origin=DEVICE_ORIGIN, signer=SessionKey.generate())
    ledger.checkpoint()
    ledger.close()
    assert codes(tmp_path) == {"checkpoint-signature"}


# --- what the records say --------------------------------------------------------------------------------


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(tmp_path)
    made.open_epoch()
    made.run(3)
    yield made
    made.device.close()
    made.gate.close()


def found_by(scenario: Scenario, *, clean: bool = False) -> set[str]:
    if clean:
        scenario.close()
    else:
        scenario.device.commit()
        scenario.gate.commit()
    return codes(scenario.folder)


def test_a_gate_that_accepts_a_false_output(scenario: Scenario) -> None:
    data = scenario.command(outputs=(77,))
    receipt = scenario.receipt(parse_command(data, None).command, hashlib.sha256(data).digest())
    for ledger in (scenario.device, scenario.gate):
        ledger.append("command", data)
        ledger.append("receipt", sign_record(receipt, scenario.gate_key))
    assert found_by(scenario) == {"proof"}


def test_a_gate_that_accepts_over_its_limit(scenario: Scenario) -> None:
    data = scenario.command()
    command = parse_command(data, None).command
    data = sign_command(replace(command, inputs=(1001, 3)), scenario.session)
    receipt = scenario.receipt(command, hashlib.sha256(data).digest())
    for ledger in (scenario.device, scenario.gate):
        ledger.append("command", data)
        ledger.append("receipt", sign_record(receipt, scenario.gate_key))
    report_codes = found_by(scenario)
    assert report_codes == {"command"}


def test_a_command_accepted_in_a_mode_the_gate_was_not_in(scenario: Scenario) -> None:
    data = scenario.command()
    scenario.both("mode-change", _mode_off(scenario))
    receipt = scenario.receipt(parse_command(data, None).command, hashlib.sha256(data).digest())
    for ledger in (scenario.device, scenario.gate):
        ledger.append("command", data)
        ledger.append("receipt", sign_record(receipt, scenario.gate_key))
    assert found_by(scenario) == {"command"}


def _mode_off(scenario: Scenario) -> object:
    from attest.command import Mode, ModeChange

    return ModeChange(GATE_ID, scenario.mode, Mode.OFF, (), "test", scenario.now_ns)


@pytest.mark.parametrize(
    "change",
    [
        {"accepted": (9,)},
        {"sequence": 9},
        {"applied": (9,)},
        {"state": ReadBack.NOT_WRITTEN},
        {"t_written_ns": 1},
        {"proof_verified": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_receipt_that_does_not_fit(scenario: Scenario, change: dict[str, object]) -> None:
    data = scenario.command()
    receipt = scenario.receipt(parse_command(data, None).command, hashlib.sha256(data).digest())
    record = sign_record(replace(receipt, **change), scenario.gate_key)  # type: ignore[arg-type]
    for ledger in (scenario.device, scenario.gate):
        ledger.append("command", data)
        ledger.append("receipt", record)
    assert found_by(scenario) == {"receipt"}


def test_a_refusal_of_other_bytes_or_with_another_check(scenario: Scenario) -> None:
    scenario.send(scenario.command(outputs=(5,)))
    scenario.gate.commit()
    leaf = scenario.gate.last(RecordKind.REFUSAL)
    assert leaf is not None
    from attest.command import Refusal, parse_record

    refusal = parse_record(leaf.data).record
    assert isinstance(refusal, Refusal)
    for changed in (replace(refusal, refused=b"other"), replace(refusal, check=3), replace(refusal, code="no-code")):
        scenario.gate.append("refusal", sign_record(changed, scenario.gate_key))
    assert found_by(scenario) == {"receipt"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"session_public": SessionKey.generate().public}, "evidence"),
        ({"evidence_digest": b"x" * 32}, "evidence"),
        ({"nonce": b"another nonce of 32 bytes, really"[:32]}, "evidence"),
        ({"module_digest": b"x" * 32}, "evidence"),
        ({"deployment_digest": b"x" * 32}, "evidence"),
        ({"device_id": "another"}, "evidence"),
        ({"tpm_kind": "hardware"}, "evidence"),
        ({"rules_digest": b"x" * 32}, "command"),
        ({"vk_digest": b"x" * 32}, "proof"),
        ({"epoch": 1}, "ledger-reordered"),
    ],
)
def test_an_epoch_that_should_not_have_been_opened(scenario: Scenario, changes: dict[str, object], code: str) -> None:
    record = replace(scenario.opened, **({"epoch": 2} | changes))  # type: ignore[arg-type]
    scenario.both("epoch-opened", record)
    assert code in found_by(scenario)


def test_attested_epochs_are_verified_again(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, attested=True)
    scenario.open_epoch()
    scenario.run(2)
    scenario.open_epoch()
    scenario.run(2)
    scenario.gate.commit()
    scenario.device.commit()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert [epoch.evidence for epoch in report.epochs] == ["ok", "ok"]
    assert [epoch.tpm_kind for epoch in report.epochs] == ["swtpm", "swtpm"]
    for changes in ({"ak_name": b"x"}, {"policy_digest": b"p" * 32}, {"record_digest": b""}, {"nonce": b"n" * 32}):
        number = scenario.opened.epoch + 1
        scenario.opened = replace(scenario.opened, epoch=number, **changes)  # type: ignore[arg-type]
        scenario.both("epoch-opened", scenario.opened)
    scenario.close(clean=False)
    assert [epoch.evidence for epoch in audit.verify(tmp_path).epochs][2:] == [
        "device",
        "pcr-selection",  # the first check that needs the missing policy
        "record-signature",
        "nonce",
    ]


def test_production_knows_neither_missing_attestation_nor_development_keys(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, profile="production")
    scenario.open_epoch()
    scenario.run(1)
    scenario.close()
    assert codes(tmp_path) == {"evidence", "proof"}


def test_records_by_strangers(scenario: Scenario) -> None:
    stranger = SessionKey.generate()
    alarm = sign_record(Alarm(GATE_ID, 1, 1, "code", "a", "b", 1), stranger)
    scenario.gate.append("alarm", alarm)
    scenario.device.append("alarm", alarm)
    late = LateProof(DEVICE_ID, 1, 1, b"d" * 32, ProofKind.NONE, b"", 1)
    scenario.device.append("proof", sign_record(late, stranger))
    report_codes = found_by(scenario)
    assert report_codes == {"unknown-record"}


def test_a_command_by_a_stranger_and_one_of_no_epoch(scenario: Scenario) -> None:
    command = parse_command(scenario.command(), None).command
    scenario.device.append("command", sign_command(command, SessionKey.generate()))
    header = replace(command.header, epoch=5)
    scenario.device.append("command", sign_command(replace(command, header=header), scenario.session))
    assert "command" in found_by(scenario)


def test_a_stranger_cannot_excuse_an_unanswered_command(scenario: Scenario) -> None:
    scenario.device.append("command", scenario.command())
    excuse = CycleRefused(DEVICE_ID, 1, scenario.sequence, "deadline", "a", "b", 1, 1)
    scenario.device.append("cycle-refused", sign_record(excuse, SessionKey.generate()))
    scenario.run(1)
    assert "unknown-record" in found_by(scenario)


# --- reconciliation --------------------------------------------------------------------------------------


def test_a_cut_tail_before_the_last_witness(scenario: Scenario) -> None:
    scenario.witness()
    scenario.device.close()
    rewrite(scenario.folder, "device", cut, cover=True)
    db = sqlite3.connect(scenario.path("device"))
    db.execute("DELETE FROM checkpoints")
    db.commit()
    db.close()
    assert "ledger-cut" in codes(scenario.folder)


def test_a_witness_of_another_tree(scenario: Scenario) -> None:
    record = Witness(GATE_ID, DEVICE_ORIGIN, 2, b"r" * 32, scenario.now_ns)
    scenario.gate.append("witness", sign_record(record, scenario.gate_key))
    record = Witness(GATE_ID, "another", 2, b"r" * 32, scenario.now_ns)
    scenario.gate.append("witness", sign_record(record, scenario.gate_key))
    assert found_by(scenario) == {"ledger-cut"}


def test_an_unclean_end_is_stated(scenario: Scenario) -> None:
    scenario.witness()
    scenario.send(scenario.command(), device=False)  # the device lost what it had not yet made durable
    scenario.send(scenario.command(), device=False, reply=False)
    scenario.device.commit()
    scenario.gate.commit()
    report = audit.verify(scenario.folder)
    assert report.tail_device == 2 or "ledger-cut" in {finding.code for finding in report.findings}
    assert report.tail_device == 2


def test_an_unanswered_last_command_is_stated_and_one_before_is_not(scenario: Scenario) -> None:
    scenario.send(scenario.command(), gate=False)
    scenario.device.commit()
    scenario.gate.commit()
    report = audit.verify(scenario.folder)
    assert report.findings == []
    assert report.tail_gate == 1
    scenario.run(1)
    assert found_by(scenario) == {"unreconciled"}


def test_a_missing_command_in_the_middle_is_a_cut(scenario: Scenario) -> None:
    scenario.send(scenario.command(), device=False, reply=False)
    scenario.run(1)
    assert found_by(scenario) == {"ledger-cut"}


def test_after_a_clean_end_nothing_may_be_missing(scenario: Scenario) -> None:
    scenario.send(scenario.command(), device=False, reply=False)
    assert "ledger-cut" in found_by(scenario, clean=True)


def test_a_receipt_the_gate_lost_is_a_cut_of_its_ledger(scenario: Scenario) -> None:
    scenario.device.append("command", data := scenario.command())
    receipt = scenario.receipt(parse_command(data, None).command, hashlib.sha256(data).digest())
    scenario.device.append("receipt", sign_record(receipt, scenario.gate_key))
    assert found_by(scenario) == {"ledger-cut"}


def test_an_accepted_command_without_receipt(scenario: Scenario) -> None:
    data = scenario.command()
    scenario.device.append("command", data)
    scenario.gate.append("command", data)
    scenario.device.commit()
    scenario.gate.commit()
    report = audit.verify(scenario.folder)
    assert report.findings == []
    assert report.tail_receipts == 1
    assert "receipt" in found_by(scenario, clean=True)


# --- files -----------------------------------------------------------------------------------------------


def test_missing_and_foreign_files_are_findings(copy: Path) -> None:
    (copy / "gate" / "ledger.db").unlink()
    (copy / "device" / "ledger.db").write_bytes(b"something else entirely")
    assert codes(copy) == {"ledger-missing", "ledger-foreign"}
    shutil.rmtree(copy / "anchors")
    assert codes(copy) == {"anchors"}


def test_a_ledger_of_another_origin(copy: Path) -> None:
    db = sqlite3.connect(copy / "gate" / "ledger.db")
    db.execute("UPDATE meta SET value = ? WHERE name = 'origin'", (b"another/log",))
    db.commit()
    db.close()
    assert "ledger-origin" in codes(copy)


@pytest.mark.parametrize("side", ["device", "gate"])
def test_damaged_pages_end_in_findings(copy: Path, side: str) -> None:
    """Every page of the file overwritten in turn: the audit always ends, and never calls it whole."""
    path = copy / side / "ledger.db"
    original = path.read_bytes()
    for start in range(0, len(original), 4096):
        path.write_bytes(original[:start] + bytes(4096) + original[start + 4096 :])
        report = audit.verify(copy, proofs="none")
        empty = start > 0 and original[start + 3 : start + 5] == b"\0\0"  # a b-tree page without cells
        assert not report.ok or empty


# --- show and extract ------------------------------------------------------------------------------------


def test_every_record_can_be_shown(recorded: tuple[Path, Scenario]) -> None:
    ledger = Ledger.open_readonly(recorded[0] / "device" / "ledger.db")
    shown = [audit.show(leaf.data) for leaf in ledger.iterate()]
    ledger.close()
    command = next(item for item in shown if item["kind"] == "command")
    assert command["epoch"] == 1
    assert command["mode"] == "auto"
    assert len(command["ctx"]) == 62
    assert {item["kind"] for item in shown} >= {"evidence", "epoch-opened", "receipt", "refusal", "cycle-refused"}
    with pytest.raises(LedgerError):
        audit.show(b"no record")


def test_an_extracted_proof_verifies_with_py_ecc_alone(recorded: tuple[Path, Scenario]) -> None:
    ledger = Ledger.open_readonly(recorded[0] / "device" / "ledger.db")
    leaf = ledger.last(RecordKind.COMMAND)
    assert leaf is not None
    found = audit.extract(ledger, leaf.index)
    anchors = load_anchors(recorded[0] / "anchors")
    key = anchors.modules[found.module_digest].verification_key
    assert key == model().verification_key
    PyEccVerifier(key, vk_sha256=key_hash(key)).verify(found.inputs, found.outputs, found.ctx, found.proof)
    with pytest.raises(LedgerError, match="ledger-kind"):
        audit.extract(ledger, 0)
    with pytest.raises(LedgerError, match="ledger-range"):
        audit.extract(ledger, 10**6)
    ledger.close()
    assert RULES.digest() in anchors.rules


# --- proofs on BLS12-381 ------------------------------------------------------------------------------------

BLS_RULES = replace(RULES, proof_kind=ProofKind.GROTH16_BLS12_381)


def test_a_ledger_of_proofs_on_bls12_381_verifies_with_both_engines(tmp_path: Path) -> None:
    whole(tmp_path, commands=4, rules=BLS_RULES)
    report = audit.verify(tmp_path)
    assert report.ok, report.findings
    assert report.proofs_checked == report.accepted == 4
    second = audit.verify(tmp_path, proofs=1, engine="py-ecc")
    assert (second.ok, second.proofs_checked) == (True, 1)


def test_a_key_on_another_curve_than_the_rules_demand_is_a_finding(tmp_path: Path) -> None:
    """The epoch pins it and the anchors hold it, but no proof under it is of the kind that the rules name."""
    scenario = Scenario(tmp_path, rules=BLS_RULES, key_curve=Curve.BN254)
    scenario.open_epoch()
    scenario.close()
    report = audit.verify(tmp_path)
    found = [(finding.code, finding.found, finding.expected) for finding in report.findings]
    assert found == [("proof", "a key on bn254", "GROTH16_BLS12_381 as the rules demand")]
