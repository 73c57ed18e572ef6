"""Engineering units a deployment may use (UCUM-style text, as OPC UA's EUInformation shows them to people)."""

from __future__ import annotations

LENGTH = ("mm", "um", "m")
MOTION = ("m/s", "mm/s", "m/min", "mm/min", "rpm", "rad", "°", "rad/s", "m/s2", "g", "Hz", "kHz")
FORCE = ("N", "kN", "MN", "Nm")
PRESSURE = ("bar", "mbar", "Pa", "kPa", "MPa")
HEAT_AND_FLOW = ("°C", "K", "l/min", "l/h", "m3/h", "kg/h")
ELECTRIC = ("A", "mA", "V", "mV", "W", "kW", "kWh", "Ohm")
OTHER = ("%", "1", "ppm", "kg", "s", "ms", "min", "h")

UNITS = frozenset((*LENGTH, *MOTION, *FORCE, *PRESSURE, *HEAT_AND_FLOW, *ELECTRIC, *OTHER))
