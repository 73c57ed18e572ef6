"""Engineering units a deployment may use (UCUM-style text, as OPC UA's EUInformation shows them to people)."""

from __future__ import annotations

LENGTH = ("mm", "um", "m")
MOTION = ("m/s", "mm/s", "rpm", "rad", "rad/s", "m/s2", "g", "Hz")
FORCE = ("N", "kN", "MN", "Nm")
PRESSURE = ("bar", "Pa", "kPa", "MPa")
HEAT_AND_FLOW = ("°C", "K", "l/min", "m3/h")
ELECTRIC = ("A", "V", "W", "kW")
OTHER = ("%", "1", "s", "ms")

UNITS = frozenset((*LENGTH, *MOTION, *FORCE, *PRESSURE, *HEAT_AND_FLOW, *ELECTRIC, *OTHER))
