"""Noise has the strength it says, and the strip carries values exactly as far as it moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.plant.disturbance import RING, ColouredNoise, Normal, Sensor, TransportLine


def seed(number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


def test_coloured_noise_has_its_sigma() -> None:
    noise = ColouredNoise(seed(1), sigma=2.0, tau_s=0.02, smooth_s=0.005, step_s=0.001)
    values = np.array([noise.step() for _ in range(200_000)])
    assert np.std(values) == pytest.approx(2.0, rel=0.03)
    assert np.mean(values) == pytest.approx(0.0, abs=0.1)


def test_coloured_noise_is_smooth() -> None:
    noise = ColouredNoise(seed(2), sigma=1.0, tau_s=0.25, smooth_s=0.02, step_s=0.001)
    values = np.array([noise.step() for _ in range(20_000)])
    assert np.std(np.diff(values)) < 0.03 * np.std(values)


def test_sensor_noise_is_that_of_the_filtered_value() -> None:
    sensor = Sensor(seed(3), sigma=0.5, tau_s=0.01, step_s=0.001)
    values = np.array([sensor.step(0.0) for _ in range(100_000)])
    assert np.std(values) == pytest.approx(0.5, rel=0.03)


def test_sensor_settles_on_the_truth() -> None:
    sensor = Sensor(seed(3), sigma=0.0, tau_s=0.01, step_s=0.001)
    for _ in range(200):
        sensor.step(7.0)
    assert sensor.value == pytest.approx(7.0, abs=1e-6)


def test_streams_repeat_and_differ() -> None:
    a, b, other = Normal(seed(4)), Normal(seed(4)), Normal(seed(5))
    first = [a.draw() for _ in range(5000)]
    assert first == [b.draw() for _ in range(5000)]
    assert first != [other.draw() for _ in range(5000)]


@given(
    st.lists(st.floats(0.001, 0.02), min_size=50, max_size=400),
    st.floats(0.0, 0.3),
)
def test_transport_reads_what_was_pushed_that_far_back(travels: list[float], distance: float) -> None:
    line = TransportLine(width=1, readers=1)
    position = 0.0
    for travel in travels:
        position += travel
        line.push(travel, (3.0 * position,))  # the value says where it was pushed: linear, so exact between steps
        got = line.read(0, distance, 0)
        first = 3.0 * travels[0]
        assert got == pytest.approx(max(3.0 * (position - distance), first), abs=1e-9)


def test_transport_reader_may_go_back() -> None:
    line = TransportLine(width=1, readers=1)
    for k in range(100):
        line.push(0.01, (float(k),))
    near = line.read(0, 0.1, 0)
    far = line.read(0, 0.5, 0)
    assert (near, far) == (pytest.approx(89.0), pytest.approx(49.0))
    assert line.read(0, 0.1, 0) == pytest.approx(89.0)


def test_transport_forgets_beyond_its_ring() -> None:
    line = TransportLine(width=1, readers=1)
    for k in range(RING + 500):
        line.push(0.01, (float(k),))
    assert line.read(0, 1e6, 0) == 500.0
