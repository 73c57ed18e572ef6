"""An OPC UA server as a station: one client, one subscription, one assembler."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fieldbus.opcua import (
    CertificateError,
    Finding,
    OpcUaError,
    ReadResult,
    SharedIdentity,
    ValueSubscription,
)
from sitsedge.bridge.combine import StationSample
from sitsedge.bridge.sample import (
    BAD_GONE,
    BAD_WAITING,
    Assembler,
    FieldValue,
    LatestAssembler,
    SameTimestampAssembler,
    TriggerAssembler,
    bad_fields,
)
from sitsedge.bridge.stations import Deliver
from sitsedge.bridge.stations.opcua_client import FIRST_WAIT_S, make_client, subscription_options, trigger_name
from sitsedge.config.stations import OpcUaStation

POLL_S = 0.25
"""Longest wait for values before the connection's state is looked at again."""

LATENCY_CLAIM = "latency-claim"
OVERFLOW = "overflow"
SERVER_OVERFLOW = "server-overflow"

TRANSIENT = frozenset({"connection-refused", "connection-lost", "deadline", "not-connected"})
"""What may heal by itself while the server has not been reached yet; anything else is a wrong configuration."""

BAD_NODE_UNKNOWN = 0x8034_0000
_MS_PER_S = 1000.0

log = logging.getLogger(__name__)


class SubscribedStation:
    """One server. ``leads``: its samples make those of the whole, so they have to come cycle by cycle.

    Raises CertificateError for a pinned certificate that cannot be used.
    """

    def __init__(
        self,
        station: OpcUaStation,
        deliver: Deliver,
        *,
        identity: SharedIdentity,
        base: Path,
        leads: bool,
        source_age_ms_max: float,
    ) -> None:
        self._station = station
        self._deliver = deliver
        self._age_ms_max = source_age_ms_max
        self._names = tuple(tag.name for tag in station.tags)
        self._trigger = trigger_name(station)
        self._held = not leads and station.trigger is None
        self._assembler = self._make_assembler()
        self._client, self._paths = make_client(station, identity=identity, base=base)
        self._subscription: ValueSubscription | None = None
        self._connects_seen = 0
        self._ending = False
        self._gone: dict[str, int] = {}
        self._first_error: OpcUaError | None = None
        self._bad: dict[str, int] = {}
        self._samples = 0

    def _make_assembler(self) -> Assembler:
        station = self._station
        if station.trigger is not None:
            skew_ms = station.tag_skew_ms_max
            skew_ns_max = None if skew_ms is None else round(skew_ms * 1_000_000)
            return TriggerAssembler(self._names, trigger=self._trigger, skew_ns_max=skew_ns_max)
        return LatestAssembler(self._names) if self._held else SameTimestampAssembler(self._names)

    @property
    def name(self) -> str:
        """As the deployment calls it."""
        return self._station.name

    @property
    def state(self) -> str:
        """See :class:`~sitsedge.bridge.stations.RunningStation`."""
        if not self._client.connected or self._subscription is None:
            return "connecting"
        return "degraded" if self._unmonitored() or self._claim() is not None else "running"

    async def run(self) -> None:
        """Until cancelled. Raises OpcUaError for a server that contradicts the configuration at first contact, also
        ``latency-claim`` where its revised interval cannot keep what the deployment claims."""
        await self._connect()
        self._subscription = await self._subscribe()
        if self._subscription is None:
            return
        self._connects_seen = self._client.connects_total
        if (claim := self._claim()) is not None:
            raise OpcUaError(
                claim.code,
                found=f"{self.name}: {claim.text}",
                expected="values that are not too old before they are published",
                hint="raise timing.source_age_ms_max, or have the server allow shorter intervals",
            )
        for finding in self._client.findings:
            log.warning("%s: %s: %s", self.name, finding.code, finding.text)
        while not self._ending:
            await self._pass_on(self._subscription)

    def end(self) -> None:
        """See :class:`~sitsedge.bridge.stations.RunningStation`."""
        self._ending = True

    async def _subscribe(self) -> ValueSubscription | None:
        options = subscription_options(self._station, source_age_ms_max=self._age_ms_max)
        while not self._ending:
            try:
                return await self._client.subscribe(tuple(self._paths), options)
            except OpcUaError as error:
                if error.code not in TRANSIENT:
                    raise
                await self._client.wait_connected(self._station.reconnect_ms_max / _MS_PER_S)
        return None

    async def _connect(self) -> None:
        """The first connection; waits for a server that is not there yet, but not for one that is another."""
        wait_s = FIRST_WAIT_S
        while not (self._client.connected or self._ending):
            try:
                await self._client.connect()
            except CertificateError:
                raise
            except OpcUaError as error:
                if error.code not in TRANSIENT:
                    raise
                if self._first_error is None or self._first_error.code != error.code:
                    log.warning("%s: waiting for the server: %s", self.name, error)
                self._first_error = error
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, self._station.reconnect_ms_max / _MS_PER_S)
        self._first_error = None

    async def _pass_on(self, subscription: ValueSubscription) -> None:
        values = await subscription.get(POLL_S)
        if self._client.connects_total != self._connects_seen:
            self._connects_seen = self._client.connects_total
            self._assembler.reset()
            self._gone.clear()
            log.info("%s: connected again, %d times by now", self.name, self._connects_seen)
        timed = [value for value in values if not self._ended(value)]
        self._assembler.lacking = self._lacking()
        for sample in self._assembler.take(timed):
            self._say(StationSample(sample.t_source_ns, sample.fields, self._held))
        if len(timed) < len(values):
            self._say_gone(time.time_ns())

    def _ended(self, value: ReadResult) -> bool:
        """Whether ``value`` says that a tag has none any more, as the client does for a lost connection: it has no
        time, and stands until the server says something else of the tag. (A tag that has none yet is another thing.)"""
        if value.t_source_ns is None and value.status >> 30 >= 2 and value.status != BAD_WAITING:
            self._gone[value.tag] = value.status
            return True
        self._gone.pop(value.tag, None)
        return False

    def look(self, now_ns: int) -> None:
        """Say again that there are no values: without a connection, without the tag that triggers, or where values
        come and never make a whole. Such a sample is of now, and holds none of them."""
        before_ns = now_ns - round(self._age_ms_max * 1_000_000)  # older than that, a whole would not be sent either
        unfinished = self._assembler.given_up(before_ns)
        if not self._say_gone(now_ns) and unfinished is not None and not self._held:
            self._say(StationSample(now_ns, unfinished))

    def _say_gone(self, now_ns: int) -> bool:
        """Whether there was something to say."""
        lacking = self._lacking()
        if not self._client.connected:
            self._assembler.reset()
            self._say(StationSample(now_ns, bad_fields(len(self._names), BAD_GONE), self._held))
        elif not self._held and (self._trigger in lacking or not set(self._names) - set(lacking)):
            fields = [FieldValue(None, lacking.get(name, BAD_GONE)) for name in self._names]
            self._say(StationSample(now_ns, tuple(fields)))
        else:
            return False
        return True

    def _say(self, sample: StationSample) -> None:
        self._bad = {name: field.status for name, field in zip(self._names, sample.fields, strict=True) if field.status}
        self._samples += 1
        self._deliver(sample)

    def _lacking(self) -> dict[str, int]:
        """Tags without values now, with the reason."""
        return self._gone | self._unmonitored()

    def _unmonitored(self) -> dict[str, int]:
        """Tags that are not on the server now, or not monitored by it."""
        missing = dict.fromkeys(self._client.missing, BAD_NODE_UNKNOWN)
        return missing if self._subscription is None else self._subscription.refused | missing

    def _claim(self) -> Finding | None:
        """The finding that the server's revised intervals cannot keep the deployment's claim."""
        findings = () if self._subscription is None else self._subscription.findings
        return next((finding for finding in findings if finding.code == LATENCY_CLAIM), None)

    def _days_left(self) -> dict[str, int]:
        """Days that each certificate has, the client's and the server's."""
        try:
            return {term.label: term.days_left for term in self._client.certificates}
        except CertificateError:
            return {}  # a finding says why

    def status(self) -> dict[str, Any]:
        """What the snapshot says of it; ``dropped`` is by reason, over the process' life."""
        subscription = self._subscription
        dropped: Counter[str] = Counter(self._assembler.dropped)
        if subscription is not None:
            dropped += Counter(
                {OVERFLOW: subscription.overflow_total, SERVER_OVERFLOW: subscription.server_overflow_total}
            )
        error = self._client.last_error or self._first_error
        return {
            "name": self.name,
            "protocol": "opcua",
            "address": self._station.endpoint,
            "state": self.state,
            "connected": self._client.connected,
            "connects": self._client.connects_total,
            "last_error": None if error is None else str(error),
            "missing_tags": sorted(self._unmonitored()),
            "findings": [f"{finding.code}: {finding.text}" for finding in self._client.findings],
            "certificate_days_left": self._days_left(),
            "bad_tags": {name: f"{status:#010x}" for name, status in sorted(self._bad.items())},
            "publishing_interval_ms": self._station.publishing_interval_ms,
            "revised_interval_ms": None if subscription is None else subscription.revised_publishing_ms,
            "dropped": dict(sorted(dropped.items())),
            "samples": self._samples,
        }

    async def close(self) -> None:
        """End the connection."""
        await self._client.close()
