"""Patches: how one blob of a delta is rebuilt from the base's blob of the same layer. Format and strict decoder.

A patch is one zlib stream (RFC 1950) of records: u32 n, n new bytes, u32 offset, u32 length, all big-endian: the new
bytes, then ``length`` bytes of the source from ``offset`` on. The idea is that of VCDIFF (RFC 3284), with two
instructions instead of a code table, and copies from the source alone, never from what is being written. The size
of the result is not in the patch: it is that of the signed manifest, so a patch cannot make anything grow.

Rules, each refused as ``delta-patch`` with what was found: the stream is valid, complete and followed by nothing; a
record is whole; only the last may copy nothing (0 from 0), and then brings new bytes; a copy has at least
``COPY_BYTES_MIN`` bytes and lies inside the source; there are at most ``RECORDS_MAX`` records; the result has the size
that was signed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from sitsedge.modules.errors import BundleError

COPY_BYTES_MIN = 16
"""A shorter copy costs as much as its bytes; with it, a patch of N bytes of result has at most N / 16 records."""

RECORDS_MAX = 1 << 18
"""Bounds the time of the decoder, which works record by record in Python."""

PIECE_BYTES = 1 << 16
"""What is held at a time, apart from the patch itself."""

_COUNT = struct.Struct(">I")
_COPY = struct.Struct(">II")


class Source(Protocol):
    """The base's blob, read piece by piece."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on, which lie inside."""


def encode_patch(records: Iterator[tuple[bytes, int, int]]) -> bytes:
    """The patch of ``records``: (new bytes, offset, length) as the module's page says, canonical."""
    deflate = zlib.compressobj(9)
    parts = []
    for added, offset, length in records:
        parts += [deflate.compress(_COUNT.pack(len(added)) + added), deflate.compress(_COPY.pack(offset, length))]
    return b"".join((*parts, deflate.flush()))


def apply_patch(patch: bytes, source: Source, write: Callable[[bytes], object], *, size: int, what: str) -> None:
    """Rebuild ``size`` bytes of the layer ``what`` into ``write``, piece by piece; raises ``BundleError``."""
    stream = _Inflated(patch, what)
    left, records = size, 0
    while left:
        records += 1
        if records > RECORDS_MAX:
            raise _refused(what, f"over {RECORDS_MAX} records", f"at most {RECORDS_MAX}")
        (added,) = _COUNT.unpack(stream.read(_COUNT.size))
        left = _reduced(left, added, what)
        for piece in _pieces(added):
            write(stream.read(piece))
        offset, length = _COPY.unpack(stream.read(_COPY.size))
        left = _reduced(left, length, what)
        if length == 0:
            if offset or left or not added:
                raise _refused(what, "a record that copies nothing", "one only at the end, with new bytes")
            break
        if length < COPY_BYTES_MIN or offset + length > source.size:
            raise _refused(
                what,
                f"a copy of {length} bytes from {offset}",
                f"≥ {COPY_BYTES_MIN} bytes inside the base's {source.size}",
            )
        for piece in _pieces(length):
            write(source.read(offset, piece))
            offset += piece
    stream.end()


def _reduced(left: int, count: int, what: str) -> int:
    if count > left:
        raise _refused(what, f"{count - left} bytes too many", "the size in the signed manifest")
    return left - count


def _pieces(count: int) -> Iterator[int]:
    while count:
        piece = min(count, PIECE_BYTES)
        yield piece
        count -= piece


class _Inflated:
    """The bytes of a zlib stream, as many as asked for and no more."""

    def __init__(self, data: bytes, what: str) -> None:
        self._inflate = zlib.decompressobj()
        self._data, self._fed, self._tail = data, 0, b""
        self._ready, self._at = b"", 0
        self._what = what

    def read(self, count: int) -> bytes:
        """``count`` bytes, at most ``PIECE_BYTES``."""
        while len(self._ready) - self._at < count:
            more = self._more()
            if not more:
                raise _refused(self._what, "a patch that ends too early", "a whole one")
            self._ready, self._at = self._ready[self._at :] + more, 0
        self._at += count
        return self._ready[self._at - count : self._at]

    def end(self) -> None:
        """Nothing may follow, and the stream's own checksum must have been seen."""
        more = self._at < len(self._ready) or self._more()
        if more or not self._inflate.eof or self._inflate.unused_data or self._fed < len(self._data):
            raise _refused(self._what, "more or less than the blob needs", "a patch that ends with the blob")

    def _more(self) -> bytes:
        """The next bytes, at most a piece; empty at the end of the stream or of the data."""
        while not self._inflate.eof and (self._tail or self._fed < len(self._data)):
            if not self._tail:
                self._tail = self._data[self._fed : self._fed + PIECE_BYTES]
                self._fed += len(self._tail)
            try:
                data = self._inflate.decompress(self._tail, PIECE_BYTES)
            except zlib.error as error:
                raise _refused(self._what, str(error)[:80], "a zlib stream") from error
            self._tail = self._inflate.unconsumed_tail
            if data:
                return data
        return b""


def _refused(what: str, found: str, expected: str) -> BundleError:
    return BundleError("delta-patch", found=f"{what}: {found}", expected=expected, hint="the delta is damaged")
