"""From one epoch to the next while commands flow: none is lost, and nothing but the new key's signature begins it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from attest.command import (
    Command,
    CommandHeader,
    EpochOpened,
    Mode,
    ProofKind,
    ProofPolicy,
    SessionKey,
    TimeQuality,
    sign_command,
)
from attest.ledger import Checkpoint, RecordKind, sign_checkpoint
from attest.ledger.merkle import EMPTY_ROOT
from sitsedge.gate.core import GateSetup
from tests.sitsedge.gate.test_attestation import DEPLOYED, MODULE, Rig, failing, good, rig, run
from tests.sitsedge.gate.test_late_proofs import RULES

__all__ = ["rig"]
OTHER = SessionKey.generate()


def command(key: SessionKey, epoch: int, sequence: int, **changes: Any) -> bytes:
    now = time.time_ns()
    header = CommandHeader(1, "edge", "gate", epoch, sequence, now, now, MODULE, DEPLOYED, Mode.SHADOW)
    made = Command(replace(header, **changes), (1, 2), (3,), ProofKind.NONE, b"", TimeQuality.PTP_HW)
    return sign_command(made, key)


async def send(rig: Rig, data: bytes) -> str:
    answer = await rig.ask({"t": "command", "command": data})
    return "accepted" if answer["t"] == "receipt" else str(answer["code"])


def shadow(rig: Rig) -> None:
    """Commands are recorded, without proof and PLC: this is about epochs."""
    rig.gate._setup = GateSetup(
        replace(RULES, gate_id="gate", proof_policy=ProofPolicy.OFF, modes=frozenset({Mode.SHADOW})), 10**12
    )
    rig.gate.modes.change(Mode.SHADOW, (), "test")


async def two_epochs(rig: Rig) -> tuple[SessionKey, SessionKey]:
    """One that is open and one that waits; their keys."""
    shadow(rig)
    first, second = rig.key, SessionKey.generate()
    await rig.attest(good(first))
    rig.key = second
    await rig.attest(good(second))
    return first, second


def test_commands_on_their_way_are_still_of_the_epoch_before(rig: Rig) -> None:
    async def scenario() -> None:
        first, second = await two_epochs(rig)
        assert await send(rig, command(first, 1, 1)) == "accepted"
        assert rig.gate.epoch_number == 1
        assert await send(rig, command(second, 2, 1)) == "accepted"
        assert rig.gate.epoch_number == 2
        assert await send(rig, command(first, 1, 2)) == "epoch-unknown"
        assert await send(rig, command(second, 2, 1)) == "replay"
        assert await send(rig, command(second, 2, 2)) == "accepted"

    run(scenario())
    closed = rig.records(RecordKind.EPOCH_CLOSED)
    assert [record.epoch for record in closed] == [1]


@pytest.mark.parametrize(
    "forged",
    [
        lambda: command(OTHER, 2, 1),
        lambda: command(OTHER, 3, 1),
        lambda: command(OTHER, 2, 1, device_id="another"),
    ],
)
def test_a_command_that_the_new_key_did_not_sign_begins_nothing(rig: Rig, forged: Callable[[], bytes]) -> None:
    async def scenario() -> None:
        first, _ = await two_epochs(rig)
        assert await send(rig, forged()) in ("signature", "epoch-unknown", "device-id")
        assert rig.gate.epoch_number == 1
        assert await send(rig, command(first, 1, 1)) == "accepted"

    run(scenario())


def test_a_refused_command_of_the_new_key_begins_its_epoch(rig: Rig) -> None:
    async def scenario() -> None:
        _, second = await two_epochs(rig)
        assert await send(rig, command(second, 2, 1, module_digest=bytes(32))) == "module-digest"
        assert rig.gate.epoch_number == 2
        assert await send(rig, command(second, 2, 1)) == "accepted"

    run(scenario())


def test_a_checkpoint_of_the_new_key_begins_its_epoch_and_one_of_the_old_does_not(rig: Rig) -> None:
    async def scenario() -> None:
        first, second = await two_epochs(rig)
        for key, epoch in ((first, 1), (second, 2)):
            note = sign_checkpoint(Checkpoint("sits/test/device/edge", 0, EMPTY_ROOT), key)
            answer = await rig.ask({"t": "checkpoint", "note": note, "consistency": []})
            assert answer["t"] == "witness"
            assert rig.gate.epoch_number == epoch

    run(scenario())
    assert rig.alarms() == []


def test_an_incident_or_a_failed_attestation_ends_both(rig: Rig) -> None:
    async def scenario() -> None:
        first, second = await two_epochs(rig)
        await rig.attest(failing("boot-policy"))
        assert rig.gate.epoch_number is None
        assert await send(rig, command(first, 1, 1)) == "epoch-unknown"
        assert await send(rig, command(second, 2, 1)) == "epoch-unknown"

    run(scenario())
    assert sorted(record.epoch for record in rig.records(RecordKind.EPOCH_CLOSED)) == [1, 2]


def test_the_epoch_that_waits_begins_when_the_one_before_expires(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        await two_epochs(rig)
        [one, _] = rig.records(RecordKind.EPOCH_OPENED)
        assert isinstance(one, EpochOpened)
        monkeypatch.setattr("sitsedge.gate.core.time.time_ns", lambda: one.expires_ns)
        rig.gate.supervise()
        assert rig.gate.epoch_number == 2

    run(scenario())


def test_evidence_extends_what_was_vouched_for_when_its_nonce_was_given(rig: Rig) -> None:
    async def scenario() -> None:
        await two_epochs(rig)
        challenge = await rig.ask({"t": "challenge"})
        assert challenge["witnessed"] == 0
        # A checkpoint is vouched for while the evidence is made: the evidence still shows the tree of before.
        rig.gate._desk.seen = Checkpoint("sits/test/device/edge", 5, bytes(32))
        assert (await rig.attest(good(rig.key), nonce=challenge["nonce"]))["t"] == "epoch"
        assert (await rig.attest(good(rig.key)))["code"] == "ledger-cut"

    run(scenario())
