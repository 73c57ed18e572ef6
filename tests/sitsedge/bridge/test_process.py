"""The bridge process against a secured server in another process: samples, quality, outages, refusals to start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from fieldbus.opcua import CertificateError, ReadResult, ValueSubscription
from fieldbus.uadp import DataSetSample
from sitsedge.bridge.app import BridgeApp
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.main import main
from sitsedge.bridge.sample import BAD_GONE, BAD_LOST, BAD_NO_DATA
from sitsedge.bridge.stations.opcua import BAD_NODE_UNKNOWN
from sitsedge.config import load_model
from tests.sitsedge.bridge.support import Bridge, MakeBridge, Source, server_station

BAD_SENSOR = 0x808C_0000
UNCERTAIN = 0x4090_0000
US = 1_000
S = 1_000_000_000


def now_ns() -> int:
    """Whole microseconds, as OPC UA clients of this stack see them."""
    return time.time_ns() // US * US


def test_one_datagram_per_complete_cycle_with_the_source_time(source: Source, bridge: Bridge) -> None:
    times = []
    for k in range(3):
        times.append(now_ns())
        source.write(times[-1], a=1.5 + k, b=2 * k, c=-0.25 * k)
        [sample] = bridge.samples(1)
        assert (sample.t_source_ns, sample.values, sample.status) == (times[-1], (1.5 + k, 2.0 * k, -0.25 * k), 0)
        assert sample.sequence == k
    code, errors = bridge.stop()
    assert (code, "Traceback" in errors) == (0, False)
    snapshot = bridge.snapshot()
    assert (snapshot["state"], snapshot["forwarded"]) == ("stopped", 3)
    assert snapshot["stations"][0]["revised_interval_ms"] == 10.0
    assert snapshot["last_t_source_ns"] == times[-1]


def test_an_unfinished_cycle_is_never_filled_up(source: Source, bridge: Bridge) -> None:
    first = now_ns()
    source.write(first, a=1.0, b=1.0, c=1.0)
    source.write(first + US, a=2.0, b=2.0)
    source.write(first + 2 * US, a=3.0, b=3.0, c=3.0)
    assert [s.values for s in bridge.samples(2)] == [(1.0,) * 3, (3.0,) * 3]
    assert bridge.wait(lambda s: s["forwarded"] == 2)["dropped"]["incomplete"] == 1


def test_bad_quality_arrives_as_bad_quality_without_a_number(source: Source, bridge: Bridge) -> None:
    t = now_ns()
    source.write(t, a=1.0, b=(77.0, BAD_SENSOR), c=3.0)
    source.write(t + US, a=2.0, b="3.5", c=True)
    source.write(t + 2 * US, a=3.0, b=float("nan"), c=float("inf"))
    source.write(t + 3 * US, a=4.0, b=(2.0, UNCERTAIN), c=3.0)
    source.write(t + 4 * US, a=5.0, b=3.0, c=4.0)
    samples = bridge.samples(5)
    assert samples[0].values == (1.0, None, 3.0)
    assert samples[0].field_status == (0, BAD_SENSOR, 0)
    assert [s.values for s in samples[1:3]] == [(2.0, None, None), (3.0, None, None)]
    assert samples[3].values == (4.0, 2.0, 3.0)
    assert [s.status >> 30 for s in samples] == [2, 2, 2, 1, 0]
    assert bridge.wait(lambda s: s["forwarded"] == 5)["forwarded_bad_quality"] == 4


def test_a_stale_burst_is_counted_and_not_passed_on(source: Source, bridge: Bridge) -> None:
    t = now_ns()
    for k in range(17, 0, -1):
        source.write(t - 5 * S - k * S, a=k, b=k, c=k)
    source.write(t + 3600 * S, a=8.0, b=8.0, c=8.0)
    snapshot = bridge.wait(lambda s: s["dropped"].get("future") == 1)
    assert snapshot["dropped"]["stale"] == 17
    assert snapshot["forwarded"] == 0
    assert bridge.quiet()


def test_a_value_without_source_time_is_not_dated_by_guess(source: Source, bridge: Bridge) -> None:
    before = bridge.running()["dropped"].get("no-source-timestamp", 0)
    source.write(None, a=1.0, b=1.0, c=1.0)
    snapshot = bridge.wait(lambda s: s["dropped"].get("no-source-timestamp", 0) >= before + 3)
    assert snapshot["forwarded"] == snapshot["forwarded_bad_quality"], "that there are none may have been said by now"


def test_a_cycle_that_stays_unfinished_is_told_to_the_loop(source: Source, make_bridge: MakeBridge) -> None:
    bridge = make_bridge(source)
    bridge.config["source_age_ms_max"] = 500
    bridge.start()
    bridge.running()
    first = now_ns()
    source.write(first, a=1.0, b=1.0, c=1.0)
    assert bridge.samples(1)[0].values == (1.0,) * 3
    source.write(now_ns(), a=2.0, b=2.0)
    [sample] = bridge.samples(1)
    assert (sample.values, sample.field_status) == ((None,) * 3, (BAD_LOST, BAD_LOST, BAD_NO_DATA))
    assert sample.t_source_ns > first + S // 2
    later = now_ns()
    source.write(later, a=3.0, b=3.0, c=3.0)
    [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values) == (later, (3.0,) * 3)


def test_server_restart_is_survived_and_old_values_are_not_mixed_with_new_ones(
    own_source: Source, make_bridge: MakeBridge
) -> None:
    bridge = make_bridge(own_source)
    own_source.start()
    bridge.start()
    bridge.running()
    t = now_ns()
    own_source.write(t, a=1.0, b=1.0, c=1.0)
    own_source.write(t + US, a=2.0, b=2.0)
    assert len(bridge.samples(1)) == 1
    own_source.stop(kill=True)
    bridge.wait(lambda s: s["state"] == "connecting" and not s["connected"])
    own_source.start()
    bridge.wait(lambda s: s["state"] == "running" and s["connects"] == 2)
    own_source.write(t + US, c=2.0)
    later = now_ns()
    own_source.write(later, a=3.0, b=3.0, c=3.0)
    sample = bridge.samples(1)[0]
    assert sample.field_status == (BAD_GONE,) * 3
    while not sample.good:
        assert sample.values == (None,) * 3
        [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values) == (later, (3.0,) * 3)
    assert bridge.stop()[0] == 0


def test_a_tag_lost_in_a_restart_degrades_and_is_named(own_source: Source, make_bridge: MakeBridge) -> None:
    bridge = make_bridge(own_source)
    own_source.start()
    bridge.start()
    bridge.running()
    own_source.stop(kill=True)
    own_source.start(("a", "c"))
    snapshot = bridge.wait(lambda s: s["state"] == "degraded")
    assert snapshot["missing_tags"] == ["b"]
    own_source.write(now_ns(), a=1.0, c=2.0)
    sample = bridge.samples(1)[0]
    while sample.values != (1.0, None, 2.0):
        assert sample.values == (None,) * 3
        [sample] = bridge.samples(1)
    assert sample.field_status == (0, BAD_NODE_UNKNOWN, 0)
    assert bridge.stop()[0] == 0


def test_the_bridge_waits_for_a_server_that_comes_later(own_source: Source, make_bridge: MakeBridge) -> None:
    bridge = make_bridge(own_source)
    bridge.start()
    snapshot = bridge.wait(lambda s: s["last_error"] is not None)
    assert snapshot["state"] == "connecting"
    assert "connection-refused" in snapshot["last_error"]
    own_source.start()
    bridge.running()
    assert bridge.stop()[0] == 0


async def test_stopping_does_not_depend_on_a_cancellation_being_seen(
    source: Source, make_bridge: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = asyncio.Event()

    async def deaf(_: ValueSubscription, timeout_s: float) -> list[ReadResult]:
        # What asyncio.wait_for of Python 3.11 does when a value and the cancellation come together.
        taken.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(timeout_s)
        return []

    monkeypatch.setattr(ValueSubscription, "get", deaf)
    path = make_bridge(source).write_config()
    app = asyncio.create_task(BridgeApp(load_model(path, BridgeConfig), path.parent).run())
    await asyncio.wait_for(taken.wait(), 30)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(app, 30)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"trigger": "Plant/Missing"}, "node-missing"),
        ({"namespace": "urn:tests:elsewhere"}, "namespace-missing"),
        ({"server_certificate": "other.der"}, "server-certificate"),
        ({"certificate": "other.der", "private_key": "other.key.pem"}, "untrusted-certificate"),
        ({"source_age_ms_max": 5}, "latency-claim"),
    ],
)
def test_a_server_that_contradicts_the_configuration_ends_the_bridge(
    source: Source, make_bridge: MakeBridge, change: dict[str, object], code: str
) -> None:
    bridge = make_bridge(source)
    bridge.change(change)
    bridge.start()
    exit_code, errors = bridge.ended()
    assert exit_code == 2
    assert code in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"send_to": {"port": 5000, "address": "192.0.2.1"}}, "a loopback address"),
        ({"order": ["a", "b"]}, "each tag name once"),
        ({"trigger": "another"}, "one of them as 'trigger'"),
        ({"certificate": None}, "'certificate', 'private_key'"),
        ({"source_age_ms_max": 0}, "greater than 0"),
    ],
)
def test_a_wrong_configuration_file_is_refused_with_line_and_reason(
    own_source: Source,
    make_bridge: MakeBridge,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, object],
    text: str,
) -> None:
    bridge = make_bridge(own_source)
    bridge.config |= change
    path = bridge.write_config()
    assert main(["--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert re.match(re.escape(str(path)) + r":\d+:\d+: ", error)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"private_key": "nowhere.pem"}, "file-unreadable"),
        ({"private_key": "other.key.pem"}, "key-mismatch"),
        ({"server_certificate": "nowhere.der"}, "file-unreadable"),
    ],
)
async def test_our_own_unusable_files_are_refused_before_anything_is_opened(
    own_source: Source, make_bridge: MakeBridge, change: dict[str, object], code: str
) -> None:
    bridge = make_bridge(own_source)
    bridge.change(change)
    path = bridge.write_config()
    with pytest.raises(CertificateError) as caught:
        BridgeApp(load_model(path, BridgeConfig), path.parent)
    assert caught.value.code == code


def test_trigger_policy_takes_unchanged_values_and_refuses_a_skew(source: Source, make_bridge: MakeBridge) -> None:
    bridge = make_bridge(source)
    bridge.station.update({"trigger": "Plant/c", "tag_skew_ms_max": 200})
    bridge.start()
    bridge.running()
    t = now_ns()
    source.write_rows({"a": [1.0, 0, t], "b": [2.0, 0, t + US], "c": [3.0, 0, t + 2 * US]})
    [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values) == (t + 2 * US, (1.0, 2.0, 3.0))
    # The server does not notify a and b, whose values are what they were.
    source.write_rows({"a": [1.0, 0, t + S // 10], "b": [2.0, 0, t + S // 10], "c": [3.5, 0, t + S // 10]})
    [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values) == (t + S // 10, (1.0, 2.0, 3.5))
    source.write_rows({"a": [1.5, 0, t + 4 * S // 10], "c": [4.0, 0, t + 4 * S // 10]})
    [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values) == (t + 4 * S // 10, (1.5, None, 4.0))
    assert bridge.wait(lambda s: s["dropped"].get("stale-tag") == 1)["forwarded_bad_quality"] == 1


def test_a_counter_that_is_no_field_triggers_and_is_not_sent(source: Source, make_bridge: MakeBridge) -> None:
    bridge = make_bridge(source)
    bridge.station["trigger"] = "Plant/count"
    bridge.start()
    bridge.running()
    t = now_ns()
    for k in range(1, 4):
        source.write(t + k * US, a=1.0, b=1.0 + k // 3, c=1.0, count=k)
    source.write(t + 4 * US, a=1.0, count=(4, BAD_SENSOR))
    samples = bridge.samples(3)
    assert [s.values for s in samples] == [(1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 2.0, 1.0)]
    assert [s.t_source_ns for s in samples] == [t + k * US for k in range(1, 4)]
    [sample] = bridge.samples(1)
    assert (sample.t_source_ns, sample.values, sample.field_status) == (t + 4 * US, (None,) * 3, (BAD_SENSOR,) * 3)
    assert bridge.wait(lambda s: s["forwarded"] == 4)["dropped"]["bad-trigger"] == 1


@pytest.mark.slow
def test_two_servers_make_one_dataset_and_the_loss_of_one_is_seen_at_once(
    source: Source, own_source: Source, folder: Path
) -> None:
    own_source.start(("d",))
    aux = {**server_station(own_source.port, ("d",)), "name": "aux"}
    bridge = Bridge(folder, server_station(source.port), aux)
    bridge.config |= {"skew_ms_max": 100, "order": ["a", "d", "b", "c"]}

    rows = iter(range(2_000))

    def until(d: float | None) -> DataSetSample:
        for k in rows:
            source.write(now_ns(), a=1.0 + k, b=2.0 + k, c=3.0 + k)  # a server does not repeat what stayed the same
            [sample] = bridge.samples(1)
            assert sample.values[0::2] == (1.0 + k, 2.0 + k), "the other station holds up nothing"
            if sample.values[1] == d:
                return sample
        raise AssertionError(bridge.snapshot())

    try:
        bridge.start()
        bridge.running()
        own_source.write(now_ns() - 3 * S, d=7.0)
        assert until(7.0).good, "unchanged for longer than the skew, and still what the server says"
        own_source.stop(kill=True)
        assert until(None).field_status[1] == BAD_GONE
        stations = bridge.wait(lambda s: s["state"] == "degraded")["stations"]
        assert [station["state"] for station in stations] == ["running", "connecting"]
        own_source.start(("d",))
        bridge.running()
        own_source.write(now_ns(), d=8.0)
        assert until(8.0).good
        assert bridge.stop()[0] == 0
    finally:
        bridge.close()
