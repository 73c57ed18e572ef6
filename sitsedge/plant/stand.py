"""One mill stand, advanced in fixed steps of 1 ms: disturbances, actuators, roll bite, tension, sensors.

The exit thickness solves the gauge-meter equation ``h = S + e + F(h)/M`` (BISRA; W. C. F. Hessenberg, R. B. Sims,
Proc. Inst. Mech. Eng. 166 (1952) 75-90): ``S`` gap, ``e`` eccentricity and drift of the roll surfaces, ``F``
roll force, ``M`` mill modulus. Same seed and same corrections in the same steps give the same floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sitsedge.plant.disturbance import ColouredNoise, Sensor, TransportLine
from sitsedge.plant.force import Bite, Steel, flattened_radius_mm, forward_slip, roll_force_mn
from sitsedge.plant.parameters import STEP_S, MillParameters

SOLVE_ROUNDS = 4  # each round shrinks the error about tenfold; at the gap's fastest move this leaves below 1e-6 mm
LOCK_ON_ROUNDS = 60
_BITE, _TRACKED = 0, 1
_ENTRY, _TEMPERATURE, _ENTRY_SEEN, _TEMPERATURE_SEEN = 0, 1, 2, 3


class Measured(NamedTuple):
    """What the PLC publishes: deviations from lock-on, in the DataSet's order."""

    entry_thickness_dev: float
    exit_thickness_dev: float
    roll_force_dev: float
    gap_position_dev: float
    entry_temperature_dev: float
    strip_speed_dev: float
    entry_tension_dev: float
    last_gap_correction: float


@dataclass(frozen=True, slots=True)
class LockOn:
    """Steady state without disturbances, from which all deviations count."""

    force_mn: float
    gap_mm: float
    flat_radius_mm: float
    slope_mn_mm: float  # -dF/dh with the flattening in it: the strip's plastic stiffness Q
    flattening_share: float  # dF/dF through the flattened radius: how fast Hitchcock's iteration converges
    exit_speed_m_s: float
    entry_speed_m_s: float
    entry_tension_kn: float


def lock_on(p: MillParameters) -> LockOn:
    """Solve the pass schedule for force, gap and plastic stiffness."""
    steel = Steel(p.carbon_percent)
    bite = Bite(p.entry_mm, p.temperature_c, p.roll_speed_m_s, p.entry_tension_mpa, p.exit_tension_mpa)

    def radius_from(exit_mm: float, force_mn: float) -> float:
        return flattened_radius_mm(
            radius_mm=p.work_roll_radius_mm,
            force_mn=force_mn,
            width_mm=p.width_mm,
            draught_mm=p.entry_mm - exit_mm,
        )

    def force_from(exit_mm: float, force_mn: float) -> float:
        radius = radius_from(exit_mm, force_mn)
        return roll_force_mn(steel, bite, exit_mm=exit_mm, flat_radius_mm=radius, width_mm=p.width_mm)

    def force_at(exit_mm: float) -> tuple[float, float]:
        force = 10.0
        for _ in range(LOCK_ON_ROUNDS):
            force = force_from(exit_mm, force)
        return force, radius_from(exit_mm, force)

    force, radius = force_at(p.exit_mm)
    width = 0.01
    share = (force_from(p.exit_mm, force + width) - force_from(p.exit_mm, force - width)) / (2.0 * width)
    slope = (force_at(p.exit_mm - width)[0] - force_at(p.exit_mm + width)[0]) / (2.0 * width)
    slip = forward_slip(entry_mm=p.entry_mm, exit_mm=p.exit_mm, flat_radius_mm=radius)
    exit_speed = p.roll_speed_m_s * (1.0 + slip)
    return LockOn(
        force_mn=force,
        gap_mm=p.exit_mm - force / p.modulus_mn_mm,
        flat_radius_mm=radius,
        slope_mn_mm=slope,
        flattening_share=share,
        exit_speed_m_s=exit_speed,
        entry_speed_m_s=exit_speed * p.exit_mm / p.entry_mm,
        entry_tension_kn=p.entry_tension_mpa * p.entry_mm * p.width_mm * 1e-3,
    )


class MillStand:
    """The simulated stand. ``step`` moves it on by 1 ms; ``measured`` is the PLC's input image."""

    def __init__(self, seed: int, parameters: MillParameters | None = None) -> None:
        p = parameters or MillParameters()
        self.parameters = p
        self.lock_on = lock_on(p)
        self._steel = Steel(p.carbon_percent)
        streams = iter(np.random.SeedSequence(seed).spawn(16))
        self._entry_noise = ColouredNoise(next(streams), sigma=p.entry_sigma_mm, tau_s=p.entry_tau_s,
                                          smooth_s=0.02, step_s=STEP_S)  # fmt: skip
        self._heat_noise = ColouredNoise(next(streams), sigma=p.temperature_sigma_c, tau_s=p.temperature_tau_s,
                                         smooth_s=0.05, step_s=STEP_S)  # fmt: skip
        self._feed_noise = ColouredNoise(next(streams), sigma=p.speed_sigma, tau_s=p.speed_tau_s,
                                         smooth_s=0.05, step_s=STEP_S)  # fmt: skip
        phases = np.random.Generator(np.random.PCG64(next(streams))).uniform(0.0, 2.0 * math.pi, 4).tolist()
        self._skid_phase, self._wedge_phase, self._roll_phase, self._drift_phase = phases

        def sensor(sigma: float, tau_s: float) -> Sensor:
            return Sensor(next(streams), sigma=sigma, tau_s=tau_s, step_s=STEP_S)

        self._entry_sensor = sensor(p.entry_noise_mm, p.gauge_tau_s)
        self._exit_sensor = sensor(p.exit_noise_mm, p.gauge_tau_s)
        self._force_sensor = sensor(p.force_noise_mn, p.force_tau_s)
        self._gap_sensor = sensor(p.gap_noise_mm, p.gap_tau_s)
        self._pyrometer = sensor(p.pyrometer_noise_c, p.pyrometer_tau_s)
        self._speed_sensor = sensor(p.speed_noise_m_s, p.speed_tau_sensor_s)
        self._tension_sensor = sensor(p.tension_noise_kn, p.tension_tau_s)
        self._entry_line = TransportLine(width=4, readers=2)
        self._exit_line = TransportLine(width=1, readers=1)

        self.steps = 0
        self.exit_mm = p.exit_mm
        self.force_mn = self.lock_on.force_mn
        self.flat_radius_mm = self.lock_on.flat_radius_mm
        self.gap_mm = self.lock_on.gap_mm
        self._gap_speed = 0.0
        self.roll_speed_m_s = p.roll_speed_m_s
        self.exit_speed_m_s = self.lock_on.exit_speed_m_s
        self.entry_speed_m_s = self.lock_on.entry_speed_m_s
        self.entry_tension_kn = self.lock_on.entry_tension_kn
        self.feed_speed_m_s = self.entry_speed_m_s  # what the previous stand delivers
        self._looper_reset_m_s = 0.0
        self.monitor_mm = 0.0
        self._correction_mm = 0.0
        self.entry_mm = p.entry_mm
        self.temperature_c = p.temperature_c
        self.surface_mm = 0.0
        self._fill_line()

    @property
    def exit_thickness_dev(self) -> float:
        """True exit thickness in the bite minus nominal, mm."""
        return self.exit_mm - self.parameters.exit_mm

    @property
    def correction_gain(self) -> float:
        """How much gap (mm) it takes to move the exit thickness by 1 mm: (M + Q) / M."""
        return 1.0 + self.lock_on.slope_mn_mm / self.parameters.modulus_mn_mm

    def step(self, gap_correction_mm: float, speed_trim_percent: float) -> None:
        """Advance 1 ms with the PLC's applied corrections."""
        self._correction_mm = gap_correction_mm
        self._strip()
        self._actuators(gap_correction_mm, speed_trim_percent)
        self._roll_bite()
        self._tension()
        self._sensors()
        self._monitor()
        self.steps += 1

    def measured(self) -> Measured:
        """The input image of the last step."""
        line, p = self._entry_line, self.parameters
        ahead_m = p.entry_gauge_m - p.tracking_lead_s * self.entry_speed_m_s
        return Measured(
            line.read(_TRACKED, ahead_m, _ENTRY_SEEN),
            self._exit_sensor.value,
            self._force_sensor.value,
            self._gap_sensor.value,
            line.read(_TRACKED, ahead_m, _TEMPERATURE_SEEN),
            self._speed_sensor.value,
            self._tension_sensor.value,
            self._correction_mm,
        )

    def coming(self, ahead_s: float) -> tuple[float, float, float]:
        """True entry deviation (mm), temperature deviation (°C) and roll surface (mm) in the bite after ``ahead_s``.

        Knowledge no sensor has, for the teacher that trains the network.
        """
        line, p = self._entry_line, self.parameters
        ahead_m = p.entry_gauge_m - ahead_s * self.entry_speed_m_s
        turn = self._roll_phase + ahead_s * self.roll_speed_m_s * 1000.0 / p.backup_roll_radius_mm
        drift = self.surface_mm - p.eccentricity_mm * math.sin(self._roll_phase)
        return (
            line.read(_TRACKED, ahead_m, _ENTRY),
            line.read(_TRACKED, ahead_m, _TEMPERATURE),
            drift + p.eccentricity_mm * math.sin(turn),
        )

    def _fill_line(self) -> None:
        """Let strip run from the entry gauge to the bite before the first step, so that no edge enters it."""
        travel = self.entry_speed_m_s * STEP_S
        for _ in range(int(1.2 * self.parameters.entry_gauge_m / travel)):
            self._push_strip(travel)

    def _push_strip(self, travel_m: float) -> None:
        p = self.parameters
        self._skid_phase += 2.0 * math.pi * travel_m / p.skid_pitch_m
        self._wedge_phase += 2.0 * math.pi * travel_m / p.wedge_length_m
        # asin(sin) is a triangle: a wedge rising over one half of the length and falling over the other
        wedge = p.wedge_mm * math.asin(math.sin(self._wedge_phase)) * (2.0 / math.pi)
        entry = wedge + self._entry_noise.step()
        skid = p.skid_c * (math.sin(self._skid_phase) + 0.25 * math.sin(2.0 * self._skid_phase))
        heat = skid + self._heat_noise.step()
        seen = (entry, heat, self._entry_sensor.step(entry), self._pyrometer.step(heat))
        self._entry_line.push(travel_m, seen)

    def _strip(self) -> None:
        p = self.parameters
        self._push_strip(self.entry_speed_m_s * STEP_S)
        self.entry_mm = p.entry_mm + self._entry_line.read(_BITE, p.entry_gauge_m, _ENTRY)
        self.temperature_c = p.temperature_c + self._entry_line.read(_BITE, p.entry_gauge_m, _TEMPERATURE)
        self._roll_phase += self.roll_speed_m_s * STEP_S * 1000.0 / p.backup_roll_radius_mm
        drift = p.drift_mm * math.sin(self._drift_phase + 2.0 * math.pi * self.steps * STEP_S / p.drift_s)
        self.surface_mm = drift + p.eccentricity_mm * math.sin(self._roll_phase)

    def _actuators(self, gap_correction_mm: float, speed_trim_percent: float) -> None:
        p = self.parameters
        low, high = self.lock_on.gap_mm - p.gap_stroke_mm, self.lock_on.gap_mm + p.gap_stroke_mm
        reference = min(max(self.lock_on.gap_mm + self.monitor_mm + gap_correction_mm, low), high)
        w = p.gap_natural_rad_s
        push = w * w * (reference - self.gap_mm) - 2.0 * p.gap_damping * w * self._gap_speed
        speed = self._gap_speed + STEP_S * push
        self._gap_speed = min(max(speed, -p.gap_rate_mm_s), p.gap_rate_mm_s)
        self.gap_mm = min(max(self.gap_mm + STEP_S * self._gap_speed, low), high)
        wanted = p.roll_speed_m_s * (1.0 + 0.01 * speed_trim_percent)
        change = (wanted - self.roll_speed_m_s) / p.drive_tau_s
        change = min(max(change, -p.drive_rate_m_s2), p.drive_rate_m_s2)
        self.roll_speed_m_s += STEP_S * change

    def _roll_bite(self) -> None:
        p = self.parameters
        section_mm2 = self.entry_mm * p.width_mm
        bite = Bite(self.entry_mm, self.temperature_c, self.roll_speed_m_s,
                    self.entry_tension_kn * 1e3 / section_mm2, p.exit_tension_mpa)  # fmt: skip
        open_mm = self.gap_mm + self.surface_mm
        # Quasi-Newton in two unknowns, with the derivatives of lock-on: thickness, and force through the flattening.
        gain, settle = 1.0 / self.correction_gain, 1.0 / (1.0 - self.lock_on.flattening_share)
        exit_mm, force = self.exit_mm, self.force_mn
        for _ in range(SOLVE_ROUNDS):
            draught = max(self.entry_mm - exit_mm, 1e-3)
            self.flat_radius_mm = flattened_radius_mm(
                radius_mm=p.work_roll_radius_mm, force_mn=force, width_mm=p.width_mm, draught_mm=draught
            )
            found = roll_force_mn(
                self._steel, bite, exit_mm=exit_mm, flat_radius_mm=self.flat_radius_mm, width_mm=p.width_mm
            )
            force += settle * (found - force)
            exit_mm -= gain * (exit_mm - open_mm - force / p.modulus_mn_mm)
        self.exit_mm, self.force_mn = exit_mm, force

    def _tension(self) -> None:
        """Mass flow: ``v_entry H = v_exit h``; the looper turns the speed mismatch into tension."""
        p = self.parameters
        slip = forward_slip(entry_mm=self.entry_mm, exit_mm=self.exit_mm, flat_radius_mm=self.flat_radius_mm)
        self.exit_speed_m_s = self.roll_speed_m_s * (1.0 + slip)
        self.entry_speed_m_s = self.exit_speed_m_s * self.exit_mm / self.entry_mm
        previous = self.lock_on.entry_speed_m_s * (1.0 + self._feed_noise.step())
        self.feed_speed_m_s = previous + self._looper_reset_m_s
        mismatch = self.entry_speed_m_s - self.feed_speed_m_s
        deviation = self.entry_tension_kn - self.lock_on.entry_tension_kn
        self._looper_reset_m_s += STEP_S * deviation / (p.looper_kn_per_m_s * p.looper_reset_s)
        change = (p.looper_kn_per_m_s * mismatch - deviation) / p.looper_tau_s
        self.entry_tension_kn = max(self.entry_tension_kn + STEP_S * change, 0.0)

    def _sensors(self) -> None:
        p = self.parameters
        self._exit_line.push(self.exit_speed_m_s * STEP_S, (self.exit_thickness_dev,))
        self._exit_sensor.step(self._exit_line.read(_BITE, p.exit_gauge_m, 0))
        self._force_sensor.step(self.force_mn - self.lock_on.force_mn)
        self._gap_sensor.step(self.gap_mm - self.lock_on.gap_mm)
        self._speed_sensor.step(self.exit_speed_m_s - self.lock_on.exit_speed_m_s)
        self._tension_sensor.step(self.entry_tension_kn - self.lock_on.entry_tension_kn)

    def _monitor(self) -> None:
        """The PLC's own slow correction: integrate the delayed gauge reading against the strip's stiffness."""
        p = self.parameters
        move = -STEP_S / p.monitor_reset_s * self.correction_gain * self._exit_sensor.value
        self.monitor_mm = min(max(self.monitor_mm + move, -p.monitor_limit_mm), p.monitor_limit_mm)
