"""Opening epochs: nonces, evidence, and a device ledger that must hold everything the gate vouched for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.command import Alarm, EpochRefused, GateKey, SessionKey, parse_record, sign_record
from attest.evidence.none import build_none, verify_none
from attest.evidence.seen import NOTHING_SEEN, Seen
from attest.evidence.verdict import Verdict
from attest.ledger import Checkpoint, Ledger, LedgerError, RecordKind, sign_checkpoint
from sitsedge.gate.epochs import DeskSetup, EpochDesk, EpochRejected
from sitsedge.gate.server import Connection

MODULE, DEPLOYED = b"m" * 32, b"d" * 32
ORIGIN = "sits/test/device/edge"


def verify(evidence: bytes, nonce: bytes, now_ns: int, seen: Seen) -> Verdict:
    return verify_none(
        evidence, nonce=nonce, expected_module=MODULE, expected_deployment=DEPLOYED, development_profile=True
    )


class Device:
    """A device with a session key and a ledger of its own."""

    def __init__(self, path: Path, records: int = 5) -> None:
        self.key = SessionKey.generate()
        self.ledger = Ledger.open(path, origin=ORIGIN, signer=self.key)
        self.grow(records)

    def grow(self, records: int) -> None:
        for i in range(records):
            record = Alarm("edge", 0, self.ledger.appended + i, "code", "found", "expected", 1)
            self.ledger.append(RecordKind.ALARM, sign_record(record, self.key))
        self.ledger.commit()

    def message(self, nonce: bytes, *, known: int = 0, module: bytes = MODULE) -> dict[str, Any]:
        evidence = build_none(signer=self.key, nonce=nonce, module_digest=module, deployment_digest=DEPLOYED)
        size = self.ledger.size
        head = {"size": size, "root": self.ledger.root(size)}
        return {
            "nonce": nonce,
            "evidence": evidence,
            "ledger": head,
            "consistency": self.ledger.consistency(known, size),
        }

    def checkpoint(self, *, known: int) -> dict[str, Any]:
        size = self.ledger.size
        note = sign_checkpoint(Checkpoint(ORIGIN, size, self.ledger.root(size)), self.key)
        return {"note": note, "consistency": self.ledger.consistency(known, size)}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path / "device.db")
    yield made
    made.ledger.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield Connection(ours)
    ours.close()
    theirs.close()


@pytest.fixture
def desk(tmp_path: Path) -> EpochDesk:
    setup = DeskSetup("gate", "edge", ORIGIN, MODULE, DEPLOYED, bytes(32), b"", b"", b"", 60)
    key = GateKey.create(tmp_path / "gate.key")
    return EpochDesk(setup, key=key, verify=verify, number=7, accepted=NOTHING_SEEN, seen=None)


def rejected(desk: EpochDesk, connection: Connection, message: dict[str, Any]) -> str:
    with pytest.raises(EpochRejected) as caught:
        desk.open(connection, message, None)
    record = parse_record(caught.value.record).record
    assert isinstance(record, EpochRefused)
    assert record.code == caught.value.code
    return caught.value.code


def test_numbers_continue_and_the_evidence_is_pinned(desk: EpochDesk, device: Device, connection: Connection) -> None:
    opened, evidence = desk.open(connection, device.message(connection.new_nonce()), (1, 2))
    assert opened.epoch == 8
    assert opened.session_public == device.key.public
    assert opened.plant_outputs == (1, 2)
    assert verify(evidence, opened.nonce, 0, None).ok
    assert desk.open(connection, device.message(connection.new_nonce()), None)[0].epoch == 9


def test_a_nonce_works_once_and_only_on_its_connection(desk: EpochDesk, device: Device, connection: Connection) -> None:
    nonce = connection.new_nonce()
    desk.open(connection, device.message(nonce), None)
    assert rejected(desk, connection, device.message(nonce)) == "nonce"
    assert rejected(desk, connection, device.message(bytes(32))) == "nonce"


def test_the_first_failed_check_of_the_evidence_names_the_refusal(
    desk: EpochDesk, device: Device, connection: Connection
) -> None:
    assert rejected(desk, connection, device.message(connection.new_nonce(), module=b"x" * 32)) == "module-digest"
    message = device.message(connection.new_nonce())
    message["evidence"] = message["evidence"][:-1]
    assert rejected(desk, connection, message) == "format"
    assert rejected(desk, connection, {"nonce": 1}) == "format"


@pytest.mark.parametrize("head", [None, {}, {"size": -1, "root": bytes(32)}, {"size": True, "root": bytes(32)}, 5])
def test_no_tree_head_no_epoch(desk: EpochDesk, device: Device, connection: Connection, head: object) -> None:
    message = device.message(connection.new_nonce()) | {"ledger": head}
    assert rejected(desk, connection, message) == "ledger-head"


def test_a_shorter_or_other_ledger_is_cut(
    desk: EpochDesk, device: Device, connection: Connection, tmp_path: Path
) -> None:
    desk.open(connection, device.message(connection.new_nonce()), None)
    desk.witness(device.checkpoint(known=0), device.key.public)
    shorter = Device(tmp_path / "shorter.db", records=3)
    other = Device(tmp_path / "other.db", records=9)
    assert rejected(desk, connection, shorter.message(connection.new_nonce())) == "ledger-cut"
    assert rejected(desk, connection, other.message(connection.new_nonce(), known=5)) == "ledger-cut"
    device.grow(4)
    assert desk.open(connection, device.message(connection.new_nonce(), known=5), None)[0].epoch == 9
    shorter.ledger.close()
    other.ledger.close()


def test_witnesses_only_for_extensions_signed_by_the_session(desk: EpochDesk, device: Device, tmp_path: Path) -> None:
    witness = desk.witness(device.checkpoint(known=0), device.key.public)
    assert (witness.size, witness.root) == (5, device.ledger.root(5))
    device.grow(3)
    with pytest.raises(LedgerError) as caught:
        desk.witness(device.checkpoint(known=5), SessionKey.generate().public)
    assert caught.value.code == "note-signature"
    assert desk.witness(device.checkpoint(known=5), device.key.public).size == 8
    cut = sign_checkpoint(Checkpoint(ORIGIN, 6, device.ledger.root(6)), device.key)
    for message in ({"note": cut, "consistency": []}, {"note": cut}, {"note": cut, "consistency": [b"short"]}):
        with pytest.raises(LedgerError) as caught:
            desk.witness(message, device.key.public)
        assert caught.value.code in ("ledger-cut", "ledger-proof")
    with pytest.raises(LedgerError):
        desk.witness({}, device.key.public)
