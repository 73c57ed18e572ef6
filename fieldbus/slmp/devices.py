"""Devices of MELSEC CPUs: names as people write them, codes as the wire has them (SH-080956ENG, appendix).

The number of one input is written in another radix by another series: X10 is the 17th input of a Q, L or iQ-R CPU
(hexadecimal) and the ninth of an iQ-F (octal). The series must be declared, and a name that it has not is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.wire import DataCode, Reader, Writer

NUMBER_MAX = (1 << 24) - 1


class Series(StrEnum):
    """CPU families. ``IQ_R`` uses the long device specification where asked, the others the short one."""

    Q = "q"
    L = "l"
    IQ_R = "iq-r"
    IQ_F = "iq-f"


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device: wire code, whether its points are bits, radix of its number in names and in ASCII frames.

    ``ascii_radix`` None: what an ASCII frame means is not certain, so none is read or written.
    """

    name: str
    code: int
    bit: bool
    radix: int = 10
    ascii_radix: int | None = 10


_HEX = 16
_KINDS = (
    DeviceKind("SM", 0x91, True),
    DeviceKind("SD", 0xA9, False),
    DeviceKind("X", 0x9C, True, _HEX, _HEX),
    DeviceKind("Y", 0x9D, True, _HEX, _HEX),
    DeviceKind("M", 0x90, True),
    DeviceKind("L", 0x92, True),
    DeviceKind("F", 0x93, True),
    DeviceKind("V", 0x94, True),
    DeviceKind("S", 0x98, True),
    DeviceKind("B", 0xA0, True, _HEX, _HEX),
    DeviceKind("D", 0xA8, False),
    DeviceKind("W", 0xB4, False, _HEX, _HEX),
    DeviceKind("TS", 0xC1, True),
    DeviceKind("TC", 0xC0, True),
    DeviceKind("TN", 0xC2, False),
    DeviceKind("SS", 0xC7, True),
    DeviceKind("SC", 0xC6, True),
    DeviceKind("SN", 0xC8, False),
    DeviceKind("CS", 0xC4, True),
    DeviceKind("CC", 0xC3, True),
    DeviceKind("CN", 0xC5, False),
    DeviceKind("SB", 0xA1, True, _HEX, _HEX),
    DeviceKind("SW", 0xB5, False, _HEX, _HEX),
    DeviceKind("DX", 0xA2, True, _HEX, _HEX),
    DeviceKind("DY", 0xA3, True, _HEX, _HEX),
    DeviceKind("Z", 0xCC, False),
    DeviceKind("R", 0xAF, False),
    DeviceKind("ZR", 0xB0, False, 10, None),
)
_BY_CODE = {kind.code: kind for kind in _KINDS}
_BY_NAME = {kind.name: kind for kind in _KINDS}
_OCTAL_ON_IQ_F = ("X", "Y")
_NOT_ON_IQ_F = ("V", "DX", "DY", "ZR")


def kind_of(name: str, series: Series) -> DeviceKind:
    """The kind called ``name`` on ``series``; raises SlmpError ``device-unknown``."""
    kind = _BY_NAME.get(name)
    if kind is None or (series is Series.IQ_F and name in _NOT_ON_IQ_F):
        raise SlmpError("device-unknown", found=repr(name), expected=f"a device of the {series} series")
    if series is Series.IQ_F and name in _OCTAL_ON_IQ_F:
        return DeviceKind(kind.name, kind.code, kind.bit, 8, None)
    return kind


@dataclass(frozen=True, slots=True)
class Device:
    """A device by kind name and number (a plain integer, whatever the radix of its name)."""

    kind: str
    number: int

    @classmethod
    def named(cls, text: str, series: Series) -> Device:
        """``D100``, ``X1F`` … Raises SlmpError ``device-name``, ``device-unknown``, ``device-radix``."""
        match = re.fullmatch(r"([A-Z]+?)([0-9][0-9A-F]*|[0-9A-F]+)", text) if len(text) <= 12 else None
        for split in (3, 2, 1):
            if match is not None and text[:split] in _BY_NAME and text[split:]:
                return cls(text[:split], _number(text[split:], kind_of(text[:split], series), text))
        raise SlmpError("device-name", found=repr(text), expected="a device such as D100 or X1F")

    def name(self, series: Series) -> str:
        """The name as people of this series write it."""
        radix = kind_of(self.kind, series).radix
        return f"{self.kind}{self.number:{ {8: 'o', 10: 'd', 16: 'X'}[radix] }}"

    @property
    def bit(self) -> bool:
        """True where a point is a bit."""
        return _BY_NAME[self.kind].bit


def _number(digits: str, kind: DeviceKind, text: str) -> int:
    try:
        number = int(digits, kind.radix)
    except ValueError:
        raise SlmpError("device-radix", found=text, expected=f"a number of radix {kind.radix}") from None
    if number > NUMBER_MAX:
        raise SlmpError("device-number", found=text, expected=f"at most {NUMBER_MAX}")
    return number


def read_device(reader: Reader, code: DataCode, *, long: bool, series: Series) -> Device:
    """A device specification: number and code in binary, code and digits in ASCII.

    Raises SlmpError ``device-code``, ``device-number``, ``device-radix``, ``radix-unknown``.
    """
    if code is DataCode.BINARY:
        number = reader.uint(4 if long else 3, "device number")
        wire_code = reader.uint(2 if long else 1, "device code")
        kind = _BY_CODE.get(wire_code)
        if kind is None:
            raise SlmpError("device-code", found=f"{wire_code:#04x}", expected="a device code")
    else:
        text = reader.raw(4 if long else 2, "device code").decode("latin-1")
        kind = _BY_NAME.get(text.rstrip("*"))
        if kind is None or kind.name.ljust(len(text), "*") != text:
            raise SlmpError("device-code", found=repr(text), expected="a device code such as D*")
        digits = reader.raw(8 if long else 6, "device number")
        radix = _ascii_radix(kind, series)
        allowed = b"0123456789ABCDEF"[:radix]
        if not set(digits) <= set(allowed):
            raise SlmpError("device-radix", found=repr(digits), expected=f"digits of radix {radix}")
        number = int(digits, radix)
    if number > NUMBER_MAX:
        raise SlmpError("device-number", found=str(number), expected=f"at most {NUMBER_MAX}")
    return Device(kind.name, number)


def write_device(writer: Writer, device: Device, code: DataCode, *, long: bool, series: Series) -> None:
    """The same the other way round."""
    kind = kind_of(device.kind, series)
    if code is DataCode.BINARY:
        writer.uint(device.number, 4 if long else 3)
        writer.uint(kind.code, 2 if long else 1)
        return
    width = 8 if long else 6
    digits = f"{device.number:{'X' if _ascii_radix(kind, series) == _HEX else 'd'}}".rjust(width, "0")
    if len(digits) > width or not 0 <= device.number <= NUMBER_MAX:
        raise SlmpError("device-number", found=str(device.number), expected=f"{width} digits")
    writer.raw((kind.name.ljust(4 if long else 2, "*") + digits).encode("ascii"))


def _ascii_radix(kind: DeviceKind, series: Series) -> int:
    radix = kind_of(kind.name, series).ascii_radix
    if radix is None:
        raise SlmpError(
            "radix-unknown",
            found=f"{kind.name} in an ASCII frame of the {series} series",
            expected="a device whose digits there are certain",
            hint="use binary data code",
        )
    return radix
