"""Deterministic CBOR, strict in both directions (RFC 8949 §4.2.1, core deterministic encoding).

Only what the evidence formats need exists here: integers of 64 bits, byte and text strings, arrays, maps,
`true`, `false` and `null`. Tags, floats, other simple values, indefinite lengths, long forms of short
numbers, unsorted or duplicate keys and trailing bytes are refused, so that every value has exactly one
encoding and every accepted byte string has exactly one value. Map keys are integers, text or byte strings.

The decoder is a single bounded pass: a length is checked against the bytes that are left before anything is
allocated for it, and depth and item count have limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from attest.errors import AttestError

MAX_BYTES: Final = 4 * 1024 * 1024  # the largest object, evidence with a long event log, stays below 1 MiB
MAX_DEPTH: Final = 12  # the deepest format nests six levels
MAX_ITEMS: Final = 200_000  # a boot policy with many states has some thousand

CborKey: TypeAlias = int | str | bytes
CborValue: TypeAlias = "int | bytes | str | bool | tuple[CborValue, ...] | dict[CborKey, CborValue] | None"

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_LONG_FORMS: Final = {24: (1, 24), 25: (2, 1 << 8), 26: (4, 1 << 16), 27: (8, 1 << 32)}


class CborError(AttestError):
    """Bytes that are no deterministic CBOR, or a value this profile cannot encode.

    Codes: ``cbor-truncated``, ``cbor-trailing``, ``cbor-not-canonical``, ``cbor-key-order``,
    ``cbor-duplicate-key``, ``cbor-type``, ``cbor-text``, ``cbor-limit``, ``cbor-field``.
    """


def dumps(value: object) -> bytes:
    """Encode ``value``: int, bytes, str, bool, None, list/tuple or dict of these. Raises ``CborError``."""
    out = bytearray()
    _encode(value, out, 0)
    return bytes(out)


def loads(
    data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, max_items: int = MAX_ITEMS
) -> CborValue:
    """Decode one value that fills ``data`` exactly; arrays become tuples. Raises ``CborError``."""
    if len(data) > max_bytes:
        raise CborError("cbor-limit", found=f"{len(data)} bytes", expected=f"at most {max_bytes}")
    reader = _Reader(data, max_depth, max_items)
    value = reader.value(0)
    if reader.at != len(data):
        raise CborError("cbor-trailing", found=f"{len(data) - reader.at} bytes after the value", expected="none")
    return value


def _head(major: int, number: int, out: bytearray) -> None:
    if number < 24:
        out.append(major << 5 | number)
        return
    for info, (size, _) in _LONG_FORMS.items():
        if number < 1 << (8 * size):
            out.append(major << 5 | info)
            out += number.to_bytes(size, "big")
            return
    raise CborError("cbor-limit", found=f"an integer of {number.bit_length()} bits", expected="at most 64")


def _encode(value: object, out: bytearray, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CborError("cbor-limit", found=f"nesting over {MAX_DEPTH}", expected=f"at most {MAX_DEPTH}")
    if value is None:
        out.append(0xF6)
    elif value is True or value is False:
        out.append(0xF5 if value else 0xF4)
    elif isinstance(value, int):
        _head(_UINT, value, out) if value >= 0 else _head(_NINT, -1 - value, out)
    elif isinstance(value, bytes):
        _head(_BYTES, len(value), out)
        out += value
    elif isinstance(value, str):
        raw = _utf8(value)
        _head(_TEXT, len(raw), out)
        out += raw
    elif isinstance(value, list | tuple):
        _head(_ARRAY, len(value), out)
        for item in value:
            _encode(item, out, depth + 1)
    elif isinstance(value, dict):
        _encode_map(value, out, depth)
    else:
        raise CborError("cbor-type", found=type(value).__name__, expected="int, bytes, str, bool, None, list or map")


def _encode_map(value: dict[object, object], out: bytearray, depth: int) -> None:
    entries: list[tuple[bytes, object]] = []
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, int | str | bytes):
            raise CborError("cbor-type", found=f"map key {type(key).__name__}", expected="int, str or bytes")
        raw = bytearray()
        _encode(key, raw, depth + 1)
        entries.append((bytes(raw), item))
    entries.sort(key=lambda entry: entry[0])
    _head(_MAP, len(entries), out)
    for raw_key, item in entries:
        out += raw_key
        _encode(item, out, depth + 1)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CborError("cbor-text", found="a lone surrogate", expected="text that UTF-8 can carry") from error


class _Reader:
    """One pass over the bytes; ``at`` is the offset of the next unread byte."""

    __slots__ = ("at", "data", "items_left", "max_depth")

    def __init__(self, data: bytes, max_depth: int, max_items: int) -> None:
        self.data = data
        self.at = 0
        self.max_depth = max_depth
        self.items_left = max_items

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            found = f"{len(self.data) - self.at} bytes at offset {self.at}"
            raise CborError("cbor-truncated", found=found, expected=f"{size}")
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def number(self, info: int, start: int) -> int:
        if info < 24:
            return info
        form = _LONG_FORMS.get(info)
        if form is None:
            what = "an indefinite length" if info == 31 else f"additional information {info}"
            raise CborError("cbor-not-canonical", found=f"{what} at offset {start}", expected="a definite length")
        size, smallest = form
        number = int.from_bytes(self.take(size), "big")
        if number < smallest:
            raise CborError(
                "cbor-not-canonical",
                found=f"{number} in {size} bytes at offset {start}",
                expected="its shortest form",
            )
        return number

    def value(self, depth: int) -> CborValue:
        start = self.at
        self.items_left -= 1
        if depth > self.max_depth or self.items_left < 0:
            what = f"nesting over {self.max_depth}" if depth > self.max_depth else "too many items"
            raise CborError("cbor-limit", found=f"{what} at offset {start}", expected="a smaller object")
        if start == len(self.data):
            raise CborError("cbor-truncated", found=f"0 bytes at offset {start}", expected="1")
        initial = self.data[start]
        self.at = start + 1
        major, info = initial >> 5, initial & 31
        if major == _UINT and info < 24:  # a small number is every other item of a command
            return info
        if major == _SIMPLE:
            return _simple(initial, start)
        if major == _TAG:
            raise CborError("cbor-type", found=f"a tag at offset {start}", expected="no tags")
        number = self.number(info, start)
        if major == _UINT:
            return number
        if major == _NINT:
            return -1 - number
        if major == _BYTES:
            return self.take(number)
        if major == _TEXT:
            return self.text(number, start)
        left = len(self.data) - self.at
        least = number if major == _ARRAY else 2 * number
        if least > left:  # every item has at least one byte: refuse before allocating
            raise CborError("cbor-truncated", found=f"{left} bytes at offset {self.at}", expected=f"at least {least}")
        if major == _ARRAY:
            return tuple([self.value(depth + 1) for _ in range(number)])
        return self.map(number, depth)

    def text(self, size: int, start: int) -> str:
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise CborError("cbor-text", found=f"bad UTF-8 at offset {start}", expected="UTF-8") from error

    def map(self, size: int, depth: int) -> dict[CborKey, CborValue]:
        result: dict[CborKey, CborValue] = {}
        previous = b""
        for _ in range(size):
            start = self.at
            key = self.value(depth + 1)
            if isinstance(key, bool) or not isinstance(key, int | str | bytes):
                found = f"map key {type(key).__name__} at offset {start}"
                raise CborError("cbor-type", found=found, expected="int, str or bytes")
            raw = self.data[start : self.at]
            if raw <= previous:
                code = "cbor-duplicate-key" if raw == previous else "cbor-key-order"
                raise CborError(code, found=f"key {key!r} at offset {start}", expected="ascending distinct keys")
            previous = raw
            result[key] = self.value(depth + 1)
        return result


def _simple(initial: int, start: int) -> bool | None:
    if initial == 0xF4:
        return False
    if initial == 0xF5:
        return True
    if initial == 0xF6:
        return None
    raise CborError(
        "cbor-type", found=f"0x{initial:02x} at offset {start}", expected="no floats or other simple values"
    )


class Fields:
    """Strict reading of one map: take each key by type and limits, then ``done()`` refuses what is left."""

    __slots__ = ("_left", "_what")

    def __init__(self, value: CborValue, what: str) -> None:
        if not isinstance(value, dict):
            raise CborError("cbor-field", found=f"{what}: {_kind(value)}", expected="a map")
        self._left = dict(value)
        self._what = what

    def take(self, key: CborKey) -> CborValue:
        """The raw value of a key that must be present."""
        if key not in self._left:
            raise self.error(key, "nothing", "a value")
        return self._left.pop(key)

    def has(self, key: CborKey) -> bool:
        """Whether an optional key is present and not yet taken."""
        return key in self._left

    def integer(self, key: CborKey, *, low: int = 0, high: int = (1 << 64) - 1) -> int:
        """An integer in ``low..high``."""
        value = self.take(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, _kind(value), "an integer")
        if not low <= value <= high:
            raise self.error(key, str(value), f"{low}..{high}")
        return value

    def octets(self, key: CborKey, *, size: int | None = None, low: int = 0, high: int = MAX_BYTES) -> bytes:
        """A byte string of exactly ``size`` or of ``low..high`` bytes."""
        value = self.take(key)
        if not isinstance(value, bytes):
            raise self.error(key, _kind(value), "a byte string")
        least, most = (low, high) if size is None else (size, size)
        if not least <= len(value) <= most:
            raise self.error(key, f"{len(value)} bytes", f"{least}..{most}")
        return value

    def text(self, key: CborKey, *, high: int = 1024, choices: Iterable[str] | None = None) -> str:
        """A text of 1..``high`` characters, out of ``choices`` where given."""
        value = self.take(key)
        if not isinstance(value, str):
            raise self.error(key, _kind(value), "text")
        if not 1 <= len(value) <= high:
            raise self.error(key, f"{len(value)} characters", f"1..{high}")
        allowed = None if choices is None else tuple(choices)
        if allowed is not None and value not in allowed:
            raise self.error(key, repr(value), " or ".join(allowed))
        return value

    def boolean(self, key: CborKey) -> bool:
        """``true`` or ``false``."""
        value = self.take(key)
        if not isinstance(value, bool):
            raise self.error(key, _kind(value), "a boolean")
        return value

    def array(self, key: CborKey, *, low: int = 0, high: int = 65_536) -> tuple[CborValue, ...]:
        """An array of ``low..high`` items."""
        value = self.take(key)
        if not isinstance(value, tuple):
            raise self.error(key, _kind(value), "an array")
        if not low <= len(value) <= high:
            raise self.error(key, f"{len(value)} items", f"{low}..{high}")
        return value

    def integers(self, key: CborKey, *, low: int, high: int, count_max: int) -> tuple[int, ...]:
        """An array of at most ``count_max`` integers, each in ``low..high``."""
        values = self.array(key, high=count_max)
        for item in values:
            if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= high:
                raise self.error(key, repr(item)[:40], f"integers in {low}..{high}")
        return tuple(item for item in values if isinstance(item, int))

    def map(self, key: CborKey) -> Fields:
        """A nested map."""
        return Fields(self.take(key), f"{self._what} key {key!r}")

    def done(self) -> None:
        """Refuse keys nobody took."""
        if self._left:
            raise CborError(
                "cbor-field",
                found=f"{self._what}: unknown key {sorted(map(repr, self._left))[0]}",
                expected="no other",
            )

    def error(self, key: CborKey, found: str, expected: str) -> CborError:
        """The error for one field of this map."""
        return CborError("cbor-field", found=f"{self._what} key {key!r}: {found}", expected=expected)


def _kind(value: CborValue | Sequence[object]) -> str:
    names = {
        int: "an integer",
        bytes: "a byte string",
        str: "text",
        bool: "a boolean",
        tuple: "an array",
        dict: "a map",
    }
    return names.get(type(value), "null")
