"""Sequence numbers, revisions and options without a server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from asyncua import ua
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.opcua import (
    Deadband,
    DeadbandKind,
    Identity,
    ItemOptions,
    ItemRevision,
    OpcUaError,
    ReconnectPolicy,
    Revisions,
    SubscriptionOptions,
    Trigger,
)
from fieldbus.opcua.findings import judge, named
from fieldbus.opcua.nodes import absent_nodes
from fieldbus.opcua.publishing import FAULTS_MAX, REPUBLISH_MAX, SEQUENCE_MAX, Publisher, PublisherCounts, Sequence
from fieldbus.opcua.subscription import ValueSubscription
from tests.fieldbus.opcua.support import MakeClient


def run(sequence: Sequence, number: int, *, keep_alive: bool = False) -> int | None:
    missing = sequence.missing(number, keep_alive=keep_alive)
    if missing is not None:
        sequence.took(number, keep_alive=keep_alive)
    return missing


def test_the_sequence_rolls_over_from_the_largest_number_to_one() -> None:
    sequence = Sequence()
    assert [run(sequence, number) for number in (SEQUENCE_MAX - 1, SEQUENCE_MAX, 1, 2)] == [0, 0, 0, 0]
    assert run(sequence, SEQUENCE_MAX) is None
    assert (sequence.expected, sequence.missed_total, sequence.duplicates_total) == (3, 0, 1)
    sequence.expected = SEQUENCE_MAX
    assert run(sequence, 2) == 2  # the largest and 1


def test_a_keep_alive_does_not_mask_a_loss() -> None:
    sequence = Sequence()
    assert run(sequence, 1) == 0
    assert run(sequence, 2, keep_alive=True) == 0
    assert run(sequence, 4, keep_alive=True) == 2
    assert run(sequence, 4) == 0
    assert run(sequence, 4, keep_alive=True) == 0  # a server that repeats its last number
    assert run(sequence, 5) == 0


@given(st.integers(1, SEQUENCE_MAX), st.lists(st.integers(1, 40), max_size=20))
def test_every_gap_is_counted_wherever_the_circle_begins(first: int, steps: list[int]) -> None:
    sequence = Sequence()
    run(sequence, first)
    number = first
    for step in steps:
        number = (number - 1 + step) % SEQUENCE_MAX + 1
        assert run(sequence, number) == step - 1
    assert sequence.missed_total == sum(steps) - len(steps)


class Script:
    """A session that gives the scripted answers to Publish, in order, and then none."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.republished: list[int] = []
        self._subscription_callbacks: dict[int, Any] = {}
        self.kept: dict[int, Any] = {}

    async def create_subscription(self, parameters: Any, callback: Any) -> Any:
        return SimpleNamespace(SubscriptionId=7)

    async def publish(self, acks: Any) -> Any:
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def republish(self, identifier: int, number: int) -> Any:
        self.republished.append(number)
        if number not in self.kept:
            raise ua.UaStatusCodeError(ua.StatusCodes.BadMessageNotAvailable)
        return self.kept[number]


class Sink:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.reasons: list[str] = []

    def alive(self) -> None:
        pass

    def deliver(self, message: Any) -> None:
        self.numbers.append(message.SequenceNumber)

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


def answer(number: int, *, identifier: int = 7, status: int = 0, data: bool = True) -> Any:
    message = ua.NotificationMessage(
        SequenceNumber=number, NotificationData=[ua.DataChangeNotification()] if data else []
    )
    header = SimpleNamespace(ServiceResult=ua.StatusCode(status))
    return SimpleNamespace(
        ResponseHeader=header, Parameters=SimpleNamespace(SubscriptionId=identifier, NotificationMessage=message)
    )


async def played(monkeypatch: pytest.MonkeyPatch, session: Script) -> tuple[Sink, PublisherCounts, bool]:
    """What came of a script: the sink, the counts, and whether the connection was given up."""
    monkeypatch.setattr("fieldbus.opcua.publishing.FAULT_WAIT_S", 0.0)
    sink, counts, gone = Sink(), PublisherCounts(), asyncio.Event()
    publisher = Publisher(session, deadline_s=1.0, on_gone=gone.set, counts=counts)
    await publisher.create(None, sink)
    for _ in range(200):
        await asyncio.sleep(0)
    await publisher.close()
    return sink, counts, gone.is_set()


async def test_what_is_republished_comes_before_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Script(answer(1), answer(4), answer(5))
    session.kept = {2: answer(2).Parameters.NotificationMessage, 3: answer(3).Parameters.NotificationMessage}
    sink, counts, gone = await played(monkeypatch, session)
    assert sink.numbers == [1, 2, 3, 4, 5]
    assert (sink.reasons, counts.republished_total, counts.lost_total, gone) == ([], 2, 0, False)


async def test_a_gap_that_is_too_long_is_lost_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Script(answer(1), answer(REPUBLISH_MAX + 3))
    sink, counts, _ = await played(monkeypatch, session)
    assert (sink.numbers, sink.reasons, session.republished) == ([1, REPUBLISH_MAX + 3], ["data-lost"], [])
    assert counts.lost_total == REPUBLISH_MAX + 1


async def test_a_foreign_subscription_and_a_passing_fault_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    too_many = ua.UaStatusCodeError(ua.StatusCodes.BadTooManyPublishRequests)
    internal = ua.StatusCodes.BadInternalError
    session = Script(too_many, answer(9, identifier=8), answer(0, status=internal), ValueError("nonsense"), answer(1))
    sink, counts, gone = await played(monkeypatch, session)
    assert (sink.numbers, counts.unknown_total, counts.faults_total, gone) == ([1], 1, 2, False)


@pytest.mark.parametrize(
    ("answers", "reasons", "gone"),
    [
        ([ua.UaStatusCodeError(ua.StatusCodes.BadNoSubscription)], ["no-subscription"], False),
        ([ua.UaStatusCodeError(ua.StatusCodes.BadSessionIdInvalid)], [], True),
        ([ConnectionError("gone")], [], True),
        ([answer(1, status=ua.StatusCodes.BadInternalError)] * FAULTS_MAX, [], True),
    ],
    ids=["no-subscription", "no-session", "no-connection", "nothing-but-faults"],
)
async def test_the_end_of_a_subscription_and_of_a_connection_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], reasons: list[str], gone: bool
) -> None:
    sink, _, given_up = await played(monkeypatch, Script(*answers))
    assert (sink.reasons, given_up) == (reasons, gone)


async def test_a_late_refusal_of_an_older_request_says_nothing_about_a_newer_subscription() -> None:
    waiting: list[asyncio.Future[Any]] = []

    async def publish(acks: Any) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return await waiting[-1]

    session = Script()
    session.publish = publish  # type: ignore[method-assign]
    old, new = Sink(), Sink()
    publisher = Publisher(session, deadline_s=1.0, on_gone=lambda: None, counts=PublisherCounts())
    await publisher.create(None, old)
    while len(waiting) < 3:
        await asyncio.sleep(0)
    publisher.forget(7)
    await publisher.create(None, new)
    waiting[1].set_exception(ua.UaStatusCodeError(ua.StatusCodes.BadNoSubscription))  # out of turn, too
    while len(waiting) < 4:
        await asyncio.sleep(0)
    waiting[2].set_result(answer(1))
    while not new.numbers:
        await asyncio.sleep(0)
    assert (old.reasons, new.reasons) == ([], [])
    waiting[3].set_exception(ua.UaStatusCodeError(ua.StatusCodes.BadNoSubscription))
    while not new.reasons:
        await asyncio.sleep(0)
    await publisher.close()
    assert (old.reasons, new.reasons) == ([], ["no-subscription"])


@pytest.mark.parametrize("interval", [float("nan"), float("inf"), -1.0, 1e9])
async def test_a_revised_interval_that_is_none_is_refused(interval: float) -> None:
    async def create_subscription(parameters: Any, callback: Any) -> Any:
        return SimpleNamespace(SubscriptionId=7, RevisedPublishingInterval=interval)

    session = SimpleNamespace(create_subscription=create_subscription, publish=Script().publish)
    publisher = Publisher(session, deadline_s=1.0, on_gone=lambda: None, counts=PublisherCounts())
    with pytest.raises(OpcUaError, match="revised-interval"):
        await ValueSubscription(("gap",), SubscriptionOptions()).start(publisher, session, {})
    await publisher.close()


def test_findings_name_a_few_tags_and_count_the_rest() -> None:
    options = SubscriptionOptions(publishing_ms=10, sampling_ms=5, item_queue=4)
    items = {f"t{number}": ItemRevision(50.0, 1) for number in range(10)}
    found = {item.code: item.text for item in judge(options, Revisions(10.0, 50, 100, items))}
    assert set(found) == {"sampling-revised", "queue-revised", "lifetime-short"}
    assert found["queue-revised"].endswith("t0, t1, t2, t3, t4, t5, t6, t7 and 2 more")
    assert named(["a"]) == "a"
    fine = {"t0": ItemRevision(5.0, 4)}
    assert judge(options, Revisions(10.0, 50, 150, fine)) == []


def test_options_that_contradict_themselves_are_refused() -> None:
    absolute = Deadband(DeadbandKind.ABSOLUTE, 1.0)
    for wrong in (
        lambda: Deadband(DeadbandKind.ABSOLUTE, 0.0),
        lambda: Deadband(DeadbandKind.ABSOLUTE, float("nan")),
        lambda: Deadband(DeadbandKind.PERCENT, 101.0),
        lambda: Deadband(DeadbandKind.PERCENT, 1.0, span=10.0),
        lambda: Deadband(DeadbandKind.ABSOLUTE, 1.0, here=True, span=10.0),
        lambda: Deadband(DeadbandKind.PERCENT, 1.0, here=True, span=0.0),
        lambda: ItemOptions(sampling_ms=-1.0),
        lambda: ItemOptions(queue=0),
        lambda: ItemOptions(deadband=absolute, trigger=Trigger.STATUS_VALUE_TIMESTAMP),
        lambda: SubscriptionOptions(latency_ms_max=0.0),
        lambda: SubscriptionOptions(source_age_ms_max=-1.0),
        lambda: SubscriptionOptions(trigger=Trigger.STATUS, items={"a": ItemOptions(deadband=absolute)}),
        lambda: ReconnectPolicy(verify_s=0.0),
        lambda: ReconnectPolicy(health_s=float("inf")),
    ):
        with pytest.raises(ValueError, match=r"must|goes with|belongs|holds"):
            wrong()


def test_an_index_range_is_refused_by_name_and_a_node_called_so_is_not() -> None:
    for path in ("Mill/Profile[2]", "Mill/Profile[0:3]", "Mill/Profile[1,2]"):
        error = absent_nodes({"profile": path, "gap": "Mill/Gap"}, "urn:x")
        assert (error.code, path in error.found, "Gap" in error.found) == ("index-range", True, False)
    assert absent_nodes({"element": "Mill/Profile/[2]"}, "urn:x").code == "node-missing"  # S7-1500 calls nodes so


async def test_a_server_that_drops_every_new_connection_is_asked_more_and_more_rarely(
    plant: dict[str, Identity], make_wild_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def dropped(target: Any, identity: Any, subscriptions: Any) -> Any:
        lost = asyncio.Event()
        lost.set()
        return SimpleNamespace(lost=lost, nodes=dict.fromkeys(target.tags), close=lambda _: sleep(0))

    monkeypatch.setattr("fieldbus.opcua.client.open_connection", dropped)
    monkeypatch.setattr("fieldbus.opcua.client.asyncio.sleep", note)
    monkeypatch.setattr("fieldbus.opcua.client.random.uniform", lambda low, high: high)
    client = make_wild_client(SimpleNamespace(url="opc.tcp://127.0.0.1:1/"), reconnect=ReconnectPolicy(0.5, 3.0))
    await client.connect()
    while len(waits) < 6:
        await sleep(0)
    await client.close()
    assert waits[:6] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
