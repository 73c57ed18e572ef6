"""Ledgers from the server's side: following them, keeping what matters, and handing out any record with its proof."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attest.command import (
    Command,
    CommandHeader,
    LateProof,
    Mode,
    ProofKind,
    ReadBack,
    TimeQuality,
    parse_command,
    sign_command,
    sign_record,
)
from attest.ledger import LedgerError, RecordKind, parse_checkpoint, verify_inclusion
from attest.ledger.merkle import leaf_hash
from sitsedge.server import records, tail
from sitsedge.server.feed import Feed, Sources
from sitsedge.server.news import EVENTS_MAX, FROM_GATE, WORDS_MAX, News
from sitsedge.server.records import FetchError, fetch_proof, fetch_record
from sitsedge.server.tail import LedgerTail
from sitsedge.server.viewmaker import Shape, make_view
from tests.sitsedge.server.standin import DEPLOYMENT, MODULE, SCALES, StandIn


@pytest.fixture
def there(tmp_path: Path) -> Iterator[StandIn]:
    appliance = StandIn(tmp_path / "s")
    yield appliance
    appliance.gate.close()
    appliance.device.close()


def test_only_what_is_new_is_read(there: StandIn) -> None:
    following = LedgerTail(there.gate_ledger)
    there.epoch()
    there.command()
    assert [leaf.kind for leaf in following.step().leaves] == ["epoch-opened", "command", "receipt"]
    assert following.step().leaves == ()
    there.alarm("not-applied")
    assert [leaf.kind for leaf in following.step().leaves] == ["alarm"]
    assert following.position == there.gate.size


def test_a_start_looks_back_a_bounded_way(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BACKLOG_MAX", 3)
    monkeypatch.setattr(tail, "RECORDS_MAX", 2)
    for _ in range(5):
        there.refusal()
    fresh = LedgerTail(there.gate_ledger)
    first, second = fresh.step(), fresh.step()
    assert [leaf.index for leaf in (*first.leaves, *second.leaves)] == [2, 3, 4]
    assert (first.more, second.more, first.skipped) == (True, False, 0)
    behind = LedgerTail(there.gate_ledger, position=1)
    assert behind.step().skipped == 1


def test_a_ledger_that_became_shorter_is_a_fault_once(there: StandIn) -> None:
    there.refusal()
    following = LedgerTail(there.gate_ledger, position=9)
    with pytest.raises(LedgerError, match="ledger-cut"):
        following.step()
    there.refusal()
    assert len(following.step().leaves) == 1


def test_a_writer_is_not_held_up(there: StandIn) -> None:
    """No step leaves anything open: the write-ahead log can be folded into the file at once."""
    following = LedgerTail(there.gate_ledger)
    there.refusal()
    following.step()
    there.gate.commit()
    busy, _, _ = there.gate._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0


def feed(there: StandIn) -> Feed:
    return Feed(Sources(there.root / "run", there.gate_ledger, there.device_ledger, ("gate", "sitsd"), {}, 0.01))


def test_a_command_is_shown_with_its_own_receipt(there: StandIn) -> None:
    there.epoch()
    _, first = there.command(outputs=(10, 20))
    looks = feed(there)
    view = make_view(looks.look(0.0), {}, Shape(SCALES), time.time_ns())
    assert view.command is not None
    assert (view.command.record, view.command.outputs, view.command.state) == (first, (0.005, 0.02), "ok")
    assert view.command.applied == view.command.read_back == (0.005, 0.02)
    assert view.epoch is not None
    assert (view.epoch.number, view.epoch.module_digest) == (1, MODULE.hex())
    assert view.gate is not None
    assert (view.gate.mode, view.gate.verified_reason, view.gate.proof_policy) == ("AUTO", "", "inline")
    assert view.loop is not None
    assert view.loop.cycles == 100

    # A second command whose receipt is still on its way does not show half of itself.
    there.gate.append(RecordKind.COMMAND, sign_command(_command(there, 2), there.session))
    there.gate.commit()
    view = make_view(looks.look(0.5), {}, Shape(SCALES), time.time_ns())
    assert view.command is not None
    assert (view.command.record, view.command.sequence) == (first, 1)


def _command(
    there: StandIn, sequence: int, kind: ProofKind = ProofKind.GROTH16_BN254, proof: bytes = bytes(128)
) -> Command:
    now = time.time_ns()
    header = CommandHeader(1, "d", "g", 1, sequence, now, now, MODULE, DEPLOYMENT, Mode.AUTO)
    return Command(header, (1, 2, 3), (1, 2), kind, proof, TimeQuality.NTP)


def test_a_command_that_never_gets_a_receipt_is_shown_in_the_end(there: StandIn) -> None:
    there.command()
    looks = feed(there)
    looks.look(0.0)
    late = _command(there, 2)
    header = replace(late.header, t_decided_ns=late.header.t_decided_ns + 10**11)
    data = sign_command(replace(late, header=header), there.session)
    there.gate.append(RecordKind.COMMAND, data)
    there.gate.commit()
    view = make_view(looks.look(0.5), {}, Shape(SCALES), time.time_ns())
    assert view.command is not None
    assert (view.command.record, view.command.receipt, view.command.state) == (data, None, None)


def test_refusals_of_both_parties(there: StandIn) -> None:
    looks = feed(there)
    there.refusal("replay")
    view = make_view(looks.look(0.0), {}, Shape(SCALES), 1)
    assert view.refusal is not None
    assert (view.refusal.party, view.refusal.code, view.refusal.sequence) == ("gate", "replay", 7)
    there.cycle_refused("input-range", "tension = 40 kN", "-30 kN .. 30 kN")
    facts = looks.look(0.5)
    view = make_view(facts, {}, Shape(SCALES), 1)
    assert view.refusal is not None
    assert (view.refusal.party, view.refusal.found) == ("device", "tension = 40 kN")
    assert facts.news.words["input-range"].expected == "-30 kN .. 30 kN"


def test_floods_are_counted_not_kept(there: StandIn) -> None:
    for number in range(WORDS_MAX + EVENTS_MAX):
        there.gate.append(RecordKind.ALARM, sign_record(_alarm(number), there.gate_key))
    there.gate.commit()
    news = News()
    news.take(LedgerTail(there.gate_ledger).step().leaves, FROM_GATE)
    assert (len(news.events), news.events_dropped, len(news.words)) == (EVENTS_MAX, WORDS_MAX, WORDS_MAX)
    news.begin()
    assert (news.events, news.events_dropped) == ([], 0)


def _alarm(number: int) -> object:
    from attest.command import Alarm

    return Alarm("g", 1, 1, f"code-{number}", "found", "expected", 1)


def test_ledgers_that_are_not_there_yet_are_no_fault(tmp_path: Path) -> None:
    looks = Feed(
        Sources(tmp_path, tmp_path / "g.db", tmp_path / "d.db", ("gate",), {"appliance": tmp_path / "x"}, 0.01)
    )
    facts = looks.look(0.0)
    assert (facts.ledger_fault, facts.certificates) == (None, {})
    (tmp_path / "g.db").write_bytes(b"no ledger at all")
    assert looks.look(0.5).ledger_fault == "gate ledger: ledger-foreign"


def test_the_epoch_of_an_earlier_life_is_found_again(there: StandIn) -> None:
    index = there.epoch()
    looks = Feed(
        Sources(there.root / "run", there.gate_ledger, there.device_ledger, ("gate",), {}, 0.01),
        positions={"gate": there.gate.size},
    )
    assert looks.look(0.0).news.epoch is None
    looks.recall_epoch(index + 99)
    assert looks.news.epoch is None
    looks.recall_epoch(index)
    assert looks.news.epoch is not None


def test_a_record_with_its_inclusion_proof(there: StandIn) -> None:
    for _ in range(4):
        there.command()
    note = there.gate.checkpoint()
    index, data = there.command()
    fetched = fetch_record(there.gate_ledger, 4)
    checkpoint = parse_checkpoint(fetched.checkpoint).checkpoint
    assert (fetched.checkpoint, fetched.tree_size) == (note, checkpoint.size)
    verify_inclusion(leaf_hash(fetched.data), 4, fetched.tree_size, list(fetched.inclusion), checkpoint.root)
    fresh = fetch_record(there.gate_ledger, index)
    assert (fresh.data, fresh.checkpoint, fresh.inclusion) == (data, b"", ())


@pytest.mark.parametrize("index", [-1, 99, 2**63, 2**64])
def test_a_record_that_is_not_there(there: StandIn, index: int) -> None:
    there.refusal()
    with pytest.raises(FetchError, match="record-unknown"):
        fetch_record(there.gate_ledger, index)


def test_a_record_too_large_for_an_answer(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ANSWER_BYTES_MAX", 100)
    there.refusal()
    with pytest.raises(FetchError, match="record-large"):
        fetch_record(there.gate_ledger, 0)


def test_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="ledger"):
        fetch_record(tmp_path / "none.db", 0)


def test_every_command_is_found_by_its_number(there: StandIn) -> None:
    known = {}
    for _ in range(9):
        there.refusal()
        there.command()
        known[there.sequence] = there.command()[1]
        there.refusal()
    for sequence, data in known.items():
        found = fetch_proof(there.gate_ledger, there.device_ledger, 1, sequence)
        assert (found.command, found.kind) == (data, ProofKind.GROTH16_BN254)
    for epoch, sequence in ((1, 0), (1, 99), (0, 3), (2, 3)):
        with pytest.raises(FetchError, match="record-unknown"):
            fetch_proof(there.gate_ledger, there.device_ledger, epoch, sequence)


def test_a_search_is_bounded(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SEARCH_RECORDS_MAX", 5)
    there.command()
    for _ in range(20):
        there.refusal()
    with pytest.raises(FetchError, match="within the search"):
        fetch_proof(there.gate_ledger, there.device_ledger, 1, 1)


def test_a_proof_that_followed_and_one_that_is_owed(there: StandIn) -> None:
    data = sign_command(_command(there, 1, ProofKind.COMMITMENT, bytes(32)), there.session)
    there.gate.append(RecordKind.COMMAND, data)
    there.gate.commit()
    there.device.commit()
    with pytest.raises(FetchError, match="proof-owed"):
        fetch_proof(there.gate_ledger, there.device_ledger, 1, 1)
    digest = parse_command(data, None).digest
    late = LateProof("d", 1, 1, digest, ProofKind.GROTH16_BN254, bytes(range(128)), time.time_ns())
    there.device.append(RecordKind.PROOF, sign_record(late, there.session))
    there.device.commit()
    found = fetch_proof(there.gate_ledger, there.device_ledger, 1, 1)
    assert (found.kind, found.proof, found.command) == (ProofKind.GROTH16_BN254, bytes(range(128)), data)
    looks = feed(there)
    looks.look(0.0)
    view = make_view(looks.look(0.0), {}, Shape(SCALES), 1)
    assert view.command is not None
    assert (view.command.proof_kind, view.command.proof) == (3, bytes(range(128)))


def test_a_command_without_proof(there: StandIn) -> None:
    there.gate.append(RecordKind.COMMAND, sign_command(_command(there, 1, ProofKind.NONE, b""), there.session))
    there.gate.commit()
    with pytest.raises(FetchError, match="record-kind"):
        fetch_proof(there.gate_ledger, there.device_ledger, 1, 1)


def test_not_applied_reaches_the_news(there: StandIn) -> None:
    there.alarm("not-applied", "no read-back", "sequence 1")
    there.command(state=ReadBack.NOT_APPLIED)
    news = feed(there).look(0.0).news
    assert news.not_applied_ns > 0
    assert news.receipt is not None
    assert news.receipt.state is ReadBack.NOT_APPLIED
