"""Values over several words: signed and double integers, floats, text; the word order is declared, never guessed."""

from __future__ import annotations

import math
import struct
from enum import StrEnum

from fieldbus.sample import TagValue
from fieldbus.slmp.errors import SlmpError

TEXT_WORDS_MAX = 480


class WordType(StrEnum):
    """What words mean."""

    UINT = "uint"
    INT = "int"
    UDINT = "udint"
    DINT = "dint"
    REAL = "real"
    LREAL = "lreal"
    TEXT = "text"


class WordOrder(StrEnum):
    """Which word of a longer value comes first. MELSEC itself puts the low one first; gateways and panels differ."""

    LOW_FIRST = "low-first"
    HIGH_FIRST = "high-first"


_CODES = {
    WordType.UINT: "<H",
    WordType.INT: "<h",
    WordType.UDINT: "<I",
    WordType.DINT: "<i",
    WordType.REAL: "<f",
    WordType.LREAL: "<d",
}
_FLOAT32_MAX = 3.4028234663852886e38


def words_of(kind: WordType, text_words: int = 0) -> int:
    """How many words a value takes. Raises SlmpError ``text-length``."""
    if kind is WordType.TEXT:
        if not 1 <= text_words <= TEXT_WORDS_MAX:
            raise SlmpError("text-length", found=str(text_words), expected=f"1 … {TEXT_WORDS_MAX} words")
        return text_words
    return struct.calcsize(_CODES[kind]) // 2


def decode_words(kind: WordType, words: tuple[int, ...], order: WordOrder = WordOrder.LOW_FIRST) -> TagValue:
    """The value of ``words``. Text ends at the first NUL, low byte first. Raises SlmpError ``word-count``,
    ``character``."""
    if kind is WordType.TEXT:
        raw = b"".join(word.to_bytes(2, "little") for word in words).partition(b"\0")[0]
        if not raw.isascii():
            raise SlmpError("character", found=raw[:32].hex(), expected="ASCII")
        return raw.decode("ascii")
    if len(words) != words_of(kind):
        raise SlmpError("word-count", found=str(len(words)), expected=f"{words_of(kind)} of {kind}")
    ordered = words if order is WordOrder.LOW_FIRST else words[::-1]
    value: int | float = struct.unpack(_CODES[kind], b"".join(word.to_bytes(2, "little") for word in ordered))[0]
    return value


def encode_words(kind: WordType, value: TagValue, order: WordOrder = WordOrder.LOW_FIRST) -> tuple[int, ...]:
    """Words of a number of exactly this type. Raises SlmpError ``value-type``, ``value-range`` (NaN, infinity too)."""
    if kind is WordType.TEXT or isinstance(value, bool | str) or value is None:
        raise SlmpError("value-type", found=type(value).__name__, expected=f"a number for {kind}")
    if kind in (WordType.REAL, WordType.LREAL):
        if not math.isfinite(value) or (kind is WordType.REAL and abs(value) > _FLOAT32_MAX):
            raise SlmpError("value-range", found=repr(value), expected=f"a finite {kind}")
        raw = struct.pack(_CODES[kind], value)
    else:
        if not isinstance(value, int):
            raise SlmpError("value-type", found=type(value).__name__, expected=f"an integer for {kind}")
        try:
            raw = struct.pack(_CODES[kind], value)
        except struct.error:
            raise SlmpError("value-range", found=str(value), expected=f"one that fits {kind}") from None
    words = tuple(int.from_bytes(raw[at : at + 2], "little") for at in range(0, len(raw), 2))
    return words if order is WordOrder.LOW_FIRST else words[::-1]
