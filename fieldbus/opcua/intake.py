"""What arrives for a subscription's tags: gated, counted, and kept in a bounded queue until somebody takes it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.items import Item
from fieldbus.opcua.options import SubscriptionOptions
from fieldbus.opcua.values import ReadResult, from_data_value


class ValueIntake:
    """The side of a subscription that faces its consumer. ``_items``: what the server monitors, with deadbands."""

    def __init__(self, tags: tuple[str, ...], options: SubscriptionOptions) -> None:
        self._tags = tags
        self._options = options
        self._queue: deque[ReadResult] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self._items: dict[str, Item] = {}
        self._last: dict[str, ReadResult] = {}
        self._held: int | None = None
        self.overflow_total = 0
        """Values dropped here because nobody took them."""
        self.server_overflow_total = 0
        """Values that carried the server's overflow bit: it dropped some before this one."""
        self.overflows: Counter[str] = Counter()
        """The server's overflow bits by tag."""
        self.dropped: Counter[str] = Counter()
        """Values dropped here because nobody took them, by tag."""
        self.stale_total = 0
        """Values too old by their source time that the same message already replaced."""
        self.filtered_total = 0
        """Changes inside a deadband that is applied here."""
        self.deadband_ignored: Counter[str] = Counter()
        """Changes inside a deadband that the server had accepted, by tag."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Monitored tags."""
        return self._tags

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._closed

    def deliver(self, message: Any) -> None:
        """Hand over the values of one NotificationMessage."""
        values: list[ReadResult] = []
        for notification in message.NotificationData:
            if isinstance(notification, ua.DataChangeNotification):
                values += [
                    from_data_value(self._tags[item.ClientHandle], item.Value)
                    for item in notification.MonitoredItems
                    if 0 <= item.ClientHandle < len(self._tags)
                ]
        for value in self._fresh(values):
            self._take(value)

    def hold(self, status: int | None) -> None:
        """From now on every value has this bad ``status``, since the server itself says it is out of service; None
        ends that (the client makes the subscription anew for current values)."""
        self._held = status
        if status is not None:
            self.turn_bad(status)

    def turn_bad(self, status: int, tags: Iterable[str] | None = None) -> None:
        """Hand over every tag (or these) as bad, without value and times, unless that was the last thing said of it."""
        if self._closed:
            return
        for tag in self._tags if tags is None else tags:
            last = self._last.get(tag)
            if last is None or last.status != status:
                self._put(ReadResult(tag, None, status, None, None))

    def _fresh(self, values: list[ReadResult]) -> list[ReadResult]:
        """Without values that are too old and already replaced: what a server kept during an outage."""
        limit_ms = self._options.source_age_ms_max
        if limit_ms is None or len(values) < 2:
            return values
        oldest_ns = time.time_ns() - round(limit_ms * 1e6)
        newest = {value.tag: position for position, value in enumerate(values)}
        kept = [
            value
            for position, value in enumerate(values)
            if value.t_source_ns is None or value.t_source_ns >= oldest_ns or newest[value.tag] == position
        ]
        self.stale_total += len(values) - len(kept)
        return kept

    def _take(self, value: ReadResult) -> None:
        if self._closed:
            return
        # OPC 10000-4, 7.39: InfoType DataValue (bits 10-11 = 01) with the Overflow bit (7).
        if value.status & 0x0C00 == 0x0400 and value.status & 0x0080:
            self.server_overflow_total += 1
            self.overflows[value.tag] += 1
        if self._held is not None:
            self.turn_bad(self._held, (value.tag,))
        elif not self._inside_deadband(value):
            self._put(value)

    def _inside_deadband(self, value: ReadResult) -> bool:
        """True for a change that is filtered here; one that the server should have kept is counted."""
        item, last = self._items.get(value.tag), self._last.get(value.tag)
        if item is None or item.threshold is None or last is None or last.status != value.status:
            return False
        now, before = value.value, last.value
        if not (isinstance(now, int | float) and isinstance(before, int | float)) or isinstance(now, bool):
            return False
        if not abs(now - before) <= item.threshold:  # NaN is outside of every band
            return False
        deadband = self._options.of(value.tag).deadband
        if deadband is not None and deadband.here:
            self.filtered_total += 1
            return True
        self.deadband_ignored[value.tag] += 1
        return False

    def _put(self, value: ReadResult) -> None:
        self._last[value.tag] = value
        if len(self._queue) >= self._options.hand_over:
            self.dropped[self._queue.popleft().tag] += 1
            self.overflow_total += 1
        self._queue.append(value)
        self._ready.set()

    async def get(self, timeout_s: float) -> list[ReadResult]:
        """All values waiting, oldest first; waits up to ``timeout_s`` for the first, [] if none came.

        Raises OpcUaError ``closed`` after ``close``.
        """
        if not self._queue and not self._closed:
            self._ready.clear()
            try:
                await asyncio.wait_for(self._ready.wait(), timeout_s)
            except TimeoutError:
                return []
        if self._closed:
            raise OpcUaError("closed", found="a closed subscription", expected="an open one")
        values = list(self._queue)
        self._queue.clear()
        return values
