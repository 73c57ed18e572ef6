"""An attestation that fails or runs out while the plant runs: alarm, a calm return to MAN, recovery by people."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attest.command import Alarm, EpochClosed, GateKey, Mode, ModeChange, SessionKey, parse_record
from attest.evidence.none import build_none
from attest.evidence.seen import NOTHING_SEEN, Seen
from attest.evidence.verdict import Check, Verdict
from attest.evidence.verify import CHECKS
from attest.ledger import Ledger, RecordKind
from attest.ledger.merkle import EMPTY_ROOT
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.attestation import (
    ABOUT_THE_DEVICE,
    FIRST_EPOCH_NS,
    VOUCHED,
    AttestationWatch,
    Phase,
    vouched,
)
from sitsedge.gate.book import GateBook
from sitsedge.gate.core import Gate, GateSetup, ProofCheck
from sitsedge.gate.epochs import DeskSetup, EpochDesk
from sitsedge.gate.link import Message, decode
from sitsedge.gate.modes import IncidentLatch, ModeKeeper, ModeRefused
from sitsedge.gate.proofs import DeskLimits, ProofDesk
from sitsedge.gate.server import Connection
from tests.sitsedge.gate.test_late_proofs import RULES

S = 1_000_000_000
LIFE_S = 40
MODULE, DEPLOYED = b"m" * 32, b"d" * 32


def failing(*names: str) -> Verdict:
    """A verdict of the real checks in which these, and nothing else, fail."""
    return Verdict(tuple(Check(n, name, name not in names, "found", "expected") for n, name in enumerate(CHECKS, 1)))


def good(key: SessionKey) -> Verdict:
    return Verdict(failing().checks, session_public=key.public, tpm_kind="swtpm", device_id="edge", policy_name="boot")


# --- whose word it is ------------------------------------------------------------------------------------------------


def test_the_names_are_those_of_the_verifier() -> None:
    assert set(CHECKS) >= VOUCHED | ABOUT_THE_DEVICE
    assert not VOUCHED & ABOUT_THE_DEVICE


@pytest.mark.parametrize("name", sorted(ABOUT_THE_DEVICE))
def test_what_the_enrolled_tpm_shows_is_its_word(name: str) -> None:
    assert vouched(failing(name))


@pytest.mark.parametrize("name", sorted(set(CHECKS) - ABOUT_THE_DEVICE))
def test_what_anybody_could_send_is_nobody_s_word(name: str) -> None:
    assert not vouched(failing(name))


@pytest.mark.parametrize("forged", sorted(VOUCHED))
def test_a_forgery_that_shows_a_bad_boot_is_nobody_s_word(forged: str) -> None:
    assert not vouched(failing("boot-policy", forged, "record-revocation"))


# --- time ------------------------------------------------------------------------------------------------------------


def attested() -> AttestationWatch:
    watch = AttestationWatch(0)
    assert not watch.opened(opened_ns=0, expires_ns=LIFE_S * S, tpm_kind="swtpm")
    return watch


def test_an_epoch_in_its_first_three_quarters_is_quiet() -> None:
    watch = attested()
    assert watch.check(0) is None
    assert watch.check(30 * S - 1) is None
    assert watch.phase is Phase.ATTESTED


def test_a_late_successor_is_an_alarm_and_the_epoch_stays_good() -> None:
    watch = attested()
    event = watch.check(30 * S)
    assert event is not None
    assert (event.code, event.step_down) == ("attestation-overdue", False)
    assert watch.good
    assert watch.fault is None
    assert watch.check(31 * S) is None
    assert watch.opened(opened_ns=31 * S, expires_ns=71 * S, tpm_kind="swtpm")
    assert watch.check(31 * S) is None


def test_the_step_down_comes_before_the_end_and_once() -> None:
    watch = attested()
    watch.check(30 * S)
    event = watch.check(39 * S)
    assert event is not None
    assert (event.code, event.step_down) == ("attestation-ended", True)
    assert watch.fault is not None
    assert watch.check(41 * S) is None
    assert watch.opened(opened_ns=50 * S, expires_ns=90 * S, tpm_kind="swtpm")
    assert watch.fault is None


def test_no_first_epoch_at_all_steps_down_too() -> None:
    watch = AttestationWatch(0)
    assert watch.check(FIRST_EPOCH_NS // 2) is None
    event = watch.check(FIRST_EPOCH_NS)
    assert event is not None
    assert event.step_down


def test_a_failure_is_told_once_until_it_is_over() -> None:
    watch = attested()
    assert watch.failed("boot-policy", "PCR 4", "an allowed state") is not None
    assert watch.failed("boot-policy", "PCR 4", "an allowed state") is None
    assert watch.check(39 * S) is None
    assert watch.opened(opened_ns=50 * S, expires_ns=90 * S, tpm_kind="swtpm")
    assert watch.failed("boot-policy", "PCR 4", "an allowed state") is not None


# --- the gate --------------------------------------------------------------------------------------------------------


class Plant:
    """Notes what the gate asks of the PLC; ``delivery`` has its own tests."""

    def __init__(self) -> None:
        self.auto: list[bool] = []

    def request_auto(self, wanted: bool) -> None:
        self.auto.append(wanted)

    def plant_outputs(self) -> tuple[int, ...]:
        return (0,)


@dataclass
class Rig:
    gate: Gate
    ledger: LedgerWriter
    connection: Connection
    client: socket.socket
    path: Path
    plant: Plant
    key: SessionKey
    verdicts: list[Verdict] = field(default_factory=list)

    async def attest(self, verdict: Verdict, *, nonce: bytes | None = None) -> Message:
        self.verdicts.append(verdict)
        nonce = self.connection.new_nonce() if nonce is None else nonce
        evidence = build_none(signer=self.key, nonce=nonce, module_digest=MODULE, deployment_digest=DEPLOYED)
        head = {"ledger": {"size": 0, "root": EMPTY_ROOT}, "consistency": []}
        return await self.ask({"t": "evidence", "nonce": nonce, "evidence": evidence, **head})

    async def ask(self, message: Message) -> Message:
        await self.gate.handle(self.connection, message, time.monotonic_ns())
        return decode(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.client, 262_144), 10))

    def records(self, kind: RecordKind) -> list[Any]:
        self.ledger.flush(timeout_s=10)
        ledger = Ledger.open_readonly(self.path)
        try:
            return [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is kind]
        finally:
            ledger.close()

    def alarms(self) -> list[str]:
        records: list[Alarm] = self.records(RecordKind.ALARM)
        return [record.code for record in records]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    key, session = GateKey.create(tmp_path / "gate.key"), SessionKey.generate()
    ledger = LedgerWriter(tmp_path / "ledger.db", origin="sits/test/gate", signer=key, group_ms=0)
    book = GateBook("gate", key, ledger)
    verdicts: list[Verdict] = []

    def verify(evidence: bytes, nonce: bytes, now_ns: int, seen: Seen) -> Verdict:
        return verdicts.pop(0)

    setup = DeskSetup("gate", "edge", "sits/test/device/edge", MODULE, DEPLOYED, bytes(32), b"", b"", b"", LIFE_S)
    modes = ModeKeeper(ceiling=Mode.AUTO, ceiling_reason="")
    modes.change(Mode.AUTO, ("anna", "boris"), "test")
    plant = Plant()
    gate = Gate(
        GateSetup(RULES, 10**12),
        book=book,
        desk=EpochDesk(setup, key=key, verify=verify, number=0, accepted=NOTHING_SEEN, seen=None),
        modes=modes,
        delivery=plant,  # type: ignore[arg-type]
        proof=ProofCheck(None, lambda _: ()),  # type: ignore[arg-type]
        announce=lambda _: None,
        latch=IncidentLatch(tmp_path / "incident"),
        proofs=ProofDesk(DeskLimits(S, 1), book=book, key_of=None, mark=tmp_path / "owed.json"),  # type: ignore[arg-type]
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    yield Rig(gate, ledger, Connection(ours), theirs, tmp_path / "ledger.db", plant, session, verdicts)
    ours.close()
    theirs.close()
    ledger.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_bad_boot_shown_by_the_tpm_returns_the_plant_to_man_and_ends_the_epoch(rig: Rig) -> None:
    async def scenario() -> None:
        assert (await rig.attest(good(rig.key)))["t"] == "epoch"
        assert (await rig.attest(failing("boot-policy")))["code"] == "boot-policy"
        assert (await rig.attest(failing("boot-policy")))["code"] == "boot-policy"

    run(scenario())
    assert rig.gate.modes.mode is Mode.ADVISORY
    assert rig.plant.auto == [False]  # once, and with the last applied value: that is the PLC's MAN
    assert rig.gate.epoch_number is None
    assert rig.alarms() == ["attestation-failed"]
    [change] = rig.records(RecordKind.MODE_CHANGE)
    assert isinstance(change, ModeChange)
    assert "boot-policy" in change.reason
    [closed] = rig.records(RecordKind.EPOCH_CLOSED)
    assert isinstance(closed, EpochClosed)
    assert closed.reason == "attestation failed: boot-policy"


def test_no_writing_mode_before_it_is_attested_again_and_then_only_by_people(rig: Rig) -> None:
    async def scenario() -> None:
        await rig.attest(good(rig.key))
        await rig.attest(failing("reset-count"))
        with pytest.raises(ModeRefused, match="mode-attestation"):
            rig.gate.change_mode(Mode.AUTO, ("anna", "boris"), "by hand")
        await rig.attest(good(rig.key))
        assert rig.gate.modes.mode is Mode.ADVISORY
        rig.gate.change_mode(Mode.AUTO, ("anna", "boris"), "by hand")

    run(scenario())
    assert rig.plant.auto == [False, True]
    assert rig.gate.epoch_number == 2


def test_forged_evidence_is_refused_and_moves_nothing(rig: Rig) -> None:
    async def scenario() -> None:
        await rig.attest(good(rig.key))
        assert (await rig.attest(failing("quote-signature", "boot-policy")))["code"] == "quote-signature"

    run(scenario())
    assert rig.plant.auto == []
    assert rig.gate.epoch_number == 1
    assert rig.alarms() == []
    assert len(rig.records(RecordKind.EPOCH_REFUSED)) == 1


def test_an_epoch_without_successor_alarms_then_steps_down_while_it_is_still_open(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.time_ns()
    now = [start]
    monkeypatch.setattr("sitsedge.gate.core.time.time_ns", lambda: now[0])

    async def scenario() -> None:
        await rig.attest(good(rig.key))
        now[0] = start + 31 * S
        rig.gate.supervise()
        assert rig.plant.auto == []
        now[0] = start + LIFE_S * S - S // 2
        rig.gate.supervise()
        assert rig.gate.modes.mode is Mode.ADVISORY
        assert rig.gate.epoch_number == 1  # commands of the last second are still good
        now[0] = start + LIFE_S * S + S
        rig.gate.supervise()
        assert rig.gate.epoch_number is None
        await rig.attest(good(rig.key))  # the TPM is back: no restart needed

    run(scenario())
    assert rig.alarms() == ["attestation-overdue", "attestation-ended"]
    assert rig.plant.auto == [False]
    assert rig.gate.watch.fault is None


def test_an_epoch_s_answer_says_which_change_its_mode_came_with(rig: Rig) -> None:
    async def scenario() -> None:
        before = await rig.attest(good(rig.key))
        rig.gate.change_mode(Mode.SHADOW, (), "test")
        after = await rig.attest(good(rig.key))
        assert (before["mode"], before["change"]) == (int(Mode.AUTO), 0)
        assert (after["mode"], after["change"]) == (int(Mode.SHADOW), 1)

    run(scenario())
