"""The gate's own records: signed, put into its ledger, and answered to clients only once they are durable."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from attest.command import Alarm, GateKey, Record, line, sign_record
from attest.ledger import RecordKind
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.link import Message
from sitsedge.gate.server import Connection

log = logging.getLogger(__name__)


class GateBook:
    """Signs with the gate's key and writes to the gate's ledger."""

    def __init__(self, gate_id: str, key: GateKey, ledger: LedgerWriter) -> None:
        self.gate_id = gate_id
        self._key = key
        self._ledger = ledger
        self.epoch = 0
        self.alarms: Counter[str] = Counter()

    def keep(self, kind: RecordKind, data: bytes, on_ack: Callable[[int], None] | None = None) -> None:
        """Put somebody else's signed bytes (a command, evidence) into the ledger."""
        self._ledger.submit(kind, data, on_ack)

    def sign(self, record: Record) -> bytes:
        """The bytes of a record that ``answer_signed`` will keep."""
        return sign_record(record, self._key)

    def record(self, record: Record) -> bytes:
        """Sign and keep one record; its bytes."""
        data = sign_record(record, self._key)
        self._ledger.submit(RecordKind(record.KIND), data)
        return data

    def answer(self, connection: Connection, record: Record, message: Message) -> bytes:
        """Sign and keep ``record``; send ``message`` with it to the client once it is durable."""
        data = sign_record(record, self._key)
        self.answer_signed(connection, RecordKind(record.KIND), data, message)
        return data

    def answer_signed(self, connection: Connection, kind: RecordKind, data: bytes, message: Message) -> None:
        """The same for a record that is already signed."""
        self._ledger.submit(kind, data, _sender(connection, message | {"record": data}))

    def alarm(self, code: str, found: str, expected: str, *, sequence: int) -> bytes:
        """Something a person should see: counted, logged, recorded."""
        self.alarms[code] += 1
        log.error("alarm %s: %s (expected %s)", code, found, expected)
        return self.record(Alarm(self.gate_id, self.epoch, sequence, code, line(found), line(expected), time.time_ns()))


def _sender(connection: Connection, message: Message) -> Callable[[int], None]:
    """Runs on the ledger's thread after the commit; the sending itself belongs to the event loop."""
    loop = asyncio.get_running_loop()

    def acknowledged(_: int) -> None:
        loop.call_soon_threadsafe(connection.send, message)

    return acknowledged
