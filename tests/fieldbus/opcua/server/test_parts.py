"""Admission, deadlines, deadbands and events: the parts alone, without a network."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asyncua import ua
from asyncua.common.events import Event
from asyncua.common.utils import ServiceError
from asyncua.server.address_space import AddressSpace, NodeData
from asyncua.server.internal_session import SessionState
from asyncua.server.monitored_item_service import MonitoredItemData

from fieldbus.opcua import TrustList, create_identity
from fieldbus.opcua.server import Limits
from fieldbus.opcua.server.guard import GuardedInternalServer
from fieldbus.opcua.server.listener import GuardedBinaryServer
from fieldbus.opcua.server.pace import LATE_S, TURN_S, Pace
from fieldbus.opcua.server.rate import ADDRESSES_MAX, Rates
from fieldbus.opcua.server.session import GuardedSession
from fieldbus.opcua.server.subscriptions import GuardedItems, GuardedSubscription, _reportable, weight
from fieldbus.opcua.server.transport import GuardedProtocol
from fieldbus.opcua.server.views import GuardedViews
from tests.fieldbus.fuzz_opcua_server import Wire, server

LIMITS = Limits(connections=6, pending=4, pending_per_address=3, connections_per_s=8)


class Peer:
    """As much of a connection as admission looks at."""

    def __init__(self, address: str, *, active: bool = False, certificate: bytes | None = None) -> None:
        self.address = address
        self.certificate = certificate
        self.active = active
        self.ended = ""

    def pending(self) -> bool:
        return not self.active

    def application(self) -> bytes | None:
        return self.certificate

    def abort(self, reason: str) -> None:
        self.ended = reason


def listener(folder: Path) -> GuardedBinaryServer:
    internal = GuardedInternalServer(trusted=TrustList(folder), writers=None, users=None, limits=LIMITS)
    return GuardedBinaryServer(internal, "127.0.0.1", 0, None)


def test_one_address_cannot_have_all_places(tmp_path: Path) -> None:
    listening = listener(tmp_path)
    listening.clients += [Peer("10.0.0.1") for _ in range(LIMITS.pending_per_address)]
    assert not listening.admit(Peer("10.0.0.1"))
    assert listening.admit(Peer("10.0.0.2"))


def test_the_oldest_without_a_session_makes_room_and_none_with_one_does(tmp_path: Path) -> None:
    listening = listener(tmp_path)
    active = [Peer("10.0.0.9", active=True) for _ in range(LIMITS.connections)]
    listening.clients += active[:2]
    waiting = [Peer(f"10.0.0.{number}") for number in range(LIMITS.pending)]
    listening.clients += waiting
    assert listening.admit(Peer("10.0.1.1"))
    assert [bool(peer.ended) for peer in listening.clients] == [False, False, True, False, False, False]
    listening.clients[:] = active
    assert not listening.admit(Peer("10.0.1.2"))
    assert not any(peer.ended for peer in active)


async def test_a_file_that_is_no_certificate_keeps_nobody_who_was_removed_and_cuts_off_nobody_who_is_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trust, listening = TrustList(tmp_path / "trusted"), listener(tmp_path / "trusted")
    identities = [create_identity(tmp_path, name, application_uri=f"urn:tests:{name}") for name in ("kept", "removed")]
    kept, removed = (Peer(one.application_uri, active=True, certificate=one.der) for one in identities)
    listening.clients += [kept, removed]
    entries = [trust.add(identity.certificate) for identity in identities]
    await listening._check_trust()
    assert (kept.ended, removed.ended) == ("", "")
    (trust.directory / "junk.der").write_bytes(b"junk")
    entries[1].unlink()
    await listening._check_trust()
    await listening._check_trust()
    assert (kept.ended, removed.ended) == ("", "its certificate is trusted no more")
    assert caplog.text.count("junk.der") == 1, "said once"


async def test_a_trust_list_that_cannot_be_read_trusts_nobody(tmp_path: Path) -> None:
    listening = listener(tmp_path / "gone")
    identity = create_identity(tmp_path, "panel", application_uri="urn:tests:panel")
    living = Peer("10.0.0.1", active=True, certificate=identity.der)
    waiting = Peer("10.0.0.1", certificate=identity.der)
    listening.clients += [living, waiting]
    await listening._check_trust()
    assert (living.ended, waiting.ended) == ("its certificate is trusted no more", ""), "who waits is checked anyway"
    with pytest.raises(ServiceError):
        listening.iserver.application(identity.der, label="a newcomer")


def test_connections_come_no_faster_than_the_rate_of_their_address(tmp_path: Path) -> None:
    listening = listener(tmp_path)
    burst = [listening.admit(Peer("10.0.0.1")) for _ in range(3 * LIMITS.connections_per_s)]
    assert burst[: LIMITS.connections_per_s] == [True] * LIMITS.connections_per_s
    assert False in burst
    assert listening.admit(Peer("10.0.0.2"))


def test_remembered_addresses_are_bounded() -> None:
    rates = Rates(per_s=1.0, burst=1.0)
    for number in range(3 * ADDRESSES_MAX):
        assert rates.take(str(number), 0.0)
    assert len(rates._rates) <= ADDRESSES_MAX
    assert not rates.take(str(3 * ADDRESSES_MAX - 1), 0.0)


async def test_what_lasts_too_long_is_named(tmp_path: Path) -> None:
    protocol = GuardedProtocol(server(tmp_path))
    wire = Wire()
    protocol.connection_made(wire)
    now = time.monotonic()
    limits = protocol._guard

    def overdue(at: float) -> str | None:
        return protocol.overdue(at, at)

    assert overdue(now) is None
    assert overdue(now + limits.activation_s + 1.0) == "no active session"
    assert protocol.processor is not None
    protocol.processor.session = SimpleNamespace(is_activated=lambda: True, close_session=_nothing)
    assert overdue(now + limits.activation_s + 1.0) is None
    protocol.pause_writing()
    assert protocol.processor.get_publish_request(1) is None  # nothing is sent to who does not read
    assert overdue(now + limits.stalled_s + 2.0) == "answers are not read"
    protocol.resume_writing()
    protocol._message_since = now
    assert overdue(now + limits.message_s + 1.0) == "a message that does not end"
    protocol._message_since, protocol._chunk_since = None, now
    assert overdue(now + limits.chunk_s + 1.0) == "a chunk that does not end"
    protocol._chunk_since = None
    protocol.processor.connection._valid_until = now + 5.0
    assert overdue(now + 4.0) is None
    assert overdue(now + 6.0) == "the channel was not renewed"
    protocol.abort("test")
    protocol.connection_lost(None)


async def test_the_log_says_what_was_wrong_with_the_bytes(tmp_path: Path) -> None:
    there, wire, noted = server(tmp_path), Wire(), []
    there.note = lambda *words: noted.append(words)
    protocol = GuardedProtocol(there)
    protocol.connection_made(wire)
    hello = struct.pack("<5Ii", 0, 65_535, 65_535, 0, 0, 2**31 - 1)  # a URL of 2 GiB
    protocol.data_received(b"HELF" + struct.pack("<I", 8 + len(hello)) + hello)
    while not wire.closing:
        await asyncio.sleep(0)
    assert noted == [("BadSecurityChecksFailed", ("127.0.0.1", 1), "ShapeError: a length of 2147483647 at 20")]
    protocol.connection_lost(None)


async def _nothing(_: bool) -> None:
    """A session that is closed."""


GOOD, BAD = ua.StatusCode(ua.StatusCodes.Good), ua.StatusCode(ua.StatusCodes.BadSensorFailure)


def value(number: Any, status: Any = GOOD) -> ua.DataValue:
    return ua.DataValue(ua.Variant(number), StatusCode=status)


def test_a_deadband_holds_back_values_and_never_a_status() -> None:
    half = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.StatusValue, DeadbandType=1, DeadbandValue=0.5)
    status = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.Status)
    assert not _reportable(value(1.0), value(1.5), half)
    assert _reportable(value(1.0), value(1.6), half)
    assert _reportable(value(1.0), value(float("nan")), half)
    assert _reportable(value(1.0), value(None, BAD), half)
    assert _reportable(value(1.0), value(1.0, BAD), half)
    assert _reportable(value(None, BAD), value(1.0), half)
    assert not _reportable(value(1.0), value(2.0), status)
    assert _reportable(value(1.0), value(2.0, BAD), status)
    assert not _reportable(value(1.0), value(1.0), None)
    assert _reportable(value("a"), value("b"), None)


async def test_a_slow_drift_is_reported_from_the_value_last_reported(tmp_path: Path) -> None:
    items, reported = _items()
    half = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.StatusValue, DeadbandType=1, DeadbandValue=0.5)
    items._monitored_datachange[1] = 9
    items._monitored_items[9] = _item(half)
    for step in range(9):
        await items.datachange_callback(1, value(step * 0.2))
    assert reported == pytest.approx([0.0, 0.6, 1.2])
    assert await items._set_monitoring_mode(ua.MonitoringMode.Sampling, 9) == GOOD
    await items.datachange_callback(1, value(50.0))
    assert len(reported) == 3
    assert (await items._set_monitoring_mode(ua.MonitoringMode.Reporting, 8)).name == "BadMonitoredItemIdInvalid"


async def test_a_field_an_event_has_not_is_null_and_breaks_nobodys_event() -> None:
    items, reported = _items()
    names = ("Message", "to_event_fields", "data_types", "Nowhere")
    clauses = [ua.SimpleAttributeOperand(BrowsePath=[ua.QualifiedName(name)], AttributeId=13) for name in names]
    item = _item(ua.EventFilter(SelectClauses=clauses))
    item.where_clause_evaluator = SimpleNamespace(eval=lambda _: True)
    items._monitored_items[9] = item
    event = Event()
    event.add_property("Message", "hot", ua.VariantType.String)
    await items._trigger_event(event, 9)
    assert [field.Value for field in reported[0].EventFields] == ["hot", None, None, None]


def _items() -> tuple[GuardedItems, list[Any]]:
    reported: list[Any] = []

    async def data(mid: int, event: Any, size: int) -> None:
        reported.append(event.Value.Value.Value)

    async def events(mid: int, fields: Any, size: int) -> None:
        reported.append(fields)

    subscription = SimpleNamespace(
        data=SimpleNamespace(SubscriptionId=1), enqueue_datachange_event=data, enqueue_event=events
    )
    return GuardedItems(subscription, None), reported


def _item(filter_: Any) -> Any:
    item = MonitoredItemData()
    item.mode, item.filter, item.client_handle = ua.MonitoringMode.Reporting, filter_, 1
    return item


def test_the_weight_of_a_value_follows_its_size() -> None:
    assert weight(ua.DataValue(ua.Variant(bytes(1_000)))) > 1_000
    assert weight(["x" * 100] * 10) > 1_000
    assert weight(1.0) < 100


async def test_what_a_subscription_holds_is_bounded_in_bytes_and_a_quarter_of_a_message_is_sent_at_once() -> None:
    limits = Limits(message_bytes=100_000, queued_bytes=200_000, unacknowledged=16)
    result = ua.CreateSubscriptionResult(SubscriptionId=1, RevisedPublishingInterval=100.0)
    subscription = GuardedSubscription(
        result, None, None, ua.NodeId(1), request_callback=lambda _: None, no_acks_limit=16, limits=limits
    )
    for number in range(100):
        event = ua.MonitoredItemNotification(ClientHandle=1, Value=value(bytes([number]) * 10_000))
        await subscription.enqueue_datachange_event(7, event, 1_000)
    waiting = subscription._triggered_datachanges[7]
    assert subscription._queued == sum(weight(event.Value) for event in waiting) < 2 * limits.queued_bytes
    assert waiting[-1].Value.Value.Value[0] == 99
    await subscription.enqueue_datachange_event(8, ua.MonitoredItemNotification(Value=value(1.0)), 1)
    sent = []
    while True:
        message = subscription._pop_publish_result()
        (part,) = message.NotificationMessage.NotificationData
        sent += part.MonitoredItems
        assert sum(weight(event.Value) for event in part.MonitoredItems) < limits.message_bytes
        if not message.MoreNotifications:
            break
    assert sent[-1].Value.Value.Value == 1.0
    assert subscription._queued == 0
    assert not subscription._triggered_datachanges
    assert sum(subscription._kept.values()) <= limits.message_bytes
    assert list(subscription._kept) == list(subscription._not_acknowledged_results) == message.AvailableSequenceNumbers
    assert subscription.republish(message.NotificationMessage.SequenceNumber) is message.NotificationMessage
    with pytest.raises(ServiceError):
        subscription.republish(10_000)


def test_a_browse_path_between_nodes_with_two_references_does_not_double() -> None:
    aspace = AddressSpace()
    here, there, kinds = ua.NodeId(1, 2), ua.NodeId(2, 2), (ua.NodeId(35), ua.NodeId(47))
    for node, other, forward in ((here, there, True), (there, here, False)):
        data = NodeData(node)
        for kind in kinds:
            name = ua.QualifiedName("n")
            data.references.append(
                ua.ReferenceDescription(NodeId=other, BrowseName=name, IsForward=forward, ReferenceTypeId=kind)
            )
        aspace[node] = data
    steps = [ua.RelativePathElement(TargetName=ua.QualifiedName("n"), IsInverse=bool(step % 2)) for step in range(200)]
    path = ua.BrowsePath(StartingNode=here, RelativePath=ua.RelativePath(Elements=steps))
    (result,) = GuardedViews(aspace).translate_browsepaths_to_nodeids([path])
    assert [target.TargetId for target in result.Targets] == [here]


def test_subtypes_are_those_of_now() -> None:
    aspace = AddressSpace()
    views = GuardedViews(aspace)
    parent, child, grandchild = (ua.NodeId(number, 2) for number in (1, 2, 3))
    for node, below in ((parent, child), (child, grandchild), (grandchild, parent)):  # even in a circle
        aspace[node] = NodeData(node)
        has_subtype = ua.NodeId(ua.ObjectIds.HasSubtype)
        aspace[node].references.append(
            ua.ReferenceDescription(NodeId=below, IsForward=True, ReferenceTypeId=has_subtype)
        )
        assert views._suitable_reftype(parent, child, True)
    assert views._suitable_reftype(parent, grandchild, True)
    assert not views._suitable_reftype(parent, grandchild, False)
    assert views._suitable_reftype(ua.NodeId(), grandchild, False)


class Clock:
    """Seconds, as a test sets them."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_time_in_which_the_loop_was_held_up_does_not_count() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.at += 50.0
    assert pace.now() == 150.0  # nothing turns yet: the clock
    assert pace.turn() is None
    for _ in range(40):
        clock.at += TURN_S
        assert pace.turn() is None
    assert pace.now() == 150.0 + 40 * TURN_S
    clock.at += 60.0
    before = pace.now()
    assert before == pytest.approx(150.0 + 40 * TURN_S + TURN_S + LATE_S)
    stall = pace.turn()
    assert stall is not None
    assert stall.late_s == pytest.approx(60.0 - TURN_S - LATE_S)
    assert str(stall).startswith("held up for 59.5 s")
    assert pace.now() == pytest.approx(before)
    clock.at += TURN_S
    assert pace.turn() is None
    assert pace.now() == pytest.approx(before + TURN_S)
    assert pace.longest is stall


async def _session(folder: Path, lost: list[str]) -> tuple[GuardedInternalServer, GuardedSession, Clock]:
    internal = GuardedInternalServer(trusted=TrustList(folder), writers=None, users=None, limits=LIMITS)
    internal.note_lost = lambda session, reason: lost.append(session.account(reason))
    clock = Clock()
    internal.pace = Pace(clock)
    internal.pace.turn()
    session = GuardedSession(internal, "peer", application_uri="urn:tests:panel", thumbprint=b"")
    session.session_timeout = 0.2
    session.state = SessionState.Activated
    return internal, session, clock


async def test_a_session_outlives_a_server_that_was_held_up(tmp_path: Path) -> None:
    lost: list[str] = []
    internal, session, clock = await _session(tmp_path, lost)
    session.session_timeout = 5.0
    task = asyncio.create_task(session._timeout_loop())
    clock.at += 600.0  # before a turn and before anything the client sent is read
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert session.is_activated()
    assert not lost
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for _ in range(21):
        clock.at += TURN_S
        internal.pace.turn()
    await session._timeout_loop()  # now it was silent while the loop turned
    assert not session.is_activated()
    (line,) = lost
    assert "urn:tests:panel from peer: no request within its timeout" in line


async def test_a_session_closed_by_its_client_is_not_lost(tmp_path: Path) -> None:
    lost: list[str] = []
    _, session, _ = await _session(tmp_path, lost)
    await session.close_session()
    assert not lost


async def test_missed_publishing_cycles_are_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ua.CreateSubscriptionResult(SubscriptionId=1, RevisedPublishingInterval=100.0)
    subscription = GuardedSubscription(
        result, None, None, ua.NodeId(1), request_callback=lambda _: None, no_acks_limit=16, limits=LIMITS
    )
    clock = Clock()
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)
        clock.at += 60.0 if len(slept) == 2 else delay  # once, it is held up for a minute
        subscription._closing = len(slept) == 5

    async def published() -> bool:
        return False

    monkeypatch.setattr("fieldbus.opcua.server.subscriptions.time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr("fieldbus.opcua.server.subscriptions.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(subscription, "publish_results", published)
    await subscription._subscription_loop()
    assert slept == pytest.approx([0.1, 0.1, 0.0, 0.1, 0.1])
