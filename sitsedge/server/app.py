"""The server process: look, judge, show, once or twice a second; everything else is asked by clients."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from asyncua import ua

from attest.command import Refusal
from fieldbus.opcua import CertificateError, TrustList, load_identity
from fieldbus.opcua.server import Access, Product, Role, UserBook, figures, reload_identity, secure_server
from sitsedge.server.alarms import ALARMS, Finding, worst
from sitsedge.server.conditions import AlarmServer, supertypes
from sitsedge.server.config import ServerConfig
from sitsedge.server.events import SYSTEM_EVENT, EventSender
from sitsedge.server.feed import Feed, Sources
from sitsedge.server.judge import Facts, Judge
from sitsedge.server.limits import limits_of
from sitsedge.server.memory import Memory
from sitsedge.server.methods import Methods
from sitsedge.server.model import Nodes, build
from sitsedge.server.modelconfig import model_config
from sitsedge.server.news import Told
from sitsedge.server.viewmaker import Shape, make_view
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import freeze_garbage, notify

SNAPSHOT_NAME: Final = "server"
OWN_CERTIFICATE: Final = "appliance"
LOOK_S: Final = 0.5  # as often as the gate says something new
SAVE_S: Final = 10.0
NICE: Final = 10  # below everything that a command waits for
OOM_SCORE_ADJ: Final = 800  # short of memory, the kernel takes the window and leaves the loop (proc(5))
REFUSAL_SEVERITY: Final = 300
NS_PER_S: Final = 1_000_000_000

log = logging.getLogger(__name__)


def step_aside() -> None:
    """Give way to the processes that a command waits for; what is not permitted is only logged."""
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) < NICE:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJ), encoding="ascii")
    except OSError as error:
        log.warning("no giving way: %s", error.strerror)


class ServerApp:
    """One running server. Paths of ``config`` are relative to ``base``.

    Raises CertificateError or OpcUaError for files of its own that cannot be used.
    """

    def __init__(self, config: ServerConfig, base: Path) -> None:
        self._config = config
        self._base = base
        self._run_dir = base / config.run_dir
        self._state_file = base / config.state_file
        self._memory = Memory.load(self._state_file)
        self._feed = Feed(
            Sources(
                run_dir=self._run_dir,
                gate_ledger=base / config.gate_ledger,
                device_ledger=base / config.device_ledger,
                processes=tuple(config.processes),
                certificates={name: base / path for name, path in config.certificates.items()},
                period_s=config.period_ms / 1000,
            ),
            positions=self._memory.positions,
        )
        self._judge = Judge(config.processes, has_plc=config.has_plc)
        self._shape = Shape(tuple(signal.scale for signal in config.outputs))
        self._stop = asyncio.Event()
        self._server: Any = None
        self._nodes: Nodes | None = None
        self._alarms: AlarmServer | None = None
        self._refusal_types: tuple[ua.NodeId, ...] = ()
        self._findings: Mapping[str, Finding] = {}
        self._looks = 0
        self._save_due = 0.0
        self._longest_look_s = 0.0
        self._certificate_stamp = _stamp(base / config.certificate)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._snapshot("starting")
        if self._memory.epoch_index is not None:
            await asyncio.to_thread(self._feed.recall_epoch, self._memory.epoch_index)
        await self._build()
        await self._look()
        await self._server.start()
        freeze_garbage(disable=False)  # a full collection with this many nodes takes over 100 ms
        try:
            self._snapshot("running")
            notify("READY=1")
            await self._serve()
        finally:
            notify("STOPPING=1")
            self._save()
            await self._server.stop()
            self._snapshot("stopped")

    async def _serve(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            await self._look()
            self._longest_look_s = max(self._longest_look_s, time.monotonic() - started)
            self._snapshot("running")
            notify("WATCHDOG=1")
            try:
                async with asyncio.timeout(max(0.0, LOOK_S - (time.monotonic() - started))):
                    await self._stop.wait()
            except TimeoutError:
                continue

    async def _build(self) -> None:
        config, base = self._config, self._base
        users = base / config.users
        if not users.exists():
            UserBook().save(users)
        trusted = base / config.trusted
        trusted.mkdir(mode=0o700, parents=True, exist_ok=True)
        model = model_config(config)
        own = model.device
        server = await secure_server(
            config.endpoint,
            identity=load_identity(base / config.certificate, base / config.private_key),
            trusted=TrustList(trusted),
            users=UserBook.load(users),
            limits=limits_of(config.limits),
            name=f"SITS Edge {config.deployment}",
            product=Product(
                uri=own.manufacturer_uri, manufacturer=own.manufacturer, name=own.model, version=own.software_revision
            ),
        )
        # secure_server offers both; a deployment may offer one.
        server._security_policy = [kind for kind in server._security_policy if _policy_name(kind) in config.policies]
        server.socket_address = (config.bind, config.port)
        name_endpoints(server, config.endpoint, config.hosts)
        access = Access.of(server)
        self._server = server
        self._nodes = await build(server, model)
        sender = EventSender(server, (ua.NodeId(ua.ObjectIds.Server), self._nodes.device))
        self._alarms = await AlarmServer.attach(
            server,
            self._nodes.conditions,
            self._memory.conditions,
            source=self._nodes.device,
            sender=sender,
            access=access,
        )
        self._refusal_types = await supertypes(server, self._nodes.command_refused)
        methods = Methods(
            gate_ledger=base / config.gate_ledger,
            device_ledger=base / config.device_ledger,
            gate_control=base / config.gate_control,
            access=access,
            tell=self._event,
        )
        for name, role, callback in (
            ("FetchRecord", Role.OBSERVER, methods.fetch_record),
            ("FetchProof", Role.OBSERVER, methods.fetch_proof),
            ("StepDown", Role.OPERATOR, methods.step_down),
        ):
            method = self._nodes.methods[name]
            access.require(method, role)
            server.link_method(server.get_node(method), callback)

    async def _look(self) -> None:
        assert self._nodes is not None
        assert self._alarms is not None
        facts = await asyncio.to_thread(self._feed.look, time.monotonic())
        now_ns = time.time_ns()
        self._findings = self._judge.look(facts, time.monotonic())
        await self._nodes.update(make_view(facts, self._findings, self._shape, now_ns))
        await self._alarms.apply(self._findings, now_ns)
        if self._looks:  # what was there at the start is no news
            await self._report(facts)
            await self._renew()
        self._looks += 1
        self._remember(facts)

    async def _report(self, facts: Facts) -> None:
        """An event for every refusal of the gate, and one for those that were too many."""
        assert self._alarms is not None
        for told in facts.news.events:
            if isinstance(told.record, Refusal):
                await self._refused(told, told.record)
        if facts.news.events_dropped:
            message = f"{facts.news.events_dropped} further records: see the ledgers"
            await self._event(message)

    async def _refused(self, told: Told, record: Refusal) -> None:
        assert self._alarms is not None
        own = {
            "Code": ua.Variant(record.code, ua.VariantType.String),
            "Found": ua.Variant(record.found, ua.VariantType.String),
            "Expected": ua.Variant(record.expected, ua.VariantType.String),
            "Epoch": ua.Variant(record.epoch, ua.VariantType.UInt64),
            "Sequence": ua.Variant(record.sequence, ua.VariantType.UInt64),
            "LedgerIndex": ua.Variant(told.index, ua.VariantType.UInt64),
        }
        message = f"refused {record.code}: {record.found}, expected {record.expected}"
        await self._alarms.report(
            self._refusal_types, message=message, severity=REFUSAL_SEVERITY, t_ns=record.t_ns, more=own
        )

    async def _event(self, message: str) -> None:
        assert self._alarms is not None
        await self._alarms.report(SYSTEM_EVENT, message=message, severity=REFUSAL_SEVERITY, t_ns=time.time_ns())

    def _remember(self, facts: Facts) -> None:
        assert self._alarms is not None
        memory, news = self._memory, facts.news
        memory.epoch_index = memory.epoch_index if news.epoch is None else news.epoch.index
        memory.positions = self._feed.positions
        if self._alarms.changed or time.monotonic() >= self._save_due:
            self._save()

    def _save(self) -> None:
        self._save_due = time.monotonic() + SAVE_S
        if self._alarms is not None:
            self._alarms.changed = False
        self._memory.save(self._state_file)

    def _certificate_days(self) -> int | None:
        """Whole days until the server's own certificate ends; negative once it has."""
        end = self._feed.certificate_ends.get(OWN_CERTIFICATE)
        return None if end is None else (end - dt.datetime.now(dt.UTC)).days

    async def _renew(self) -> None:
        """A new certificate in the place of the old one counts at once for new channels, without a restart."""
        path = self._base / self._config.certificate
        stamp = _stamp(path)
        if stamp is None or stamp == self._certificate_stamp:
            return
        self._certificate_stamp = stamp
        try:
            identity = load_identity(path, self._base / self._config.private_key)
        except CertificateError as error:
            log.error("the new certificate is not used: %s", error)
            return
        await reload_identity(self._server, identity)
        log.info("new channels use the certificate %s", identity.thumbprint)

    def _snapshot(self, state: str) -> None:
        active = sorted(name for name, finding in self._findings.items() if finding.active)
        seen = None if self._server is None else figures(self._server)
        data: dict[str, Any] = {
            "endpoint": self._config.endpoint,
            "device_health": worst(dict(self._findings)).value,
            "alarms": {name: self._findings[name].message or ALARMS[name].meaning for name in active},
            "unacknowledged": sorted(name for name, item in self._memory.conditions.items() if not item.acked),
            "sessions": 0 if seen is None else len(seen.sessions),
            "sessions_lost": {} if seen is None else seen.lost,
            "connections": 0 if seen is None else seen.connections,
            "connections_refused": {} if seen is None else seen.refused,
            "subscriptions": 0 if seen is None else seen.subscriptions,
            "stalls": 0 if seen is None else seen.stalls,
            "stall_ms_max": 0.0 if seen is None else round(1000 * seen.stall_s_max, 1),
            "certificate_days": self._certificate_days(),
            "looks": self._looks,
            "look_ms_max": round(1000 * self._longest_look_s, 1),
        }
        write_snapshot(self._run_dir, SNAPSHOT_NAME, state, data)


def name_endpoints(server: Any, endpoint: str, hosts: Sequence[str]) -> None:
    """GetEndpoints answers with the endpoint, under the name of ours that the client used, and no other's.

    By default asyncua repeats whatever name a client states, checked by nobody.
    """
    own = urlsplit(endpoint)

    def answer(url: str, params_ep_url: str | None = None, sockname: tuple[str, int] | None = None) -> str:
        try:
            asked = urlsplit(params_ep_url or "").hostname
        except ValueError:
            asked = None
        if asked is None or asked not in hosts:
            return endpoint
        host = f"[{asked}]" if ":" in asked else asked
        return own._replace(netloc=f"{host}:{own.port}").geturl()

    server.iserver._mangle_endpoint_url = answer


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _policy_name(kind: Any) -> str:
    """``Aes256Sha256RsaPss_SignAndEncrypt`` and its like, as the security policy's URI spells it."""
    name = str(kind.name).partition("_")[0]
    return "Aes256_Sha256_RsaPss" if name == "Aes256Sha256RsaPss" else name
