"""Finding what a new blob shares with an old one, for the patches of a delta.

Every 16th window of 16 bytes of the old blob is indexed by a 64-bit polynomial hash, every window of the new one is
looked up, and what agrees is grown in both directions, so that everything shared from 31 bytes on can be found,
wherever it moved. The hash (Rabin and Karp 1987, with window lengths doubled in NumPy) only proposes: bytes are
compared before anything is copied, so a wrong guess costs size and never the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

WINDOW = 16
COPY_BYTES_MIN = 32
"""What the encoder copies; below this a copy costs about what its bytes cost once deflated."""

PIECE_BYTES = 1 << 22
"""Windows hashed at a time, a multiple of ``WINDOW``: 32 MiB of hashes. Beside that the index takes about as much
memory as the old blob, which only the publisher's machine has to have."""

BACK_BYTES_MAX = 1 << 12
"""Growing back goes byte by byte; what is shared further back had a window of its own."""

_FACTOR = 0x9E3779B97F4A7C15
"""Odd, so that no byte of a window is lost modulo 2^64; the golden ratio's digits."""

Words = NDArray[np.uint64]


def records(old: bytes, new: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(new bytes, offset in ``old``, length) as ``patch.encode_patch`` takes them: greedy, deterministic."""
    written = 0
    for at, source, length in _copies(old, new):
        yield new[written:at], source, length
        written = at + length
    if written < len(new):
        yield new[written:], 0, 0


def _copies(old: bytes, new: bytes) -> Iterator[tuple[int, int, int]]:
    """(position in ``new``, position in ``old``, length), ascending and without overlap in ``new``."""
    hashes, places = _index(old)
    if not len(hashes):
        return
    written = shift = 0
    for base in range(0, len(new) - WINDOW + 1, PIECE_BYTES):
        found = _hashes(new[base : base + PIECE_BYTES + WINDOW - 1])
        slots = np.minimum(np.searchsorted(hashes, found), len(hashes) - 1)
        hits = np.flatnonzero(hashes[slots] == found)
        following = int(np.searchsorted(hits, written - base))
        while following < len(hits):
            at = base + int(hits[following])
            source = int(places[slots[hits[following]]])
            along = at + shift
            if 0 <= along <= len(old) - WINDOW and old[along : along + WINDOW] == new[at : at + WINDOW]:
                # Goes on beside the last copy: after a change of a few bytes, the likeliest of several equal windows.
                source = along
            back = _common_back(old, source, new, at, at - written)
            length = back + _common(old, source, new, at)
            if length < COPY_BYTES_MIN:
                following += 1
                continue
            yield at - back, source - back, length
            written, shift = at - back + length, source - at
            following = int(np.searchsorted(hits, written - base))


def _index(old: bytes) -> tuple[Words, NDArray[np.intp]]:
    """Hashes of every ``WINDOW``-th window, ascending and once each, with the first place of each."""
    pieces = [_hashes(old[at : at + PIECE_BYTES + WINDOW - 1])[::WINDOW] for at in range(0, len(old), PIECE_BYTES)]
    unique, first = np.unique(np.concatenate([*pieces, np.empty(0, np.uint64)]), return_index=True)
    return unique, first * WINDOW


def _hashes(data: bytes) -> Words:
    """The hash of the window at every position."""
    if len(data) < WINDOW:
        return np.empty(0, np.uint64)
    values = np.frombuffer(data, np.uint8).astype(np.uint64) + np.uint64(1)
    factor, width = _FACTOR, 1
    while width < WINDOW:
        values = values[:-width] * np.uint64(factor) + values[width:]
        factor, width = factor * factor % (1 << 64), 2 * width
    return values


def _common(old: bytes, source: int, new: bytes, at: int) -> int:
    """How many bytes agree from ``source`` and ``at`` on."""
    limit = min(len(old) - source, len(new) - at)
    done, step = 0, 64
    while done < limit:
        step = min(step, limit - done)
        left, right = old[source + done : source + done + step], new[at + done : at + done + step]
        if left != right:
            different = np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8)
            return done + int(different.argmax())
        done, step = done + step, min(2 * step, 1 << 20)
    return done


def _common_back(old: bytes, source: int, new: bytes, at: int, limit: int) -> int:
    """How many bytes agree before ``source`` and ``at``, up to ``limit``."""
    limit = min(limit, source, BACK_BYTES_MAX)
    done = 0
    while done < limit and old[source - done - 1] == new[at - done - 1]:
        done += 1
    return done
