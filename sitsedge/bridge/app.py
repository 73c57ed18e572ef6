"""The bridge process: one client, one subscription, one assembler, one sender, one status snapshot a second."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fieldbus.net import UdpSender
from fieldbus.opcua import (
    CertificateError,
    OpcUaError,
    ReconnectPolicy,
    SecureClient,
    SubscriptionOptions,
    ValueSubscription,
    load_certificate,
    load_identity,
)
from sitsedge.bridge.config import BridgeConfig, OnTrigger
from sitsedge.bridge.forward import Forwarder
from sitsedge.bridge.sample import Assembler, SameTimestampAssembler, TriggerAssembler
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import freeze_garbage

SNAPSHOT_NAME = "bridge"
SNAPSHOT_PERIOD_S = 1.0
POLL_S = 0.25
"""Longest wait for values before the connection's state is looked at again."""

HAND_OVER_MAX = 8_192
"""Values held for a busy assembler; with 64 tags that is 128 samples, after which the oldest go and are counted."""

FIRST_WAIT_S = 0.2
OVERFLOW = "overflow"
SERVER_OVERFLOW = "server-overflow"

TRANSIENT = frozenset({"connection-refused", "connection-lost", "deadline", "not-connected"})
"""What may heal by itself while the server has not been reached yet; anything else is a wrong configuration."""

log = logging.getLogger(__name__)


def assembler_of(config: BridgeConfig) -> Assembler:
    """The assembler of the declared alignment policy."""
    alignment, trigger = config.alignment, config.trigger
    if isinstance(alignment, OnTrigger):
        assert trigger is not None
        skew_ns_max = None if alignment.skew_ms_max is None else round(alignment.skew_ms_max * 1_000_000)
        return TriggerAssembler(config.tag_names, trigger=trigger, skew_ns_max=skew_ns_max)
    return SameTimestampAssembler(config.tag_names)


class BridgeApp:
    """One running bridge. Paths in ``config`` are relative to ``base``.

    Raises CertificateError for our own unusable files, NetError for a sender that cannot be opened.
    """

    def __init__(self, config: BridgeConfig, base: Path) -> None:
        self._config = config
        self._base = base
        server_certificate = base / config.server_certificate
        load_certificate(server_certificate)  # a missing pin is our own fault, not the server's
        self._client = SecureClient(
            config.endpoint,
            identity=load_identity(base / config.certificate, base / config.private_key),
            server_certificate=server_certificate,
            namespace_uri=config.namespace,
            tags=config.paths,
            deadline_s=config.deadline_ms / 1000,
            reconnect=ReconnectPolicy(
                first_s=min(FIRST_WAIT_S, config.reconnect_ms_max / 1000), max_s=config.reconnect_ms_max / 1000
            ),
        )
        self._assembler = assembler_of(config)
        self._sender = UdpSender(config.send_to.address, config.send_to.port)
        self._forwarder = Forwarder(config, self._sender)
        self._subscription: ValueSubscription | None = None
        self._connects_seen = 0
        self._stop = asyncio.Event()
        self._first_error: OpcUaError | None = None

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises OpcUaError for a server that contradicts the configuration."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        worker = asyncio.create_task(self._work())
        try:
            while not self._stop.is_set():
                self._snapshot(self._state())
                waiter = asyncio.create_task(self._stop.wait())
                await asyncio.wait({waiter, worker}, timeout=SNAPSHOT_PERIOD_S, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
                if worker.done():
                    worker.result()
        finally:
            # Both: asyncio.wait_for of Python 3.11 may swallow a cancellation that meets a result.
            self._stop.set()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            await self._client.close()
            self._sender.close()
            self._snapshot("stopped")

    async def _work(self) -> None:
        await self._connect()
        freeze_garbage(disable=False)  # takes a while, so before anything has to be on time
        options = SubscriptionOptions(
            publishing_ms=self._config.publishing_interval_ms,
            item_queue=self._config.item_queue,
            hand_over=HAND_OVER_MAX,
        )
        while not self._stop.is_set():
            try:
                self._subscription = await self._client.subscribe(tuple(self._config.paths), options)
                break
            except OpcUaError as error:
                if error.code not in TRANSIENT:
                    raise
                await self._client.wait_connected(self._config.reconnect_ms_max / 1000)
        if self._subscription is None:
            return
        self._connects_seen = self._client.connects_total
        revised_ms = self._subscription.revised_publishing_ms
        if revised_ms > self._config.publishing_interval_ms:
            # Notes on servers in the field: some turn 1 ms into 50 ms without a word.
            log.warning("the server publishes every %g ms, asked were %g", revised_ms, options.publishing_ms)
        self._snapshot(self._state())
        while not self._stop.is_set():
            await self._pass_on(self._subscription)

    async def _connect(self) -> None:
        """The first connection; waits for a server that is not there yet, but not for one that is another."""
        wait_s = FIRST_WAIT_S
        while not self._stop.is_set():
            try:
                await self._client.connect()
            except CertificateError:
                raise
            except OpcUaError as error:
                if error.code not in TRANSIENT:
                    raise
                if self._first_error is None or self._first_error.code != error.code:
                    log.warning("waiting for the server: %s", error)
                self._first_error = error
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, self._config.reconnect_ms_max / 1000)
            else:
                self._first_error = None
                return

    async def _pass_on(self, subscription: ValueSubscription) -> None:
        values = await subscription.get(POLL_S)
        if self._client.connects_total != self._connects_seen:
            self._connects_seen = self._client.connects_total
            self._assembler.reset()
            log.info("connected again, %d times by now", self._connects_seen)
        for sample in self._assembler.take(values):
            self._forwarder.forward(sample, time.time_ns())

    def _state(self) -> str:
        if not self._client.connected or self._subscription is None:
            return "connecting"
        return "degraded" if self._lacking() else "running"

    def _lacking(self) -> list[str]:
        """Tags without which no sample can be made: not on the server now, or not monitored by it."""
        refused = () if self._subscription is None else tuple(self._subscription.refused)
        return sorted({*self._client.missing, *refused})

    def _snapshot(self, state: str) -> None:
        write_snapshot(self._base / self._config.run_dir, SNAPSHOT_NAME, state, self.status())

    def status(self) -> dict[str, Any]:
        """What the snapshot says; ``dropped`` is by reason, over the process' life."""
        subscription = self._subscription
        dropped: Counter[str] = self._assembler.dropped + self._forwarder.dropped
        if subscription is not None:
            dropped += Counter(
                {OVERFLOW: subscription.overflow_total, SERVER_OVERFLOW: subscription.server_overflow_total}
            )
        error = self._client.last_error or self._first_error
        return {
            "endpoint": self._config.endpoint,
            "connected": self._client.connected,
            "connects": self._client.connects_total,
            "last_error": None if error is None else str(error),
            "missing_tags": self._lacking(),
            "publishing_interval_ms": self._config.publishing_interval_ms,
            "revised_interval_ms": None if subscription is None else subscription.revised_publishing_ms,
            "forwarded": self._forwarder.forwarded,
            "forwarded_bad_quality": self._forwarder.bad_quality,
            "last_t_source_ns": self._forwarder.t_source_ns,
            "dropped": dict(sorted(dropped.items())),
        }
