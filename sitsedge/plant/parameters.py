"""The numbers of the simulated stand: a finishing stand of a hot-strip mill rolling low-carbon strip.

They are ordinary values of the textbooks (V. B. Ginzburg, "Steel-Rolling Technology", 1989; W. L. Roberts, "Hot
Rolling of Steel", 1983), not those of one real mill. Units are in the names.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP_S = 0.001
STEP_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class MillParameters:
    """Pass schedule, mill, actuators, sensors and disturbances of one stand."""

    # pass schedule
    entry_mm: float = 5.2
    exit_mm: float = 4.0
    width_mm: float = 1200.0
    carbon_percent: float = 0.08
    temperature_c: float = 940.0
    roll_speed_m_s: float = 7.5
    entry_tension_mpa: float = 10.0
    exit_tension_mpa: float = 10.0
    # mill
    work_roll_radius_mm: float = 350.0
    backup_roll_radius_mm: float = 750.0
    modulus_mn_mm: float = 5.5
    # hydraulic gap: position loop as a second-order system (about 15 Hz), servo valve and stroke limits
    gap_natural_rad_s: float = 94.0
    gap_damping: float = 0.85
    gap_rate_mm_s: float = 5.0
    gap_stroke_mm: float = 1.0
    # main drive
    drive_tau_s: float = 0.08
    drive_rate_m_s2: float = 1.5
    # looper between the previous stand and this one, holding the entry tension
    looper_kn_per_m_s: float = 120.0
    looper_tau_s: float = 0.15
    looper_reset_s: float = 3.0
    # the PLC's own control: slow monitor on the exit gauge
    monitor_reset_s: float = 3.0
    monitor_limit_mm: float = 0.5
    # places along the strip
    entry_gauge_m: float = 4.5
    exit_gauge_m: float = 2.0
    tracking_lead_s: float = 0.035  # PLC tracking hands over entry values this long before they reach the bite
    # disturbances
    entry_sigma_mm: float = 0.026
    entry_tau_s: float = 0.25
    wedge_mm: float = 0.040
    wedge_length_m: float = 250.0
    skid_c: float = 13.0  # amplitude; peak to trough about 28 °C with the harmonic
    skid_pitch_m: float = 68.0  # 1.6 m between furnace skids times the elongation from a 220 mm slab
    temperature_sigma_c: float = 2.5
    temperature_tau_s: float = 0.8
    eccentricity_mm: float = 0.014
    drift_mm: float = 0.040  # roll crown and bearing film growing and shrinking within `drift_s`
    drift_s: float = 90.0
    speed_sigma: float = 0.003  # relative, of the previous stand
    speed_tau_s: float = 0.6
    # sensors: noise of the filtered value and lag
    entry_noise_mm: float = 0.003
    exit_noise_mm: float = 0.0025
    gauge_tau_s: float = 0.010
    force_noise_mn: float = 0.020
    force_tau_s: float = 0.004
    gap_noise_mm: float = 0.001
    gap_tau_s: float = 0.003
    pyrometer_noise_c: float = 1.2
    pyrometer_tau_s: float = 0.030
    speed_noise_m_s: float = 0.004
    speed_tau_sensor_s: float = 0.010
    tension_noise_kn: float = 0.6
    tension_tau_s: float = 0.010
