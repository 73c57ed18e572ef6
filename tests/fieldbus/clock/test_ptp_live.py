"""Against real daemons: two ptp4l in namespaces, the grandmaster killed, the follower killed, pmc asked as well."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fieldbus.clock import ClockQuality, Hold, PtpClient, PtpError, PtpPolicy, PtpWatch, TimeQualityKind
from fieldbus.clock import phc as phc_module
from fieldbus.clock.ptp_messages import ManagementId, PortState
from tests.fieldbus.clock.ptp_support import BODIES, answer
from tests.support.ptp import PtpPair

WAIT_S = 30.0
POLICY = PtpPolicy(error_us_max=5_000.0, holdover_s_max=1.5, sync_silence_s_max=0.6, free_running=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PtpPair]:
    with PtpPair(tmp_path) as started:
        yield started


def until(read: Callable[[], ClockQuality], met: Callable[[ClockQuality], bool]) -> list[ClockQuality]:
    """What was read, each change once, until ``met``; fails after WAIT_S."""
    seen: list[ClockQuality] = []
    deadline = time.monotonic() + WAIT_S
    turn = threading.Event()
    while time.monotonic() < deadline:
        quality = read()
        if not seen or (seen[-1].kind, seen[-1].hold) != (quality.kind, quality.hold):
            seen.append(quality)
        if met(quality):
            return seen
        turn.wait(0.02)
    raise AssertionError(f"not within {WAIT_S} s; last: {seen[-1]}")


def test_a_killed_grandmaster_turns_ptp_sw_to_holdover_and_then_free(pair: PtpPair) -> None:
    with PtpWatch(pair.follower_socket, POLICY, interval_s=0.05) as watch:
        locked = until(watch.quality, lambda quality: quality.kind is TimeQualityKind.PTP_SW)[-1]
        assert locked.hold is Hold.LOCKED
        assert locked.error_ns_max is not None
        assert watch.path_rtt.w_sync_ns(time.monotonic_ns()) is not None
        pair.kill_grandmaster()
        seen = until(watch.quality, lambda quality: quality.kind is TimeQualityKind.FREE)
        assert [(quality.kind.label, quality.hold.value) for quality in seen] == [
            ("ptp-sw", "locked"),
            ("ptp-sw", "holdover"),
            ("free", "none"),
        ]
        pair.start_grandmaster()
        until(watch.quality, lambda quality: quality.hold is Hold.LOCKED)
        pair.kill_follower()
        lost = until(watch.quality, lambda quality: quality.kind is TimeQualityKind.FREE)[-1]
        assert lost.reason.startswith("ptp-unreachable")


def test_pmc_says_the_same(pair: PtpPair) -> None:
    with PtpWatch(pair.follower_socket, POLICY) as watch:
        until(watch.quality, lambda quality: quality.hold is Hold.LOCKED)
    with PtpClient(pair.follower_socket) as client:
        questions = ["GET PARENT_DATA_SET", "GET PORT_DATA_SET", "GET TIME_PROPERTIES_DATA_SET", "GET DEFAULT_DATA_SET"]
        command = ["pmc", "-u", "-b", "0", "-s", pair.follower_socket, *questions]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
        status = client.status()

    def pmc(name: str) -> str:
        found = re.search(rf"^\s+{re.escape(name)}\s+(\S+)$", told, re.MULTILINE)
        assert found is not None, (name, told)
        return found[1]

    assert pmc("grandmasterIdentity").replace(".", "") == status.parent.grandmaster.hex()
    assert pmc("parentPortIdentity").split("-")[0].replace(".", "") == status.parent.parent.clock.hex()
    assert int(pmc("gm.ClockClass")) == status.parent.clock_class
    assert int(pmc("gm.ClockAccuracy"), 16) == status.parent.accuracy
    assert int(pmc("currentUtcOffset")) == status.properties.utc_offset_s
    assert bool(int(pmc("currentUtcOffsetValid"))) is status.properties.utc_offset_valid
    assert int(pmc("timeSource"), 16) == status.properties.source
    assert pmc("portState") == status.ports[0].state.name == PortState.UNCALIBRATED.name
    assert int(pmc("numberPorts")) == status.clock.ports == 1
    assert pmc("clockIdentity").replace(".", "") == status.clock.clock.hex()


class FakeDaemon:
    """A daemon that answers as it is told to: ``reply(request) -> datagrams``."""

    def __init__(self, path: Path, reply: Callable[[bytes], list[bytes]]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._reply = reply
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            request, sender = self._socket.recvfrom(2_000)
            if not request:
                return
            with contextlib.suppress(FileNotFoundError, ConnectionError):  # who asked has given up
                for data in self._reply(request):
                    self._socket.sendto(data, sender)

    def __enter__(self) -> FakeDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stop:
            stop.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


def honest(request: bytes, *, sequence: int | None = None) -> bytes:
    what = int.from_bytes(request[52:54], "big")
    asked, port = int.from_bytes(request[30:32], "big"), int.from_bytes(request[28:30], "big")
    body = BODIES[ManagementId(what)]
    return answer(what, body, sequence=asked if sequence is None else sequence, target=port)


def test_a_late_answer_to_another_question_is_passed_over(tmp_path: Path) -> None:
    def reply(request: bytes) -> list[bytes]:
        return [honest(request, sequence=60_000), honest(request)]

    with FakeDaemon(tmp_path / "d", reply), PtpClient(str(tmp_path / "d")) as client:
        assert client.status().time.offset_ns == -7


def test_a_daemon_that_answers_nothing_or_never_what_was_asked_is_silent(tmp_path: Path) -> None:
    replies: list[Callable[[bytes], list[bytes]]] = [
        lambda _: [],
        lambda request: [honest(request, sequence=60_000)] * 300,
    ]
    for number, reply in enumerate(replies):
        path = tmp_path / str(number)
        with FakeDaemon(path, reply), PtpClient(str(path), timeout_s=0.05) as client:
            with pytest.raises(PtpError) as caught:
                client.status()
            assert caught.value.code == "ptp-silent"


def test_a_delay_counts_for_w_sync_only_while_syncs_come_in(tmp_path: Path) -> None:
    syncs = iter([5, 5, 5, 6])

    def reply(request: bytes) -> list[bytes]:
        data = bytearray(honest(request))
        if int.from_bytes(request[52:54], "big") == ManagementId.TIME_STATUS_NP:
            data[62:70] = next(syncs).to_bytes(8, "big")
        return [bytes(data)]

    with FakeDaemon(tmp_path / "d", reply), PtpWatch(str(tmp_path / "d"), POLICY, interval_s=3_600.0) as watch:
        seen = [watch.path_rtt.w_sync_ns(time.monotonic_ns())]
        for _ in range(3):
            watch._poll()
            seen.append(watch.path_rtt.w_sync_ns(time.monotonic_ns()))
    assert seen == [None, None, None, 3 * 2 * 2_000]


def test_too_many_ports_are_refused(tmp_path: Path) -> None:
    def reply(request: bytes) -> list[bytes]:
        data = bytearray(honest(request))
        data[56:58] = (65).to_bytes(2, "big")
        return [bytes(data)]

    with FakeDaemon(tmp_path / "d", reply), PtpClient(str(tmp_path / "d")) as client:
        with pytest.raises(PtpError) as caught:
            client.status()
        assert caught.value.code == "ptp-value"


def test_no_daemon_is_an_error_for_the_client_and_a_quality_for_the_watch(tmp_path: Path) -> None:
    with pytest.raises(PtpError) as caught:
        PtpClient(str(tmp_path / "none"))
    assert caught.value.code == "ptp-unreachable"
    with pytest.raises(PtpError) as caught:
        PtpClient(str(tmp_path / "none"), folder=tmp_path / "nowhere")
    assert caught.value.code == "ptp-unreachable"
    with PtpWatch(str(tmp_path / "none"), POLICY) as watch:
        assert watch.quality().reason.startswith("ptp-unreachable")
        assert watch.quality().kind < TimeQualityKind.PTP_SW


def test_a_watch_that_has_stopped_looking_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = PtpWatch(str(tmp_path / "none"), POLICY)
    watch.close()
    watch.close()
    later = time.monotonic_ns() + 60 * 10**9
    monkeypatch.setattr("fieldbus.clock.watch.time.monotonic_ns", lambda: later)
    assert watch.quality().reason.startswith("ptp-watch")
    assert watch.quality().kind is TimeQualityKind.FREE


def test_an_interface_without_a_clock_has_none() -> None:
    assert phc_module.phc_index("lo") is None
    assert phc_module.phc_index("nosuch0") is None
    assert phc_module.apart_ns(4_000, tai_offset_s=0) is None


def test_the_cards_clock_is_compared_as_tai(monkeypatch: pytest.MonkeyPatch) -> None:
    """No card here: a clock 37 s ahead stands for one, read through the same calls."""
    monkeypatch.setattr("fieldbus.clock.phc.os.open", lambda *_: 5)
    monkeypatch.setattr("fieldbus.clock.phc.os.close", lambda _: None)
    real = time.time_ns
    ids: list[int] = []

    def card(clock: int) -> int:
        ids.append(clock)
        return real() + 37 * 10**9 - 1_000

    monkeypatch.setattr("fieldbus.clock.phc.time.clock_gettime_ns", card)
    apart = phc_module.apart_ns(0, tai_offset_s=37)
    assert apart is not None
    assert abs(apart) < 10**8
    assert set(ids) == {((~5) << 3) | 3}
