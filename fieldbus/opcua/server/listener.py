"""The listening socket: who is let in, and a watch that ends what lasts too long. Written against asyncua 2.1.0."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any

from asyncua.server.binary_server_asyncio import BinaryServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua.certificates import check_validity
from fieldbus.opcua.errors import CertificateError
from fieldbus.opcua.server.guard import GuardedInternalServer
from fieldbus.opcua.server.pace import TURN_S
from fieldbus.opcua.server.rate import Rate, Rates
from fieldbus.opcua.server.session import GuardedSession
from fieldbus.opcua.server.transport import GuardedProtocol

_log = logging.getLogger(__name__)

NOTES_PER_S, NOTES_BURST = 1.0, 50.0
"""Lines in the log about refused and cut off clients; all are counted, a flood of them is not all written."""

UNUSABLE_SHOWN = 3
"""Unreadable entries of the trust list that are named in one line of the log."""


class GuardedBinaryServer(BinaryServer):  # type: ignore[misc]
    """Admits connections and watches over them."""

    iserver: GuardedInternalServer

    def __init__(self, iserver: GuardedInternalServer, hostname: str, port: int, limits: Any) -> None:
        super().__init__(iserver, hostname, port, limits)
        per_s = iserver.guard.connections_per_s
        self._rates = Rates(per_s=per_s, burst=per_s)
        iserver.note_lost = self.note_lost
        self._watch_task: asyncio.Task[None] | None = None
        self._notes = Rate(per_s=NOTES_PER_S, burst=NOTES_BURST)
        self._losses = Rate(per_s=NOTES_PER_S, burst=NOTES_BURST)  # of its own: who is refused must not hide them
        self.counts: Counter[str] = Counter()
        """Connections refused or cut off, by reason."""

        self.lost: Counter[str] = Counter()
        """Sessions that ended without their client having closed them, by reason."""

        self._unusable = ""  # what the log last said of the trust list

        self.stalls = 0
        """How often the event loop was held up for long."""

    @property
    def policies(self) -> list[Any]:
        """Policy factories of new connections."""
        return list(self._policies)

    def _make_protocol(self) -> GuardedProtocol:
        return GuardedProtocol(self)

    async def start(self) -> None:
        """Listen and watch."""
        await super().start()
        self._watch_task = asyncio.create_task(self._watch())
        self._watch_task.add_done_callback(self._unwatched)

    async def stop(self) -> None:
        """Stop both."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        await super().stop()

    def _unwatched(self, task: asyncio.Task[None]) -> None:
        """Without its watch the server has no deadlines: it then serves nobody."""
        if task.cancelled() or self._server is None:
            return
        _log.critical("the watch over connections ended: %r", task.exception())
        self._server.close()
        for client in list(self.clients):
            client.abort("the server is not watched")

    def note(self, reason: str, peer: Any, more: str = "") -> None:
        """Count that a client was refused or cut off, and write it down unless there are too many."""
        self.counts[reason] += 1
        if self._notes.take(time.monotonic()):
            _log.warning("cut off %s: %s%s", peer, reason, f" ({more})" if more else "")

    def note_lost(self, session: GuardedSession, reason: str) -> None:
        """The same for a session that its client did not close."""
        self.lost[reason] += 1
        if self._losses.take(time.monotonic()):
            _log.warning("lost %s", session.account(reason))

    def admit(self, newcomer: GuardedProtocol) -> bool:
        """Whether there is room; makes some by ending the oldest connection that has no session yet."""
        limits = self.iserver.guard
        if not self._rates.take(newcomer.address, time.monotonic()):
            return False
        waiting = [client for client in self.clients if client.pending()]
        same = sum(client.address == newcomer.address for client in waiting)
        if same >= limits.pending_per_address:
            return False
        if len(waiting) >= limits.pending or (waiting and len(self.clients) >= limits.connections):
            waiting[0].abort("others wait")  # clients are in the order they came
            return True
        return len(self.clients) < limits.connections

    async def _watch(self) -> None:
        checked = time.monotonic()
        while True:
            await asyncio.sleep(TURN_S)
            self._turn()
            now, lived = time.monotonic(), self.iserver.pace.now()
            for client in list(self.clients):
                reason = client.overdue(lived, now)
                if reason is not None:
                    client.abort(reason)
            if now - checked >= self.iserver.guard.trust_check_s:
                checked = now
                await self._check_trust()

    def _turn(self) -> None:
        stall = self.iserver.pace.turn()
        if stall is None:
            return
        self.stalls += 1
        if self._losses.take(time.monotonic()):
            _log.warning("%s; clients that were not answered may have hung up", stall)

    async def _check_trust(self) -> None:
        """End the connections of certificates no longer trusted or past their term.

        A file that cannot be read names nobody; the others count, for the living as for newcomers. A list that as a
        whole cannot be read trusts nobody: a check that cannot be made is a failed one.
        """
        try:
            trusted, unusable = await asyncio.to_thread(self.iserver.trusted.fingerprints)
        except CertificateError as error:
            trusted, unusable = frozenset(), [error]
        words = "; ".join(map(str, unusable[:UNUSABLE_SHOWN]))
        if words and words != self._unusable:
            _log.error("in the list of trusted certificates %d cannot be read: %s", len(unusable), words)
        self._unusable = words
        for client in list(self.clients):
            der = client.application()
            if der is None:
                continue
            certificate = x509.load_der_x509_certificate(der)
            try:
                check_validity(certificate, label="the client certificate")
            except CertificateError as error:
                client.abort(error.code)
                continue
            if not client.pending() and certificate.fingerprint(hashes.SHA256()) not in trusted:
                client.abort("its certificate is trusted no more")
