"""Values that a server pushes, handed over through a bounded queue."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS
from fieldbus.opcua.findings import Finding, ItemRevision, Revisions, judge, named
from fieldbus.opcua.intake import ValueIntake
from fieldbus.opcua.items import Monitored, monitor
from fieldbus.opcua.options import SubscriptionOptions
from fieldbus.opcua.publishing import Publisher, Sequence

_log = logging.getLogger(__name__)

ITEMS_PER_PUBLISH_MAX = 1_000
KEEP_ALIVE_MS = 500.0
"""Asked for at least one answer in this time, so that a silent server is noticed within a second or so."""

LIFETIME_MS = 60_000.0
"""Asked to keep the subscription this long without hearing of us: longer than any stall of ours that may heal."""

COUNT_MAX = 0xFFFF_FFFF
SILENT_KEEP_ALIVES = 2
"""Keep-alives that may fail to come before the subscription counts as dead."""

PUBLISHING_MS_MAX = 3.6e6
BAD_MONITORED_ITEM = 0x80420000  # Bad_MonitoredItemIdInvalid: the server would not monitor this tag
BAD_NO_COMMUNICATION = 0x80310000
BAD_DATA_LOST = 0x809D0000
BAD_NODE_UNKNOWN = 0x80340000
REVISED_NOTHING = Revisions(0.0, 0, 0)


class ValueSubscription(ValueIntake):
    """Values in order of arrival. Survives reconnects: the client re-creates it on the new session.

    While there is no connection, or the server says it is out of service, every tag has been given once as bad, with
    neither value nor times: no value outlives what it came by. After that the server sends current values first;
    what changed in between is lost, and values older than a consumer wants must be judged by ``t_source_ns``.
    """

    def __init__(self, tags: tuple[str, ...], options: SubscriptionOptions) -> None:
        super().__init__(tags, options)
        self._publisher: Publisher | None = None
        self._session: Any = None
        self._id: int | None = None
        self._found: list[Finding] = []
        self._heard_s = time.monotonic()
        self._lost_reason: str | None = None
        self.on_lost: Callable[[], None] | None = None
        """Called when the server has ended the subscription or values were lost; the client makes it anew."""
        self.losses: Counter[str] = Counter()
        """Why it was made anew, by reason (``data-lost``, ``expired``, ``transferred``, ``silent``, …)."""
        self._sequence_before = (0, 0)
        self.refused: dict[str, int] = {}
        """Tags the server would not monitor, with its StatusCode."""
        self.nodes: dict[str, Any] = {}
        """NodeIds that the tags are monitored at, or were asked to be."""
        self.revisions = REVISED_NOTHING
        """What the server made of the requested intervals, counts and queues."""

    @property
    def revised_publishing_ms(self) -> float:
        """What the server made of ``publishing_ms``."""
        return self.revisions.publishing_ms

    @property
    def missed_total(self) -> int:
        """Notifications that did not arrive by themselves (asked for again, or lost)."""
        sequence = self._sequence
        return self._sequence_before[0] + (0 if sequence is None else sequence.missed_total)

    @property
    def duplicates_total(self) -> int:
        """Notifications that came twice; the second was dropped."""
        sequence = self._sequence
        return self._sequence_before[1] + (0 if sequence is None else sequence.duplicates_total)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with what the server made of it; see ``judge`` and ``Monitored.findings``, and
        ``item-refused``, ``deadband-ignored``, ``queue-overflow``."""
        found = list(self._found)
        if self.refused:
            found.append(Finding("item-refused", f"the server does not monitor {named(sorted(self.refused))}"))
        if self.deadband_ignored:
            tags = named(sorted(self.deadband_ignored))
            found.append(Finding("deadband-ignored", f"the server reports changes inside the deadband of {tags}"))
        if self.overflows:
            found.append(
                Finding("queue-overflow", f"the server's queue overflowed for {named(sorted(self.overflows))}")
            )
        return tuple(found)

    async def start(self, publisher: Publisher, session: Any, nodes: Mapping[str, Any]) -> None:
        """Create subscription and monitored items on ``session`` (called by the client, also after a reconnect).

        ``nodes``: NodeId of each tag that resolves; the others are listed in ``refused``. Raises as the session does,
        and OpcUaError ``revised-interval`` for an answer that is no interval.
        """
        await self._end()
        self._publisher, self._session, self._lost_reason = publisher, session, None
        created = await publisher.create(self._parameters(), self)
        self._id = int(created.SubscriptionId)
        self.alive()
        interval = float(created.RevisedPublishingInterval)
        if not 0 <= interval <= PUBLISHING_MS_MAX:  # NaN is neither
            raise OpcUaError("revised-interval", found=f"{interval} ms", expected="a publishing interval below an hour")
        done = await monitor(session, self._id, self._tags, nodes, self._options)
        self._items, self.refused, self.nodes = {}, {}, dict(nodes)
        self._note(done)
        self.gone([tag for tag in self._tags if tag not in nodes], status=BAD_MONITORED_ITEM)
        self.revisions = Revisions(
            interval,
            max(int(created.RevisedMaxKeepAliveCount), 1),
            int(created.RevisedLifetimeCount),
            {tag: item.revision for tag, item in self._items.items()},
        )
        self._found = [*judge(self._options, self.revisions), *done.findings()]

    async def extend(self, nodes: Mapping[str, Any]) -> None:
        """Monitor these tags, which were missing or have another node now. Raises as ``start``."""
        if self._session is None or self._id is None:
            return
        old = [self._items.pop(tag).identifier for tag in nodes if tag in self._items]
        if old:
            parameters = ua.DeleteMonitoredItemsParameters(SubscriptionId=self._id, MonitoredItemIds=old)
            await self._session.delete_monitored_items(parameters)  # an item of a deleted node may be gone already
        done = await monitor(self._session, self._id, self._tags, nodes, self._options)
        self._note(done)
        self.nodes |= nodes
        items: dict[str, ItemRevision] = {tag: item.revision for tag, item in self._items.items()}
        kept = self.revisions
        self.revisions = Revisions(kept.publishing_ms, kept.keep_alive_count, kept.lifetime_count, items)
        self._found = [*judge(self._options, self.revisions), *done.findings()]

    def gone(self, tags: list[str], *, status: int = BAD_NODE_UNKNOWN) -> None:
        """These tags have no node on the server now: bad at once, until ``extend`` has them again."""
        self.refused |= dict.fromkeys(tags, status)
        for tag in tags:
            self.nodes.pop(tag, None)
        self.turn_bad(BAD_NODE_UNKNOWN, tags)

    def _note(self, done: Monitored) -> None:
        self._items |= done.items
        self.refused = {tag: status for tag, status in self.refused.items() if tag not in done.items}
        self.refused |= done.refused
        for tag, status in done.refused.items():
            self.turn_bad(status, (tag,))

    def _parameters(self) -> Any:
        interval = self._options.publishing_ms
        keep_alive = max(1, min(COUNT_MAX // 3, math.ceil(KEEP_ALIVE_MS / interval)))
        parameters = ua.CreateSubscriptionParameters()
        parameters.RequestedPublishingInterval = interval
        parameters.RequestedMaxKeepAliveCount = keep_alive
        parameters.RequestedLifetimeCount = min(COUNT_MAX, max(3 * keep_alive, math.ceil(LIFETIME_MS / interval)))
        parameters.MaxNotificationsPerPublish = ITEMS_PER_PUBLISH_MAX
        parameters.PublishingEnabled = True
        return parameters

    # What the publisher calls (publishing.Stream).

    def alive(self) -> None:
        """The server said something about this subscription."""
        self._heard_s = time.monotonic()

    def lost(self, reason: str) -> None:
        """It has to be made anew; until then every tag is bad."""
        if self._closed or self._lost_reason is not None:
            return
        self._lost_reason = reason
        self.losses[reason] += 1
        _log.warning("the subscription of %d tags is made anew: %s", len(self._tags), reason)
        self.turn_bad(BAD_DATA_LOST if reason == "data-lost" else BAD_NO_COMMUNICATION)
        if self.on_lost is not None:
            self.on_lost()

    # What the client calls.

    @property
    def lost_reason(self) -> str | None:
        """Why it has to be made anew; None while it works."""
        return self._lost_reason

    def silent(self, *, floor_s: float) -> bool:
        """True when neither values nor keep-alives came for as long as the server may be silent, and ``floor_s``."""
        if self._id is None or self._closed:
            return False
        limit_s = max(floor_s, SILENT_KEEP_ALIVES * self.revisions.keep_alive_ms / 1_000)
        if self.revisions.lifetime_ms > 0:
            limit_s = max(floor_s, min(limit_s, self.revisions.lifetime_ms / 1_000))
        return time.monotonic() - self._heard_s > limit_s

    async def close(self) -> None:
        """Delete the subscription on the server if it is still reachable; wakes a waiting ``get``."""
        if self._closed:
            return
        self._closed = True
        self._ready.set()
        await self._end()

    def cut(self) -> None:
        """The connection is gone, and with it the subscription: every tag is bad at once."""
        self._keep_account()
        if self._publisher is not None:
            self._publisher.forget(self._id)
        self._publisher = self._session = self._id = None
        self.turn_bad(BAD_NO_COMMUNICATION)

    async def _end(self) -> None:
        self._keep_account()
        publisher, session, identifier = self._publisher, self._session, self._id
        self._publisher = self._session = self._id = None
        if publisher is None or session is None or identifier is None:
            return
        publisher.forget(identifier)
        try:
            await session.delete_subscriptions([identifier])
        except PEER_ERRORS:
            return  # the connection is gone, and the subscription with it

    @property
    def _sequence(self) -> Sequence | None:
        return None if self._publisher is None else self._publisher.sequence(self._id)

    def _keep_account(self) -> None:
        self._sequence_before = (self.missed_total, self.duplicates_total)
