"""Field descriptions for records: each says how one key is read strictly and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

from attest import cbor
from attest.command.command import COUNTER_MAX, DIGEST_BYTES, IDENTIFIER, SIGNALS_MAX, VALUE_MAX, VALUE_MIN

TEXT_CHARACTERS_MAX: Final = 512  # found/expected/reason: one line for people
APPROVERS_MAX: Final = 8
CODE_CHARACTERS_MAX: Final = 64
POINT_BYTES: Final = 65


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One attribute of a record: ``read`` takes it from the map under its key, ``write`` prepares it for CBOR."""

    name: str
    read: Callable[[cbor.Fields, int], Any]
    write: Callable[[Any], object] = lambda value: value
    omitted: bool = False  # the key is absent where the value is empty


def identifier(name: str) -> FieldSpec:
    """1..64 printable ASCII characters without space."""

    def read(fields: cbor.Fields, key: int) -> str:
        value = fields.text(key, high=64)
        if IDENTIFIER.match(value) is None:
            raise fields.error(key, repr(value), "printable ASCII without space")
        return value

    return FieldSpec(name, read)


def counter(name: str, low: int = 0) -> FieldSpec:
    """An integer in ``low..2^63 - 1``: epochs, sequences, sizes, times in ns."""
    return FieldSpec(name, lambda fields, key: fields.integer(key, low=low, high=COUNTER_MAX))


def flag(name: str) -> FieldSpec:
    """A boolean."""
    return FieldSpec(name, lambda fields, key: fields.boolean(key))


def digest(name: str, *, optional: bool = False) -> FieldSpec:
    """32 bytes; optionally none at all."""

    def read(fields: cbor.Fields, key: int) -> bytes:
        value = fields.octets(key, high=DIGEST_BYTES)
        if len(value) != DIGEST_BYTES and not (optional and not value):
            raise fields.error(key, f"{len(value)} bytes", "32" + (" or none" if optional else ""))
        return value

    return FieldSpec(name, read)


def octets(name: str, high: int) -> FieldSpec:
    """0..``high`` bytes."""
    return FieldSpec(name, lambda fields, key: fields.octets(key, high=high))


def point(name: str) -> FieldSpec:
    """An uncompressed point of P-256 (65 bytes); no key at all where there is none."""

    def read(fields: cbor.Fields, key: int) -> bytes:
        return fields.octets(key, size=POINT_BYTES) if fields.has(key) else b""

    return FieldSpec(name, read, omitted=True)


def text(name: str, high: int = TEXT_CHARACTERS_MAX) -> FieldSpec:
    """1..``high`` characters of UTF-8."""
    return FieldSpec(name, lambda fields, key: fields.text(key, high=high))


def values(name: str, *, optional: bool = False) -> FieldSpec:
    """Quantised values: an array of 32-bit integers; ``null`` where optional and unknown."""

    def read(fields: cbor.Fields, key: int) -> tuple[int, ...] | None:
        if optional:
            value = fields.take(key)
            if value is None:
                return None
            fields = cbor.Fields({key: value}, "values")
        return fields.integers(key, low=VALUE_MIN, high=VALUE_MAX, count_max=SIGNALS_MAX)

    return FieldSpec(name, read)


def names(name: str) -> FieldSpec:
    """Up to eight texts, the names of people."""

    def read(fields: cbor.Fields, key: int) -> tuple[str, ...]:
        row = fields.array(key, high=APPROVERS_MAX)
        inner = cbor.Fields(dict(enumerate(row)), "names")
        return tuple(inner.text(index, high=TEXT_CHARACTERS_MAX) for index in range(len(row)))

    return FieldSpec(name, read)


def number_of(name: str, kind: type[IntEnum]) -> FieldSpec:
    """One of the numbers of ``kind``."""
    return FieldSpec(name, lambda fields, key: kind(fields.integer(key, high=max(kind))), int)


def word_of(name: str, kind: type[StrEnum]) -> FieldSpec:
    """One of the words of ``kind``."""
    words = [member.value for member in kind]
    return FieldSpec(name, lambda fields, key: kind(fields.text(key, choices=words)), str)
