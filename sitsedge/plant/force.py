"""Hot-rolling force of a strip: Sims' theory, Hitchcock's flattened roll, Misaka and Yoshimoto's flow stress.

* R. B. Sims, "The calculation of roll force and torque in hot rolling mills", Proc. Inst. Mech. Eng. 168
  (1954) 191-200: specific pressure under sticking friction, integrated in closed form to the geometry
  factor ``Q_p``, so that ``F = w k sqrt(R' dh) Q_p``; mean strain rate ``v ln(H/h) / sqrt(R' dh)``.
* J. H. Hitchcock, "Roll neck bearings", ASME Research Publication (1935): ``R' = R (1 + C F / (w dh))``,
  ``C = 16 (1 - nu^2) / (pi E)``.
* Y. Misaka, T. Yoshimoto, "Formularization of mean resistance to deformation of plain carbon steels at
  elevated temperature", J. Japan Soc. Tech. Plasticity 8 (1967) 414-422; stated there for up to 1.2 % C,
  750-1200 degC, reductions to 50 %, strain rates 30-200 1/s. The last stands of a hot mill lie inside.
* Strip tension lowers the plane-strain yield stress by the weighted mean of both tensions; the entry side
  weighs more (W. C. F. Hessenberg, R. B. Sims, J. Iron Steel Inst. 168 (1951) 155-164).

Units: mm, m/s, degC, N/mm2 (MPa), MN. Everything is a pure function of plain floats, because the
plant calls it several thousand times a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ROLL_E_MPA = 206_000.0  # forged steel work roll
ROLL_NU = 0.3
HITCHCOCK_MM2_N = 16.0 * (1.0 - ROLL_NU**2) / (math.pi * ROLL_E_MPA)
PLANE_STRAIN = 2.0 / math.sqrt(3.0)  # von Mises: yield stress and strain of plane strain against uniaxial
KGF_MM2_MPA = 9.80665
ENTRY_TENSION_WEIGHT = 0.7
EXIT_TENSION_WEIGHT = 0.3
DRAUGHT_MIN_MM = 0.05  # Sims' solution needs a bite; less than this is a lost strip, not a rolled one


@dataclass(frozen=True, slots=True)
class Steel:
    """Flow stress of a plain carbon steel; the two constants depend on its carbon content only."""

    carbon_percent: float

    @property
    def log_factor(self) -> float:
        """Temperature-independent exponent of Misaka and Yoshimoto's formula (dimensionless)."""
        c = self.carbon_percent
        return 0.126 - 1.75 * c + 0.594 * c * c

    @property
    def activation_k(self) -> float:
        """Numerator of the temperature term, kelvin."""
        c = self.carbon_percent
        return 2851.0 + 2968.0 * c - 1120.0 * c * c


@dataclass(frozen=True, slots=True)
class Bite:
    """What the roll bite sees at one instant, except the exit thickness."""

    entry_mm: float
    temperature_c: float
    roll_speed_m_s: float
    entry_tension_mpa: float
    exit_tension_mpa: float


def flow_stress_mpa(steel: Steel, *, temperature_c: float, strain: float, strain_rate_s: float) -> float:
    """Mean uniaxial flow stress, MPa, by Misaka and Yoshimoto."""
    exponent = steel.log_factor + steel.activation_k / (temperature_c + 273.15)
    return KGF_MM2_MPA * math.exp(exponent) * math.pow(strain, 0.21) * math.pow(strain_rate_s, 0.13)


def geometry_factor(*, entry_mm: float, exit_mm: float, radius_mm: float) -> float:
    """Sims' ``Q_p`` (dimensionless): mean roll pressure over mean plane-strain yield stress."""
    r = (entry_mm - exit_mm) / entry_mm
    slender = math.sqrt(radius_mm / exit_mm)
    ratio = math.sqrt((1.0 - r) / r)
    arc = math.atan(1.0 / ratio)
    log_keep = math.log(1.0 - r)
    neutral = math.tan(0.5 * arc + math.pi / 8.0 * log_keep / slender)  # sqrt(R'/h) times the neutral angle
    log_neutral = math.log(1.0 + neutral * neutral)  # ln(h_neutral / h)
    return (
        0.5 * math.pi * ratio * arc - 0.25 * math.pi - ratio * slender * log_neutral - 0.5 * ratio * slender * log_keep
    )


def flattened_radius_mm(*, radius_mm: float, force_mn: float, width_mm: float, draught_mm: float) -> float:
    """Hitchcock's radius of the flattened work roll, mm."""
    return radius_mm * (1.0 + HITCHCOCK_MM2_N * force_mn * 1e6 / (width_mm * draught_mm))


def roll_force_mn(
    steel: Steel,
    bite: Bite,
    *,
    exit_mm: float,
    flat_radius_mm: float,
    width_mm: float,
) -> float:
    """Roll force in MN for a given flattened radius; zero when the gap no longer bites the strip."""
    draught = bite.entry_mm - exit_mm
    if draught < DRAUGHT_MIN_MM:
        return 0.0
    contact_mm = math.sqrt(flat_radius_mm * draught)
    log_strain = math.log(bite.entry_mm / exit_mm)
    rate_s = bite.roll_speed_m_s * 1000.0 * log_strain / contact_mm
    uniaxial = flow_stress_mpa(
        steel, temperature_c=bite.temperature_c, strain=PLANE_STRAIN * log_strain, strain_rate_s=rate_s
    )
    tension = ENTRY_TENSION_WEIGHT * bite.entry_tension_mpa + EXIT_TENSION_WEIGHT * bite.exit_tension_mpa
    pressure = PLANE_STRAIN * uniaxial - tension
    factor = geometry_factor(entry_mm=bite.entry_mm, exit_mm=exit_mm, radius_mm=flat_radius_mm)
    return width_mm * contact_mm * pressure * factor * 1e-6


def forward_slip(*, entry_mm: float, exit_mm: float, flat_radius_mm: float) -> float:
    """Exit strip speed over roll speed minus one, from Sims' neutral angle (mass flow at the neutral plane)."""
    r = (entry_mm - exit_mm) / entry_mm
    slender = math.sqrt(flat_radius_mm / exit_mm)
    neutral = math.tan(0.5 * math.atan(math.sqrt(r / (1.0 - r))) + math.pi / 8.0 * math.log(1.0 - r) / slender)
    return neutral * neutral
