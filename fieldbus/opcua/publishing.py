"""Publish requests of one session: several under way, every sequence number accounted for (OPC 10000-4, 5.14.5).

The rules, per subscription:

1. Notifications count 1, 2, … 4294967295, 1; a keep-alive carries the number the next one will have.
2. A number that was seen before is a duplicate: dropped and counted.
3. Numbers left out are asked for again with Republish, in order, before anything newer is handed on. So is what a
   keep-alive shows to be missing: a keep-alive alone would mask the loss.
4. What the server no longer has is lost: the subscription is told, so that no tag stays at a value that has changed.
5. A subscription that the server ended, gave to another session, or does not know, is told so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from asyncua import ua

from fieldbus.opcua.failures import GOOD, PEER_ERRORS, SESSION_GONE

_log = logging.getLogger(__name__)

AHEAD = 2
"""Publish requests under way beyond one per subscription: the server always has one when it has news."""

AHEAD_MAX = 16
REPUBLISH_MAX = 32
"""Notifications asked for again in one gap; a longer one is lost, and the current values are fetched instead."""

FAULTS_MAX = 5
"""Publish requests refused in a row before the connection is given up."""

FAULT_WAIT_S = 0.2
SEQUENCE_MAX = 0xFFFF_FFFF


class Stream(Protocol):
    """What a subscription does with what arrives."""

    def alive(self) -> None:
        """The server said something about this subscription."""

    def deliver(self, message: Any) -> None:
        """One NotificationMessage, in order, once."""

    def lost(self, reason: str) -> None:
        """It has to be made anew: ``data-lost``, ``expired``, ``transferred``, ``no-subscription``, ``status-…``."""


class Sequence:
    """Rules 1 to 4 without I/O. ``expected`` None until the server's first message."""

    __slots__ = ("duplicates_total", "expected", "missed_total")

    def __init__(self) -> None:
        self.expected: int | None = None
        self.missed_total = 0
        """Notifications that did not arrive by themselves."""
        self.duplicates_total = 0

    def missing(self, number: int, *, keep_alive: bool) -> int | None:
        """How many to ask for again before ``number``, from ``expected`` on; None for a duplicate."""
        if self.expected is None or number == self.expected:
            return 0
        ahead = (number - self.expected) % SEQUENCE_MAX  # numbers are 1 … SEQUENCE_MAX, so a circle of that length
        if ahead > SEQUENCE_MAX // 2:
            if keep_alive:
                return 0  # some servers repeat the last number in a keep-alive
            self.duplicates_total += 1
            return None
        self.missed_total += ahead
        return ahead

    def took(self, number: int, *, keep_alive: bool) -> None:
        """``number`` was handed on."""
        if keep_alive:
            if self.expected is None or (number - self.expected) % SEQUENCE_MAX <= SEQUENCE_MAX // 2:
                self.expected = number
        else:
            self.expected = number % SEQUENCE_MAX + 1


@dataclass(slots=True)
class PublisherCounts:
    """What went wrong between a server and us; kept by the client over its connections."""

    republished_total: int = 0
    lost_total: int = 0
    """Notifications that the server no longer had."""
    unknown_total: int = 0
    """Answers for subscriptions that are none of ours."""
    faults_total: int = 0
    """Publish requests that the server refused or answered with nonsense."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A subscription of ours. ``born``: Publish requests that had been sent before it."""

    stream: Stream
    sequence: Sequence
    born: int


class Publisher:
    """Runs from the first ``add`` until ``close``. ``session``: an activated ``UaSession``."""

    def __init__(
        self, session: Any, *, deadline_s: float, on_gone: Callable[[], None], counts: PublisherCounts
    ) -> None:
        self._session = session
        self._deadline_s = deadline_s
        self._on_gone = on_gone
        self._streams: dict[int, _Entry] = {}
        self._early: dict[int, list[Any]] = {}
        self._acks: list[Any] = []
        self._under_way: dict[asyncio.Task[Any], int] = {}
        self._sent = 0
        self._ahead_max = AHEAD_MAX
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._creating = 0
        self._counts = counts

    async def create(self, parameters: Any, stream: Stream) -> Any:
        """CreateSubscription; its result. Raises as the session does."""
        self._creating += 1
        try:
            result = await self._session.create_subscription(parameters, None)
            self._streams[result.SubscriptionId] = _Entry(stream, Sequence(), born=self._sent)
        finally:
            self._creating -= 1
        early = self._early.pop(result.SubscriptionId, ())
        if not self._creating:
            self._early.clear()
        for response in early:
            await self._take(response)
        self._work.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="opcua-publisher")
            self._task.add_done_callback(self._ended)
        return result

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            if task.exception() is not None:
                _log.error("%s failed", task.get_name(), exc_info=task.exception())
            self._on_gone()

    def forget(self, identifier: int | None) -> None:
        """Whatever still comes for this subscription is nobody's."""
        if identifier is not None:
            self._streams.pop(identifier, None)
            self._session._subscription_callbacks.pop(identifier, None)

    def sequence(self, identifier: int | None) -> Sequence | None:
        """The account of one subscription."""
        entry = None if identifier is None else self._streams.get(identifier)
        return None if entry is None else entry.sequence

    async def close(self) -> None:
        """Stop; outstanding requests are given up."""
        tasks = [task for task in (self._task, *self._under_way) if task is not None]
        self._task = None
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        faults = 0
        while True:
            while self._streams and len(self._under_way) < min(len(self._streams) + AHEAD, self._ahead_max):
                acks, self._acks = self._acks, []
                self._sent += 1
                self._under_way[asyncio.create_task(self._session.publish(acks))] = self._sent
            if not self._under_way:
                self._work.clear()
                await self._work.wait()
                continue
            # Not only for the oldest: a server may forget one, or refuse it out of turn.
            await asyncio.wait(list(self._under_way), return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in self._under_way if task.done()]:
                fault = await self._settle(task, self._under_way.pop(task))
                faults = faults + 1 if fault else 0
                if faults >= FAULTS_MAX:
                    self._on_gone()
                    return
                if fault:
                    self._counts.faults_total += 1
                    await asyncio.sleep(FAULT_WAIT_S)

    async def _settle(self, task: asyncio.Task[Any], number: int) -> bool:
        """Take the answer to request ``number``; True if it was a fault that may pass."""
        try:
            response = task.result()
            status = int(response.ResponseHeader.ServiceResult.value)
            if status != GOOD:
                return self._refused(status, number)
            await self._take(response.Parameters)
        except ua.UaStatusCodeError as error:
            return self._refused(int(error.code), number)
        except (ConnectionError, asyncio.CancelledError):
            self._on_gone()
            return False
        except PEER_ERRORS as error:
            _log.warning("a notification that cannot be read: %s", type(error).__name__)
            return True
        return False

    def _refused(self, status: int, number: int) -> bool:
        if status in SESSION_GONE:
            self._on_gone()
        elif status in (ua.StatusCodes.BadNoSubscription, ua.StatusCodes.BadSubscriptionIdInvalid):
            # A request from before a subscription says nothing about it, however late its answer is looked at.
            for identifier, entry in list(self._streams.items()):
                if number > entry.born:
                    del self._streams[identifier]
                    entry.stream.lost("no-subscription")
        elif status == ua.StatusCodes.BadTooManyPublishRequests:
            self._ahead_max = max(1, len(self._under_way))
        elif status != ua.StatusCodes.BadTimeout:
            return True
        return False

    async def _take(self, result: Any) -> None:
        entry = self._streams.get(result.SubscriptionId)
        if entry is None:
            # The first notification may overtake the answer that tells us the number.
            waiting = self._early.setdefault(result.SubscriptionId, []) if self._creating else None
            if waiting is not None and len(self._early) <= AHEAD_MAX and len(waiting) < AHEAD_MAX:
                waiting.append(result)
            else:
                self._counts.unknown_total += 1
            return
        stream, sequence = entry.stream, entry.sequence
        stream.alive()
        message = result.NotificationMessage
        number = int(message.SequenceNumber)
        keep_alive = not message.NotificationData
        if not keep_alive:
            self._acks.append(ua.SubscriptionAcknowledgement(result.SubscriptionId, message.SequenceNumber))
        missing = sequence.missing(number, keep_alive=keep_alive)
        if missing is None:
            return
        complete = await self._republish(result.SubscriptionId, sequence.expected or number, missing, stream)
        if self._streams.get(result.SubscriptionId) is not entry:
            return  # ended meanwhile
        sequence.took(number, keep_alive=keep_alive)
        if not keep_alive:
            self._hand_on(stream, message)
        if not complete:
            stream.lost("data-lost")

    async def _republish(self, identifier: int, first: int, count: int, stream: Stream) -> bool:
        """Rule 3; False if anything is lost for good."""
        if count > REPUBLISH_MAX:
            self._counts.lost_total += count
            return False
        for step in range(count):
            number = (first - 1 + step) % SEQUENCE_MAX + 1
            try:
                async with asyncio.timeout(self._deadline_s):
                    message = await self._session.republish(identifier, number)
            except (ua.UaStatusCodeError, TimeoutError):
                message = None
            # asyncua's server answers with an empty message instead of Bad_MessageNotAvailable.
            if message is None or int(message.SequenceNumber) != number:
                self._counts.lost_total += count - step
                return False
            self._counts.republished_total += 1
            self._acks.append(ua.SubscriptionAcknowledgement(identifier, number))
            self._hand_on(stream, message)
        return True

    @staticmethod
    def _hand_on(stream: Stream, message: Any) -> None:
        stream.deliver(message)
        for notification in message.NotificationData:
            if isinstance(notification, ua.StatusChangeNotification):
                stream.lost(change_reason(int(notification.Status.value)))


def change_reason(status: int) -> str:
    """What a StatusChangeNotification says."""
    if status == ua.StatusCodes.GoodSubscriptionTransferred:
        return "transferred"
    if status == ua.StatusCodes.BadTimeout:
        return "expired"
    return f"status-{status:#010x}"
