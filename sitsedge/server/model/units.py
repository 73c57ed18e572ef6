"""Units as OPC UA knows them: EUInformation with the UNECE Recommendation 20 code (OPC 10000-8, 5.6.3)."""

from __future__ import annotations

from typing import Final

from asyncua import ua

UNECE: Final = "http://www.opcfoundation.org/UA/units/un/cefact"

CODES: Final = {
    "mm": ("MMT", "millimetre"),
    "um": ("4H", "micrometre (micron)"),
    "m": ("MTR", "metre"),
    "m/s": ("MTS", "metre per second"),
    "mm/s": ("C16", "millimetre per second"),
    "m/min": ("2X", "metre per minute"),
    "mm/min": ("H81", "millimetre per minute"),
    "rpm": ("RPM", "revolutions per minute"),
    "rad": ("C81", "radian"),
    "°": ("DD", "degree [unit of angle]"),
    "rad/s": ("2A", "radian per second"),
    "m/s2": ("MSK", "metre per second squared"),
    "g": ("K40", "standard acceleration of free fall"),
    "Hz": ("HTZ", "hertz"),
    "kHz": ("KHZ", "kilohertz"),
    "N": ("NEW", "newton"),
    "kN": ("B47", "kilonewton"),
    "MN": ("B73", "meganewton"),
    "Nm": ("NU", "newton metre"),
    "bar": ("BAR", "bar [unit of pressure]"),
    "mbar": ("MBR", "millibar"),
    "Pa": ("PAL", "pascal"),
    "kPa": ("KPA", "kilopascal"),
    "MPa": ("MPA", "megapascal"),
    "°C": ("CEL", "degree Celsius"),
    "K": ("KEL", "kelvin"),
    "l/min": ("L2", "litre per minute"),
    "l/h": ("E32", "litre per hour"),
    "m3/h": ("MQH", "cubic metre per hour"),
    "kg/h": ("E93", "kilogram per hour"),
    "A": ("AMP", "ampere"),
    "mA": ("4K", "milliampere"),
    "V": ("VLT", "volt"),
    "mV": ("2Z", "millivolt"),
    "W": ("WTT", "watt"),
    "kW": ("KWT", "kilowatt"),
    "kWh": ("KWH", "kilowatt hour"),
    "Ohm": ("OHM", "ohm"),
    "%": ("P1", "percent"),
    "1": ("C62", "one"),
    "ppm": ("59", "part per million"),
    "kg": ("KGM", "kilogram"),
    "s": ("SEC", "second [unit of time]"),
    "ms": ("C26", "millisecond"),
    "min": ("MIN", "minute [unit of time]"),
    "h": ("HUR", "hour"),
}
"""Every unit a deployment may use (:data:`sitsedge.config.units.UNITS`)."""


def unit_id(code: str) -> int:
    """UnitId of a UNECE code: its characters, big-endian (OPC 10000-8, 5.6.3)."""
    return int.from_bytes(code.encode("ascii"), "big")


def engineering_units(unit: str) -> ua.EUInformation:
    """EUInformation of a unit of a deployment file. Raises KeyError for any other."""
    code, meaning = CODES[unit]
    return ua.EUInformation(
        NamespaceUri=UNECE,
        UnitId=unit_id(code),
        DisplayName=ua.LocalizedText(unit),
        Description=ua.LocalizedText(meaning),
    )
