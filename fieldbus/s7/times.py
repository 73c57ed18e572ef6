"""Times of S7 CPUs: BCD and binary dates, durations. A CPU's date has no time zone: the deployment declares it."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fieldbus.s7.errors import S7Error

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATE_ORIGIN = dt.date(1990, 1, 1)
_DATE_DAYS_MAX = 65_378  # 2168-12-31, the last DATE
_DAY_MS = 86_400_000
_DAY_NS = 86_400 * NS_PER_S
_S5_BASES_MS = (10, 100, 1_000, 10_000)


def zone(name: str) -> dt.tzinfo:
    """``UTC`` or an IANA name. Raises S7Error ``time-zone``."""
    if name == "UTC":
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise S7Error("time-zone", found=repr(name), expected="UTC or a name such as Europe/Berlin") from None


def unix_ns(wall: dt.datetime, nanosecond: int, clock: dt.tzinfo) -> int:
    """Unix ns of a wall-clock reading. An hour that comes twice (end of summer time) is taken as the first.

    Raises S7Error ``time-gap`` for an hour that a summer time skipped: a clock in that zone never shows it.
    """
    aware = wall.replace(tzinfo=clock)
    moment = aware.astimezone(dt.UTC)
    if moment.astimezone(clock).replace(tzinfo=None) != wall:
        raise S7Error("time-gap", found=wall.isoformat(), expected=f"a time that exists in {clock}")
    return int((moment - _EPOCH) // dt.timedelta(seconds=1)) * NS_PER_S + nanosecond


def _bcd(byte: int, low: int, high: int, what: str) -> int:
    tens, units = byte >> 4, byte & 15
    value = tens * 10 + units
    if tens > 9 or units > 9 or not low <= value <= high:
        raise S7Error("bcd-time", found=f"{byte:#04x}", expected=f"{low} … {high} in BCD ({what})")
    return value


def _wall(year: int, month: int, day: int, hour: int, minute: int, second: int) -> dt.datetime:
    try:
        return dt.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - the zone is added by the caller
    except ValueError as error:
        found = f"{year}-{month}-{day} {hour}:{minute}:{second}"
        raise S7Error("date", found=found, expected=str(error)) from None


def _size(data: bytes, size: int, what: str) -> None:
    if len(data) != size:
        raise S7Error("data-length", found=f"{len(data)} bytes", expected=f"{size} of a {what}")


def date_and_time(data: bytes, clock: dt.tzinfo) -> int:
    """Unix ns of a DATE_AND_TIME: eight bytes BCD, years 1990 to 2089, milliseconds, weekday (1 is Sunday).

    The weekday is read over: CPUs keep what they were set to. Raises S7Error ``bcd-time``, ``date``, ``time-gap``.
    """
    _size(data, 8, "DATE_AND_TIME")
    year = _bcd(data[0], 0, 99, "year")
    fields = [_bcd(data[at], *limits) for at, limits in enumerate(_BCD_LIMITS, start=1)]
    milliseconds = _bcd(data[6], 0, 99, "milliseconds") * 10 + _bcd(data[7] & 0xF0, 0, 90, "milliseconds") // 10
    wall = _wall(year + (1900 if year >= 90 else 2000), *fields)
    return unix_ns(wall, milliseconds * NS_PER_MS, clock)


_BCD_LIMITS = ((1, 12, "month"), (1, 31, "day"), (0, 23, "hour"), (0, 59, "minute"), (0, 59, "second"))


def to_date_and_time(t_ns: int, clock: dt.tzinfo) -> bytes:
    """The eight bytes of a time, milliseconds cut. Raises S7Error ``date`` outside 1990 to 2089."""
    wall = (_EPOCH + dt.timedelta(microseconds=t_ns // 1_000)).astimezone(clock)
    if not 1990 <= wall.year <= 2089:
        raise S7Error("date", found=str(wall.year), expected="1990 … 2089")
    fields = (wall.year % 100, wall.month, wall.day, wall.hour, wall.minute, wall.second)
    milliseconds = wall.microsecond // 1_000
    head = bytes(value // 10 << 4 | value % 10 for value in (*fields, milliseconds // 10))
    return head + bytes((milliseconds % 10 << 4 | wall.isoweekday() % 7 + 1,))


def dtl(data: bytes, clock: dt.tzinfo) -> int:
    """Unix ns of a DTL: year, month, day, weekday, hour, minute, second, nanosecond in twelve bytes.

    Raises S7Error ``date``, ``dtl-range`` (1970 to 2262, nanoseconds below 1 s), ``time-gap``.
    """
    _size(data, 12, "DTL")
    year, nanosecond = int.from_bytes(data[:2], "big"), int.from_bytes(data[8:], "big")
    if not 1970 <= year <= 2262 or nanosecond >= NS_PER_S:
        raise S7Error("dtl-range", found=f"year {year}, {nanosecond} ns", expected="1970 … 2262, below 10^9 ns")
    return unix_ns(_wall(year, data[2], data[3], data[5], data[6], data[7]), nanosecond, clock)


def to_dtl(t_ns: int, clock: dt.tzinfo) -> bytes:
    """The twelve bytes of a time. Raises S7Error ``dtl-range``."""
    seconds, nanosecond = divmod(t_ns, NS_PER_S)
    try:
        wall = (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(clock)
    except OverflowError:
        raise S7Error("dtl-range", found=f"{t_ns} ns", expected="1970 … 2262") from None
    if not 1970 <= wall.year <= 2262:
        raise S7Error("dtl-range", found=str(wall.year), expected="1970 … 2262")
    day = bytes((wall.month, wall.day, wall.isoweekday() % 7 + 1, wall.hour, wall.minute, wall.second))
    return wall.year.to_bytes(2, "big") + day + nanosecond.to_bytes(4, "big")


def ldt(data: bytes) -> int:
    """Unix ns of an LDT (UTC ns since 1970, eight bytes)."""
    _size(data, 8, "LDT")
    return int.from_bytes(data, "big", signed=True)


def s5time_ms(data: bytes) -> int:
    """Milliseconds of an S5TIME: time base in bits 12-13, three BCD digits. Raises S7Error ``s5time``."""
    _size(data, 2, "S5TIME")
    word = int.from_bytes(data, "big")
    digits = [word >> shift & 15 for shift in (8, 4, 0)]
    if word >> 14 or any(digit > 9 for digit in digits):
        raise S7Error("s5time", found=f"{word:#06x}", expected="base 0 … 3 and three BCD digits")
    return (digits[0] * 100 + digits[1] * 10 + digits[2]) * _S5_BASES_MS[word >> 12]


def to_s5time(milliseconds: int) -> bytes:
    """The finest S5TIME of a duration that is exactly one. Raises S7Error ``s5time``."""
    for base, step in enumerate(_S5_BASES_MS):
        count, rest = divmod(milliseconds, step)
        if rest == 0 and 0 <= count <= 999:
            digits = count // 100 << 8 | count // 10 % 10 << 4 | count % 10
            return (base << 12 | digits).to_bytes(2, "big")
    raise S7Error("s5time", found=f"{milliseconds} ms", expected="a multiple of its base, at most 9,990 s")


def date_text(data: bytes) -> str:
    """A DATE (days since 1990-01-01) as ISO 8601 text. Raises S7Error ``date``."""
    _size(data, 2, "DATE")
    days = int.from_bytes(data, "big")
    if days > _DATE_DAYS_MAX:
        raise S7Error("date", found=f"day {days}", expected=f"at most {_DATE_DAYS_MAX}")
    return (_DATE_ORIGIN + dt.timedelta(days=days)).isoformat()


def time_of_day_ms(data: bytes) -> int:
    """Milliseconds since midnight of a TIME_OF_DAY. Raises S7Error ``time-of-day``."""
    _size(data, 4, "TIME_OF_DAY")
    value = int.from_bytes(data, "big")
    if value >= _DAY_MS:
        raise S7Error("time-of-day", found=f"{value} ms", expected=f"below {_DAY_MS}")
    return value


def ltime_of_day_ns(data: bytes) -> int:
    """Nanoseconds since midnight of an LTIME_OF_DAY. Raises S7Error ``time-of-day``."""
    _size(data, 8, "LTIME_OF_DAY")
    value = int.from_bytes(data, "big")
    if value >= _DAY_NS:
        raise S7Error("time-of-day", found=f"{value} ns", expected=f"below {_DAY_NS}")
    return value
