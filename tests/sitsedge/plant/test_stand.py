"""The stand: gauge-meter equation, determinism, limits of the actuators, delay of the gauge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import LayoutWriter
from sitsedge.plant.force import flattened_radius_mm
from sitsedge.plant.parameters import STEP_NS, STEP_S, MillParameters
from sitsedge.plant.signals import dataset_layout
from sitsedge.plant.stand import MillStand, lock_on
from sitsedge.plant.teacher import Teacher

QUIET = replace(
    MillParameters(),
    entry_sigma_mm=1e-12, wedge_mm=0.0, skid_c=0.0, temperature_sigma_c=1e-12, eccentricity_mm=0.0, drift_mm=0.0,
    speed_sigma=1e-12, entry_noise_mm=0.0, exit_noise_mm=0.0, force_noise_mn=0.0, gap_noise_mm=0.0,
    pyrometer_noise_c=0.0, speed_noise_m_s=0.0, tension_noise_kn=0.0, monitor_reset_s=1e9,
)  # fmt: skip
Commands = list[tuple[float, float]]


def datagrams(seed: int, commands: Commands) -> bytes:
    """Every frame of a run in which each command holds for 10 ms."""
    stand, writer = MillStand(seed), LayoutWriter(dataset_layout())
    out = bytearray()
    for gap, trim in commands:
        for _ in range(10):
            stand.step(gap, trim)
        out += writer.write(t_source_ns=10**18 + stand.steps * STEP_NS, values=stand.measured())
    return bytes(out)


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.floats(-0.4, 0.4), st.floats(-1, 1)), min_size=1, max_size=40),
)
def test_same_seed_and_commands_give_the_same_bytes(seed: int, commands: Commands) -> None:
    assert datagrams(seed, commands) == datagrams(seed, commands)


def test_another_seed_or_command_gives_other_bytes() -> None:
    commands = [(0.05, 0.1)] * 30
    base = datagrams(1, commands)
    assert base != datagrams(2, commands)
    assert base != datagrams(1, [*commands[:10], (0.06, 0.1), *commands[11:]])


def test_lock_on_solves_the_gauge_meter_equation() -> None:
    p = MillParameters()
    steady = lock_on(p)
    assert p.exit_mm == pytest.approx(steady.gap_mm + steady.force_mn / p.modulus_mn_mm)
    assert 5.0 < steady.force_mn < 20.0
    assert steady.entry_speed_m_s * p.entry_mm == pytest.approx(steady.exit_speed_m_s * p.exit_mm)


def test_gauge_meter_equation_holds_every_step() -> None:
    stand = MillStand(3)
    for k in range(3000):
        stand.step(0.2 if k // 500 % 2 else -0.2, 0.5 if k // 700 % 2 else -0.5)
        open_mm = stand.gap_mm + stand.surface_mm
        residual = stand.exit_mm - open_mm - stand.force_mn / stand.parameters.modulus_mn_mm
        assert abs(residual) < 1e-6
        flat = flattened_radius_mm(
            radius_mm=stand.parameters.work_roll_radius_mm,
            force_mn=stand.force_mn,
            width_mm=stand.parameters.width_mm,
            draught_mm=stand.entry_mm - stand.exit_mm,
        )
        assert stand.flat_radius_mm == pytest.approx(flat, abs=1e-2)  # Hitchcock's radius belongs to this force


def test_without_disturbances_nothing_moves() -> None:
    stand = MillStand(1, QUIET)
    for _ in range(2000):
        stand.step(0.0, 0.0)
    assert abs(stand.exit_thickness_dev) < 1e-6
    assert all(abs(value) < 1e-5 for value in stand.measured())


def test_gap_moves_thickness_by_the_mill_and_strip_stiffness() -> None:
    stand = MillStand(1, QUIET)
    for _ in range(3000):
        stand.step(0.03, 0.0)
    # The looper turns thicker exit into more tension, less force and a little less thickness.
    assert stand.exit_thickness_dev == pytest.approx(0.03 / stand.correction_gain, rel=0.05)


def test_speed_trim_moves_the_entry_tension() -> None:
    stand = MillStand(1, QUIET)
    for _ in range(400):
        stand.step(0.0, 0.5)
    assert stand.measured().entry_tension_dev > 1.0


def test_gap_actuator_keeps_rate_and_stroke() -> None:
    stand = MillStand(1, QUIET)
    before, fastest = stand.gap_mm, 0.0
    for _ in range(1500):
        stand.step(50.0, 0.0)
        fastest = max(fastest, abs(stand.gap_mm - before) / STEP_S)
        before = stand.gap_mm
    assert fastest == pytest.approx(QUIET.gap_rate_mm_s, rel=1e-6)
    assert stand.gap_mm == pytest.approx(stand.lock_on.gap_mm + QUIET.gap_stroke_mm, abs=1e-6)


def test_exit_gauge_sees_the_bite_after_the_strip_has_travelled() -> None:
    stand = MillStand(1, replace(QUIET, gauge_tau_s=1e-6))
    delay_s = QUIET.exit_gauge_m / stand.lock_on.exit_speed_m_s
    true_mm, seen_mm = [], []
    for _ in range(800):
        stand.step(0.1, 0.0)
        true_mm.append(stand.exit_thickness_dev)
        seen_mm.append(stand.measured().exit_thickness_dev)
    shift = round(delay_s / STEP_S)
    assert shift > 200
    for k in range(shift + 5, 800, 37):
        assert seen_mm[k] == pytest.approx(true_mm[k - shift], abs=1e-3)
    assert abs(seen_mm[shift // 2]) < 1e-3
    assert true_mm[shift // 2] > 0.02


def test_tracked_entry_signals_lead_the_bite() -> None:
    p = replace(QUIET, entry_sigma_mm=0.02, gauge_tau_s=1e-6)
    stand = MillStand(4, p)
    seen, bite = [], []
    for _ in range(1500):
        stand.step(0.0, 0.0)
        seen.append(stand.measured().entry_thickness_dev)
        bite.append(stand.entry_mm - p.entry_mm)
    lead = round(p.tracking_lead_s / STEP_S)
    for k in range(100, 1400, 61):
        assert seen[k] == pytest.approx(bite[k + lead], abs=1e-3)


def test_the_teacher_alone_makes_almost_perfect_strip() -> None:
    stand, teacher = MillStand(5), Teacher(ahead_s=0.020)
    worst = 0.0
    for k in range(6000):
        stand.step(*teacher(stand))
        if k > 1000:
            worst = max(worst, abs(stand.exit_thickness_dev))
    assert worst < 0.008
