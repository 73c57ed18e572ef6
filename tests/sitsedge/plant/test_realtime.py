"""The real-time part, driven by hand: what is published when, with which time, and what is recorded."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from fieldbus.net.errors import NetError
from fieldbus.uadp import DataSetSample, LayoutReader
from sitsedge.plant.arbiter import BlockMode, RequestImage
from sitsedge.plant.errors import PlantError
from sitsedge.plant.realtime import RealtimePlant
from sitsedge.plant.record import COLUMNS, PlantRecord, load_record
from sitsedge.plant.signals import dataset_layout
from sitsedge.plant.simulate import PlantCell, simulate


class Rig:
    """A plant whose datagrams land in a list."""

    def __init__(self, hz: int = 100, seed: int = 1) -> None:
        self.sent: list[bytes] = []
        self.changes = 0
        self.plant = RealtimePlant(
            PlantCell(seed), layout=dataset_layout(), publish_hz=hz, send=self.sent.append,
            record=PlantRecord(rows_max=500), on_change=self._changed,
        )  # fmt: skip

    def _changed(self) -> None:
        self.changes += 1

    def run(self, steps: int, age_ns: int = 0) -> None:
        for _ in range(steps):
            self.plant.advance(age_ns=age_ns)

    def samples(self) -> list[DataSetSample]:
        reader = LayoutReader(dataset_layout())
        return [reader.read(data) for data in self.sent]


@pytest.mark.parametrize(("hz", "frames"), [(100, 20), (1000, 200), (50, 10)])
def test_publishes_at_its_rate(hz: int, frames: int) -> None:
    rig = Rig(hz)
    rig.run(200)
    samples = rig.samples()
    assert len(samples) == frames
    assert [sample.sequence for sample in samples] == list(range(frames))


def test_live_plant_is_the_simulated_plant() -> None:
    rig = Rig(seed=9)
    rig.run(2000)
    trace = simulate(None, 2.0, 9)
    assert np.array([sample.values for sample in rig.samples()]).tobytes() == trace.measured.tobytes()


def test_source_time_is_when_the_state_was_due_not_when_it_was_sent() -> None:
    rig = Rig()
    before = time.time_ns()
    rig.run(1, age_ns=5_000_000)
    after = time.time_ns()
    (sample,) = rig.samples()
    assert before - 5_000_000 - 100 <= sample.t_source_ns <= after - 5_000_000


def test_overdue_cycle_is_recorded_but_not_published() -> None:
    rig = Rig()
    rig.run(1, age_ns=10_000_000)
    assert rig.sent == []
    assert (rig.plant.counters.skipped, rig.plant.record.count) == (1, 1)


def test_send_failure_is_counted_and_the_plant_goes_on() -> None:
    rig = Rig()

    def fail(_: bytes) -> None:
        raise NetError("send-buffer-full", found="a full buffer", expected="room")

    rig.plant._send = fail
    rig.run(30)
    assert (rig.plant.counters.send_errors, rig.plant.counters.published) == (3, 0)
    assert rig.plant.counters.steps == 30


def test_request_is_taken_within_one_scan_and_announced_once() -> None:
    rig = Rig()
    rig.run(4)
    rig.plant.request = RequestImage(0.01, 0.0, 1, 1, auto_request=True)
    rig.run(2)
    assert rig.plant.applied.gap_correction_mm == 0.01
    assert (rig.plant.applied.sequence, rig.plant.applied.mode) == (1, BlockMode.AUTO)
    assert rig.changes == 1
    rig.run(20)
    assert rig.changes == 1


def test_thread_runs_and_stops() -> None:
    rig = Rig(1000)
    rig.plant.start()
    while not rig.sent:  # the thread publishes its first step at once; the test's timeout bounds this
        assert rig.plant.alive
    rig.plant.stop()
    assert not rig.plant.alive
    assert rig.plant.failure is None


def test_record_keeps_the_newest_rows() -> None:
    rig = Rig(1000)
    rig.run(800)
    rows = rig.plant.record.newest(1000)
    assert rows.shape == (500, len(COLUMNS))
    assert rows[0, 0] == pytest.approx(0.301)
    assert rows[-1, 0] == pytest.approx(0.800)
    assert rig.plant.record.thickness_std_mm(100) == pytest.approx(np.std(rows[-100:, 1]))


def test_record_without_rows_has_no_deviation() -> None:
    assert PlantRecord(10).thickness_std_mm(10) is None


@pytest.mark.parametrize("name", ["plant.npz", "plant.csv"])
def test_record_round_trip(tmp_path: Path, name: str) -> None:
    rig = Rig()
    rig.run(300)
    rig.plant.record.save(tmp_path / name)
    loaded = load_record(tmp_path / name)
    assert tuple(loaded) == COLUMNS
    rows = rig.plant.record.newest(100)
    for column, values in zip(loaded.values(), rows.T, strict=True):
        np.testing.assert_allclose(column, values, rtol=1e-8, atol=1e-12)


def test_record_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(PlantError) as caught:
        PlantRecord(4).save(tmp_path / "absent" / "plant.npz")
    assert caught.value.code == "record-write"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"a,b\n1,x\n"])
@pytest.mark.parametrize("name", ["plant.npz", "plant.csv"])
def test_record_that_is_none(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlantError) as caught:
        load_record(tmp_path / name)
    assert caught.value.code == "record-read"
