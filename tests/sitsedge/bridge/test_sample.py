"""Assemblers and forwarder without processes: any order of values gives only whole samples, each value once."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.net import UdpReceiver, UdpSender
from fieldbus.opcua import ReadResult
from fieldbus.uadp import LayoutReader
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.forward import Forwarder
from sitsedge.bridge.sample import (
    BAD_LOST,
    BAD_NO_DATA,
    BAD_OUT_OF_RANGE,
    BAD_TYPE_MISMATCH,
    BAD_WAITING,
    OPEN_CYCLES_MAX,
    FieldValue,
    SameTimestampAssembler,
    Sample,
    TriggerAssembler,
    field_of,
)

TAGS = ("a", "b", "c")
MS = 1_000_000
BAD = 0x8000_0000
T0 = 1_700_000_000 * 1_000 * MS


def result(tag: str, t: int | None, value: object = 1.0, status: int = 0) -> ReadResult:
    return ReadResult(tag, value, status, t, t)  # type: ignore[arg-type]


values = st.lists(
    st.builds(
        result,
        tag=st.sampled_from(TAGS),
        t=st.one_of(st.none(), st.integers(0, 12)),
        value=st.floats(allow_nan=True),
        status=st.sampled_from([0, BAD, 0x4000_0000]),
    ),
    max_size=60,
)
cuts = st.lists(st.integers(0, 60), max_size=5)


def batches(items: list[ReadResult], at: list[int]) -> list[list[ReadResult]]:
    edges = [0, *sorted(at), len(items)]
    return [items[i:j] for i, j in itertools.pairwise(edges)]


@given(values, cuts)
def test_same_timestamp_samples_hold_only_values_of_their_own_instant(items: list[ReadResult], at: list[int]) -> None:
    assembler = SameTimestampAssembler(TAGS)
    seen: dict[tuple[int, str], list[FieldValue]] = defaultdict(list)
    for item in items:
        if item.t_source_ns is not None:
            seen[item.t_source_ns, item.tag].append(field_of(item))
    last = -1
    for batch in batches(items, at):
        for sample in assembler.take(batch):
            assert sample.t_source_ns > last
            last = sample.t_source_ns
            for tag, field in zip(TAGS, sample.fields, strict=True):
                assert any(_same(field, other) for other in seen[last, tag])
    missing = sum(item.t_source_ns is None for item in items)
    assert assembler.dropped["no-source-timestamp"] == missing


@given(values, cuts)
def test_how_values_are_batched_does_not_change_same_timestamp_samples(items: list[ReadResult], at: list[int]) -> None:
    one, many = SameTimestampAssembler(TAGS), SameTimestampAssembler(TAGS)
    whole = one.take(items)
    parts = [sample for batch in batches(items, at) for sample in many.take(batch)]
    assert list(map(repr, whole)) == list(map(repr, parts))
    assert one.dropped == many.dropped


def test_trigger_without_skew_limit_takes_an_unchanged_tag_however_old() -> None:
    assembler = TriggerAssembler(TAGS, trigger="tick", skew_ns_max=None)
    [early] = assembler.take([result("a", 1, 5.0), result("b", 2), result("tick", 3)])
    assert early.fields == (FieldValue(5.0, 0), FieldValue(1.0, 0), FieldValue(None, BAD_WAITING))
    [sample] = assembler.take([result("tick", 9), result("c", 9, 7.0)])
    assert (sample.t_source_ns, [f.value for f in sample.fields]) == (9, [5.0, 1.0, 7.0])
    [bad] = assembler.take([result("tick", 10, 1, BAD)])
    assert (bad.t_source_ns, bad.fields) == (10, (FieldValue(None, BAD),) * 3)
    assert assembler.dropped == {"incomplete": 1, "bad-trigger": 1, "no-source-timestamp": 0}


@given(values, cuts, st.integers(0, 4))
def test_trigger_samples_hold_nothing_older_than_the_declared_skew(
    items: list[ReadResult], at: list[int], skew: int
) -> None:
    assembler = TriggerAssembler(TAGS, trigger="b", skew_ns_max=skew)
    given_at = {(item.tag, item.t_source_ns) for item in items}
    last = -1
    for batch in batches(items, at):
        for sample in assembler.take(batch):
            t = sample.t_source_ns
            assert t > last
            last = t
            assert ("b", t) in given_at
            for tag, field in zip(TAGS, sample.fields, strict=True):
                assert field.value is None or any((tag, t + d) in given_at for d in range(-skew, skew + 1))


def test_tag_by_tag_delivery_of_several_cycles_gives_every_cycle() -> None:
    items = [result(tag, t, float(t)) for tag in TAGS for t in range(1, 6)]
    exact = SameTimestampAssembler(TAGS).take(items)
    triggered = TriggerAssembler(TAGS, trigger="a", skew_ns_max=0).take(items)
    for samples in (exact, triggered):
        assert [(s.t_source_ns, {f.value for f in s.fields}) for s in samples] == [(t, {float(t)}) for t in range(1, 6)]


def test_unfinished_cycles_are_bounded_and_counted() -> None:
    assembler = SameTimestampAssembler(TAGS)
    assembler.take([result("a", t) for t in range(1000)])
    assert assembler.dropped["incomplete"] == 1000 - OPEN_CYCLES_MAX
    assembler.reset()
    assert assembler.dropped["incomplete"] == 1000
    assert assembler.take([result("b", 999), result("c", 999)]) == []


def test_trigger_forgets_values_from_before_an_outage() -> None:
    assembler = TriggerAssembler(TAGS, trigger="c", skew_ns_max=1000)
    assembler.take([result("a", 1), result("b", 1)])
    assembler.reset()
    [sample] = assembler.take([result("c", 2)])
    assert [field.status for field in sample.fields] == [BAD_WAITING, BAD_WAITING, 0]
    assert assembler.dropped["incomplete"] == 1


def test_a_tag_too_far_from_the_trigger_is_bad_in_its_sample_and_the_others_are_not() -> None:
    assembler = TriggerAssembler(TAGS, trigger="c", skew_ns_max=5)
    assembler.take([result("a", 1), result("b", 1, 0, BAD)])
    [sample] = assembler.take([result("c", 9, 3.0)])
    assert sample.fields == (FieldValue(None, BAD_NO_DATA), FieldValue(None, BAD), FieldValue(3.0, 0))
    assert assembler.dropped["stale-tag"] == 1


def test_cycles_that_stay_unfinished_are_said_without_any_of_their_values() -> None:
    assembler = SameTimestampAssembler(TAGS)
    assert assembler.take([result("a", 1), result("b", 1), result("c", 1)])
    assert assembler.take([result("a", 2), result("b", 2, 0, BAD), result("a", 3), result("b", 3, 0, BAD)]) == []
    assert assembler.given_up(4) is None, "a sample was made since the look before"
    assert assembler.given_up(4) is not None
    assert assembler.given_up(4) is None, "nothing came since"
    assembler.take([result("a", 5), result("b", 5, 0, BAD)])
    assert assembler.given_up(5) is None, "it may still be finished"
    assert assembler.given_up(6) == (FieldValue(None, BAD_LOST), FieldValue(None, BAD), FieldValue(None, BAD_NO_DATA))
    assert assembler.dropped["incomplete"] == 3
    assembler.reset()
    assembler.take([result("a", 7)])
    unheard = assembler.given_up(8)
    assert unheard is not None
    assert [field.status for field in unheard] == [BAD_LOST, BAD_WAITING, BAD_WAITING]


@pytest.mark.parametrize("t", [None, 3])
def test_cycles_without_a_time_or_of_a_time_gone_by_are_said(t: int | None) -> None:
    for assembler in (SameTimestampAssembler(TAGS), TriggerAssembler(TAGS, trigger="c", skew_ns_max=None)):
        assert assembler.take([result(tag, 9) for tag in TAGS])
        assembler.given_up(0)
        assert assembler.given_up(0) is None
        assembler.take([result("c", 9)])
        assert assembler.given_up(0) is None, "what is repeated is no news"
        assert assembler.take([result(tag, t) for tag in TAGS]) == []
        said = assembler.given_up(0)
        assert said is not None
        assert all(field.value is None and field.status >> 30 == 2 for field in said)
        assert assembler.given_up(0) is None, "said once"


@pytest.mark.parametrize(
    ("value", "status", "field"),
    [
        (1.5, 0, FieldValue(1.5, 0)),
        (3, 0, FieldValue(3.0, 0)),
        (2**53, 0, FieldValue(2.0**53, 0)),
        (2**53 + 1, 0, FieldValue(None, BAD_OUT_OF_RANGE)),
        (math.nan, 0, FieldValue(None, BAD_OUT_OF_RANGE)),
        (-math.inf, 0, FieldValue(None, BAD_OUT_OF_RANGE)),
        (True, 0, FieldValue(None, BAD_TYPE_MISMATCH)),
        ("1.5", 0, FieldValue(None, BAD_TYPE_MISMATCH)),
        (None, 0, FieldValue(None, BAD_TYPE_MISMATCH)),
        (1.5, 0x808C_0000, FieldValue(None, 0x808C_0000)),
        (1.5, 0x4090_0000, FieldValue(1.5, 0x4090_0000)),
    ],
)
def test_what_is_a_number(value: object, status: int, field: FieldValue) -> None:
    assert field_of(result("a", 1, value, status)) == field


def _same(one: FieldValue, other: FieldValue) -> bool:
    return repr(one) == repr(other)


def config(port: int) -> BridgeConfig:
    return BridgeConfig.model_validate(
        {
            "version": 2,
            "stations": [
                {
                    "name": "cip",
                    "protocol": "cip",
                    "host": "127.0.0.1",
                    "tags": [{"name": tag, "path": tag, "type": "REAL", "unit": "1"} for tag in TAGS],
                }
            ],
            "trigger": "cip",
            "order": list(TAGS),
            "poll_ms": 10.0,
            "source_age_ms_max": 100.0,
            "future_ms_max": 10.0,
            "send_to": {"port": port},
            "run_dir": "run",
        }
    )


fields = st.one_of(
    st.builds(FieldValue, st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0, 0x4090_0000])),
    st.builds(FieldValue, st.none(), st.sampled_from([BAD, BAD_TYPE_MISMATCH, 0x80AB_0000])),
)


@given(st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=5))
def test_what_is_sent_is_what_a_strict_reader_reads(rows: list[tuple[FieldValue, ...]]) -> None:
    with UdpReceiver("127.0.0.1", 0) as receiver, UdpSender("127.0.0.1", receiver.address[1]) as sender:
        settings = config(receiver.address[1])
        forwarder = Forwarder(settings, sender)
        reader = LayoutReader(settings.layout())
        for k, row in enumerate(rows):
            sample = Sample(T0 + k * MS, row)
            assert forwarder.forward(sample, T0 + k * MS)
            frame = receiver.receive(10.0)
            assert frame is not None
            read = reader.read(frame.data)
            assert (read.sequence, read.t_source_ns, read.good) == (k, sample.t_source_ns, sample.good)
            assert read.values == tuple(field.value for field in row)
            assert read.status >> 30 == sample.status >> 30
        assert forwarder.forwarded == len(rows)


@pytest.mark.parametrize(
    ("age_ms", "sent", "reason"), [(100, True, ""), (101, False, "stale"), (-1000, True, ""), (-1001, False, "future")]
)
def test_age_limits_are_inclusive(age_ms: int, sent: bool, reason: str) -> None:
    with UdpReceiver("127.0.0.1", 0) as receiver, UdpSender("127.0.0.1", receiver.address[1]) as sender:
        forwarder = Forwarder(config(receiver.address[1]), sender)
        sample = Sample(T0, (FieldValue(1.0, 0),) * 3)
        assert forwarder.forward(sample, T0 + age_ms * MS) is sent
        assert dict(forwarder.dropped) == ({reason: 1} if reason else {})


def test_a_send_that_fails_is_counted_by_its_code_and_uses_no_value_twice() -> None:
    with UdpReceiver("127.0.0.1", 0) as receiver:
        sender = UdpSender("127.0.0.1", receiver.address[1])
        forwarder = Forwarder(config(receiver.address[1]), sender)
        sender.close()
        assert not forwarder.forward(Sample(T0, (FieldValue(1.0, 0),) * 3), T0)
        assert list(forwarder.dropped.values()) == [1]
        assert forwarder.forwarded == 0


def test_the_loop_listens_to_the_identifiers_the_bridge_sends() -> None:
    from sitsedge.loop import ingest

    to = config(5000).send_to
    expected = (ingest.BRIDGE_PUBLISHER_ID, ingest.BRIDGE_WRITER_GROUP_ID, ingest.BRIDGE_DATA_SET_WRITER_ID)
    assert (to.publisher_id, to.writer_group_id, to.data_set_writer_id) == expected
