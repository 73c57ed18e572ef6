"""A deployment that demands PTP: cycles while it is locked or carried on, none once it is free."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldbus.clock import Hold, PtpWatch, TimeQualityKind
from fieldbus.net import ReceivedFrame
from fieldbus.uadp import LayoutWriter
from sitsedge.config import Deployment, load_deployment
from sitsedge.config.deployment import Ptp, Timing
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.ingest import Ingest, layout_of, watch_of
from tests.support.ptp import PtpPair

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rolling-mill" / "deployment.yaml"
WAIT_S = 30.0


def deployment(ptp: Ptp, *, quality: str = "ptp-sw") -> Deployment:
    loaded = load_deployment(EXAMPLE)
    timing = Timing(
        source_age_ms_max=1_000.0,
        decision_age_ms_max=1_000.0,
        future_ms_max=10.0,
        time_quality_min=quality,  # type: ignore[arg-type]
        ptp=ptp,
    )
    return loaded.model_copy(update={"timing": timing})


def settings(path: str, *, w_sync_ms_max: float | None = None) -> Ptp:
    return Ptp(
        socket=path,
        error_us_max=5_000.0,
        holdover_s_max=1.0,
        sync_silence_s_max=0.5,
        free_running=True,
        w_sync_ms_max=w_sync_ms_max,
    )


class Rig:
    def __init__(self, made: Deployment, watch: PtpWatch) -> None:
        self.watch = watch
        self.ingest = Ingest(made, watch)
        self.writer = LayoutWriter(layout_of(made))
        self.zeros = (0.0,) * len(made.field_names)

    def cycle(self) -> str:
        """A fresh frame through the loop's checks: ``ok`` or the code it was refused with."""
        self.ingest.refresh_quality()
        now = time.time_ns()
        frame = ReceivedFrame(
            self.writer.write(t_source_ns=now, values=self.zeros, status=0), now, "kernel", 0, ("", 0)
        )
        try:
            self.ingest.check_clock(self.ingest.decode(frame), frame)
        except CycleRefused as refused:
            return refused.code
        return "ok"

    def until(self, code: str) -> None:
        deadline, turn = time.monotonic() + WAIT_S, threading.Event()
        while self.cycle() != code:
            assert time.monotonic() < deadline, self.ingest.measures()
            turn.wait(0.02)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PtpPair]:
    with PtpPair(tmp_path) as started:
        yield started


def test_a_deployment_that_demands_ptp_stops_within_its_limit_after_the_grandmaster_is_gone(pair: PtpPair) -> None:
    made = deployment(settings(pair.follower_socket))
    watch = watch_of(made)
    assert watch is not None
    with watch:
        rig = Rig(made, watch)
        assert rig.cycle() == "time-quality"  # not locked yet
        rig.until("ok")
        assert rig.ingest.quality is TimeQualityKind.PTP_SW
        pair.kill_grandmaster()
        held, seen = time.monotonic(), set()
        while (code := rig.cycle()) == "ok":
            seen.add(rig.ingest.clock.hold)
            assert time.monotonic() - held < WAIT_S
            threading.Event().wait(0.02)
        assert code == "time-quality"
        assert seen == {Hold.LOCKED, Hold.HOLDOVER}
        data = rig.ingest.measures()
        assert data["clock"]["reason"].startswith("ptp-")  # type: ignore[index]
        # The limit itself: the bound of the holdover, counted from the last Sync, had run out and not much earlier.
        assert time.monotonic() - held > 1.0 - 0.5


def test_w_sync_above_the_limit_or_unknown_lets_no_frame_through(tmp_path: Path) -> None:
    made = deployment(settings(str(tmp_path / "none"), w_sync_ms_max=2.0), quality="free")
    watch = watch_of(made)
    assert watch is not None
    with watch:
        rig = Rig(made, watch)
        assert rig.cycle() == "w-sync-empty"
        watch.path_rtt.add(700_000, time.monotonic_ns())
        assert rig.cycle() == "w-sync"
        watch.path_rtt.clear()
        watch.path_rtt.add(600_000, time.monotonic_ns())
        assert rig.cycle() == "ok"
        assert rig.ingest.measures()["w_sync_ns"] == 1_800_000


def test_delta_e_is_taken_of_accepted_and_refused_frames(tmp_path: Path) -> None:
    made = deployment(settings(str(tmp_path / "none")), quality="free")
    watch = watch_of(made)
    assert watch is not None
    with watch:
        rig = Rig(made, watch)
        assert rig.cycle() == "ok"
        with pytest.raises(CycleRefused):
            rig.ingest.decode(ReceivedFrame(b"\0", time.time_ns(), "kernel", 0, ("", 0)))
        assert rig.ingest.delta_e.figures().count == 2


def test_a_quality_of_ptp_without_a_way_to_ask_is_a_fault() -> None:
    with pytest.raises(ValueError, match="nothing else can show it"):
        Timing(source_age_ms_max=1.0, decision_age_ms_max=1.0, future_ms_max=1.0, time_quality_min="ptp-hw")
