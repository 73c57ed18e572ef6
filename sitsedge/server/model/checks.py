"""What a value of a view must be to be shown: each check gives it as it is shown, or raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from attest.command import Mode, ProofKind
from sitsedge.server.model.names import sits_name
from sitsedge.server.model.spec import Name

CODES_MAX: Final = 256  # of one table of counts; the product has fewer than a hundred codes
TEXT_CHARACTERS_MAX: Final = 1000
TEXTS_MAX: Final = 64  # as many as there can be conditions
RECORD_BYTES_MAX: Final = 65_536  # as attest.command.records
UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1
TIME_NS_MAX: Final = 253_402_300_799 * 10**9  # the year 9999, the last that a DateTime shows
Check = Callable[[Any], Any]
"""Gives the value as it is shown, or raises ValueError."""


def flag(value: Any) -> bool:
    """A Boolean."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def text(value: Any) -> str:
    """A String, cut to its limit."""
    if not isinstance(value, str):
        raise ValueError
    return value[:TEXT_CHARACTERS_MAX].encode("utf-8", "replace").decode()  # half a surrogate pair has no UTF-8


def octets(value: Any) -> bytes:
    """A ByteString, such as a signed record."""
    if not isinstance(value, bytes) or len(value) > RECORD_BYTES_MAX:
        raise ValueError
    return value


def count(value: Any) -> int:
    """A UInt64; True is no number."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= UINT64_MAX:
        raise ValueError
    return value


def small_count(value: Any) -> int:
    """A UInt32."""
    if count(value) > UINT32_MAX:
        raise ValueError
    return int(value)


def number(value: Any) -> float:
    """A finite Double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    try:
        shown = float(value)
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(shown):
        raise ValueError
    return shown


def duration(value: Any) -> float:
    """Milliseconds; a difference of two clocks may be negative."""
    return number(value)


def nanoseconds(value: Any) -> float:
    """Nanoseconds as a Duration."""
    return number(value) / 1e6


def moment(value: Any) -> int:
    """A time in ns since the Unix epoch that a DateTime can show."""
    if count(value) > TIME_NS_MAX:
        raise ValueError
    return int(value)


def mode(value: Any) -> int:
    """A mode by its name, as OperatingMode."""
    if not isinstance(value, str) or value not in Mode.__members__:
        raise ValueError
    return int(Mode[value])


def proof_kind(value: Any) -> int:
    """What a command carries, as ProofKind."""
    return int(ProofKind(count(value)))


def plain(value: Any) -> Any:
    """For what :mod:`.view` types already."""
    return value


def counts(value: Any) -> tuple[tuple[Name, int], ...]:
    """Counts by code, in the order of the codes."""
    if not isinstance(value, Mapping) or len(value) > CODES_MAX or not all(isinstance(code, str) for code in value):
        raise ValueError
    return tuple((sits_name(text(code)), count(value[code])) for code in sorted(value))


def total(value: Any) -> int:
    """The sum of a table of counts."""
    return count(sum(number for _, number in counts(value)))


def texts(value: Any) -> tuple[str, ...]:
    """An array of Strings."""
    return tuple(text(item) for item in value[:TEXTS_MAX])
