"""Roll force: the closed form against the theory it integrates, and the signs every mill engineer expects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.plant.force import (
    Bite,
    Steel,
    flattened_radius_mm,
    flow_stress_mpa,
    forward_slip,
    geometry_factor,
    roll_force_mn,
)

ENTRY = st.floats(2.0, 30.0)
REDUCTION = st.floats(0.05, 0.45)
RADIUS = st.floats(250.0, 600.0)
STEEL = Steel(0.08)


def sims_by_quadrature(entry: float, exit_: float, radius: float) -> float:
    """Mean of Sims' specific pressure over the arc of contact, in units of the yield stress."""
    arc = math.sqrt((entry - exit_) / radius)
    angle = np.linspace(0.0, arc, 40_001)
    slender = math.sqrt(radius / exit_)
    height = exit_ + radius * angle**2
    from_exit = np.pi / 4 * np.log(height / exit_) + np.pi / 4 + slender * np.arctan(slender * angle)
    from_entry = (
        np.pi / 4 * np.log(height / entry)
        + np.pi / 4
        + slender * np.arctan(slender * arc)
        - slender * np.arctan(slender * angle)
    )
    pressure = np.minimum(from_exit, from_entry)
    return float(radius * np.trapezoid(pressure, angle) / math.sqrt(radius * (entry - exit_)))


@given(ENTRY, REDUCTION, RADIUS)
def test_geometry_factor_is_the_integral_of_sims_pressure(entry: float, reduction: float, radius: float) -> None:
    exit_ = entry * (1 - reduction)
    closed = geometry_factor(entry_mm=entry, exit_mm=exit_, radius_mm=radius)
    assert closed == pytest.approx(sims_by_quadrature(entry, exit_, radius), rel=2e-6)


@given(ENTRY, REDUCTION, RADIUS)
def test_forward_slip_is_where_both_pressures_meet(entry: float, reduction: float, radius: float) -> None:
    exit_ = entry * (1 - reduction)
    slip = forward_slip(entry_mm=entry, exit_mm=exit_, flat_radius_mm=radius)
    angle = math.sqrt(slip * exit_ / radius)
    slender, arc = math.sqrt(radius / exit_), math.sqrt((entry - exit_) / radius)
    assert 0 < angle < arc
    from_exit = math.pi / 4 * math.log(entry / exit_) + 2 * slender * math.atan(slender * angle)
    assert from_exit == pytest.approx(slender * math.atan(slender * arc), rel=1e-9)


def test_flow_stress_by_hand() -> None:
    # 0.08 % C: ln factor 0.126 - 0.14 + 0.0038016, activation 2851 + 237.44 - 7.168 K, at 1200 K
    exponent = -0.0101984 + 3081.272 / 1200.0
    expected = 9.80665 * math.exp(exponent) * 0.3**0.21 * 100.0**0.13
    assert flow_stress_mpa(STEEL, temperature_c=926.85, strain=0.3, strain_rate_s=100.0) == pytest.approx(expected)


@given(st.floats(800, 1150), st.floats(0.1, 0.5), st.floats(30, 190))
def test_flow_stress_falls_with_heat_and_rises_with_strain_and_rate(heat: float, strain: float, rate: float) -> None:
    base = flow_stress_mpa(STEEL, temperature_c=heat, strain=strain, strain_rate_s=rate)
    assert flow_stress_mpa(STEEL, temperature_c=heat + 10, strain=strain, strain_rate_s=rate) < base
    assert flow_stress_mpa(STEEL, temperature_c=heat, strain=strain * 1.1, strain_rate_s=rate) > base
    assert flow_stress_mpa(STEEL, temperature_c=heat, strain=strain, strain_rate_s=rate * 1.1) > base
    assert 40 < base < 400


def bite(**changes: float) -> Bite:
    values = {"entry_mm": 5.2, "temperature_c": 940.0, "roll_speed_m_s": 7.5,
              "entry_tension_mpa": 10.0, "exit_tension_mpa": 10.0}  # fmt: skip
    return Bite(**{**values, **changes})


def force(exit_mm: float = 4.0, **changes: float) -> float:
    return roll_force_mn(STEEL, bite(**changes), exit_mm=exit_mm, flat_radius_mm=400.0, width_mm=1200.0)


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({"entry_mm": 5.3}, 1),
        ({"temperature_c": 960.0}, -1),
        ({"roll_speed_m_s": 8.0}, 1),
        ({"entry_tension_mpa": 20.0}, -1),
        ({"exit_tension_mpa": 20.0}, -1),
        ({"exit_mm": 4.1}, -1),
    ],
)
def test_force_moves_the_right_way(change: dict[str, float], sign: int) -> None:
    assert (force(**change) - force()) * sign > 0


def test_back_tension_weighs_more_than_front_tension() -> None:
    assert force(entry_tension_mpa=20.0) < force(exit_tension_mpa=20.0)


def test_no_bite_gives_no_force() -> None:
    assert force(exit_mm=5.2) == 0.0
    assert force(exit_mm=6.0) == 0.0


def test_flattening_grows_with_force_and_shrinks_with_draught() -> None:
    def flat(force_mn: float, draught: float) -> float:
        return flattened_radius_mm(radius_mm=350.0, force_mn=force_mn, width_mm=1200.0, draught_mm=draught)

    assert flat(0.0, 1.0) == 350.0
    assert flat(10.0, 1.0) > flat(5.0, 1.0) > 350.0
    assert flat(10.0, 2.0) < flat(10.0, 1.0)
    # Hitchcock's constant for steel, 2.2e-5 mm2/N to two digits
    assert flat(12.0, 1.0) == pytest.approx(350.0 * (1 + 2.25e-5 * 1e4), rel=2e-3)
