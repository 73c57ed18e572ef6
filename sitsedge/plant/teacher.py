"""What the network learns from: a controller that knows the strip before it reaches the bite.

It is no controller one could build (no sensor sees the strip's true thickness, temperature and the
roll's eccentricity ahead of time); it exists to label training data.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitsedge.plant.force import Bite, Steel, flattened_radius_mm, forward_slip, roll_force_mn
from sitsedge.plant.signals import OUTPUTS, Signal
from sitsedge.plant.stand import MillStand

FORCE_ROUNDS = 6  # Hitchcock's radius converges by a factor of about 7 a round


@dataclass(frozen=True, slots=True)
class Teacher:
    """Exact gap for the strip that will be in the bite after ``ahead_s``, and a share of the mass-flow correction."""

    ahead_s: float = 0.034  # command path 10 ms, half a hold period 5 ms, gap position loop 18 ms
    mass_flow_share: float = 0.25  # more would disturb the next stand's speed more than it calms the tension

    def __call__(self, stand: MillStand) -> tuple[float, float]:
        """(gap correction in mm, speed trim in %), clipped to the module's limits."""
        entry_dev, heat_dev, surface = stand.coming(self.ahead_s)
        p, steady = stand.parameters, stand.lock_on
        entry_mm = p.entry_mm + entry_dev
        bite = Bite(entry_mm, p.temperature_c + heat_dev, stand.roll_speed_m_s,
                    stand.entry_tension_kn * 1e3 / (entry_mm * p.width_mm), p.exit_tension_mpa)  # fmt: skip
        steel, force, radius = Steel(p.carbon_percent), steady.force_mn, steady.flat_radius_mm
        for _ in range(FORCE_ROUNDS):
            radius = flattened_radius_mm(
                radius_mm=p.work_roll_radius_mm,
                force_mn=force,
                width_mm=p.width_mm,
                draught_mm=entry_mm - p.exit_mm,
            )
            force = roll_force_mn(steel, bite, exit_mm=p.exit_mm, flat_radius_mm=radius, width_mm=p.width_mm)
        gap = p.exit_mm - surface - force / p.modulus_mn_mm
        correction = gap - steady.gap_mm - stand.monitor_mm
        slip = forward_slip(entry_mm=entry_mm, exit_mm=p.exit_mm, flat_radius_mm=radius)
        needed = stand.feed_speed_m_s * entry_mm / (p.exit_mm * (1.0 + slip))
        trim = self.mass_flow_share * 100.0 * (needed / p.roll_speed_m_s - 1.0)
        return (
            _clip(correction, OUTPUTS[0]),
            _clip(trim, OUTPUTS[1]),
        )


def _clip(value: float, signal: Signal) -> float:
    return min(max(value, signal.low), signal.high)
