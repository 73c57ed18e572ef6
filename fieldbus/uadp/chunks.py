"""Chunks (OPC 10000-14, 7.2.4.4.4): cutting a payload that does not fit, and putting it together again.

Reassembly holds a bounded number of payloads, chunks and bytes for a bounded time; what goes beyond gives way.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.decoder import decode_data_set_message
from fieldbus.uadp.discovery import Announcement, StatusAnnouncement, decode_announcement
from fieldbus.uadp.encoder import encode, encode_payload
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import (
    ASSEMBLIES_MAX,
    ASSEMBLY_AGE_NS,
    ASSEMBLY_BYTES_MAX,
    CHUNKS_MAX,
    MESSAGE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
)
from fieldbus.uadp.model import Chunk, DataSetMessage, MessageKind, NetworkMessage, PublisherId

_Key: TypeAlias = tuple[PublisherId | None, int | None, int | None, bool, int]


def split(message: NetworkMessage, size_max: int) -> tuple[NetworkMessage, ...]:
    """``message`` itself where it fits ``size_max`` bytes, else its chunks in order, each of at most that size.

    Only a message with one valid DataSetMessage that has a sequence number, or with one announcement, can be cut.
    Message security adds to the size: take it off before. Raises UadpError ``chunk-unsplittable``,
    ``chunk-size`` (no room beside the headers), ``chunk-count``, ``chunk-total`` or an encoder's code.
    """
    sequence, announcement = _identity(message)
    payload = encode_payload(message)
    writer_id = message.writer_ids[0] if message.writer_ids is not None else None
    empty = Chunk(writer_id, sequence, 0, 1, b"x", announcement)
    carrier = replace(message, messages=(), writer_ids=None, discovery=None, chunk=empty)
    overhead = len(encode(carrier)) - 1
    if len(payload) + _header_bytes(message) <= min(size_max, MESSAGE_BYTES_MAX):
        return (message,)
    room = size_max - overhead
    if room < 1:
        raise UadpError("chunk-size", found=f"{size_max} bytes", expected=f"more than {overhead} bytes of headers")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise UadpError("chunk-total", found=f"{len(payload)} bytes", expected=f"at most {PAYLOAD_BYTES_MAX}")
    if -(-len(payload) // room) > CHUNKS_MAX:
        raise UadpError("chunk-count", found=f"{len(payload)} bytes by {room}", expected=f"at most {CHUNKS_MAX} chunks")
    pieces = [(at, payload[at : at + room]) for at in range(0, len(payload), room)]
    return tuple(
        [
            replace(carrier, chunk=Chunk(writer_id, sequence, at, len(payload), piece, announcement))
            for at, piece in pieces
        ]
    )


def _header_bytes(message: NetworkMessage) -> int:
    """Bytes of everything before the payload, with the smallest payload there is in its place."""
    if isinstance(message.discovery, Announcement):
        small = replace(message, discovery=Announcement(0, StatusAnnouncement(0)))
        return len(encode(small)) - len(encode_payload(small))
    small = replace(message, messages=(DataSetMessage(MessageKind.KEEP_ALIVE),))
    return len(encode(small)) - len(encode_payload(small))


def _identity(message: NetworkMessage) -> tuple[int, bool]:
    """Sequence number of the payload, and whether it is an announcement."""
    if isinstance(message.discovery, Announcement):
        return message.discovery.sequence, True
    if len(message.messages) == 1 and message.messages[0].valid and message.messages[0].sequence is not None:
        return message.messages[0].sequence, False
    raise UadpError(
        "chunk-unsplittable",
        found=f"{len(message.messages)} DataSetMessages",
        expected="one valid DataSetMessage with a sequence number, or one announcement",
    )


@dataclass(slots=True)
class _Assembly:
    first: NetworkMessage
    total: int
    size: int  # of every chunk but the last; 0 until one that is not the last has come
    since_ns: int
    received: int = 0
    last_at: int | None = None
    pieces: dict[int, bytes] = field(default_factory=dict)


class Reassembler:
    """Puts payloads together from chunks in any order, of any number of publishers; not for several threads.

    ``dropped`` counts payloads given up: too old, displaced by newer ones, or contradicting themselves.
    """

    __slots__ = ("_bytes", "_open", "dropped")

    def __init__(self) -> None:
        self._open: OrderedDict[_Key, _Assembly] = OrderedDict()
        self._bytes = 0
        self.dropped = 0

    @property
    def pending(self) -> int:
        """Payloads not complete yet."""
        return len(self._open)

    @property
    def pending_bytes(self) -> int:
        """Bytes held for them."""
        return self._bytes

    def add(self, message: NetworkMessage, now_ns: int) -> NetworkMessage | None:
        """The whole message once its last missing chunk is here, else None; a message that is no chunk comes back.

        ``now_ns``: any clock that does not go back. Raises UadpError ``chunk-mismatch`` (chunks that contradict
        each other; the payload is dropped), ``chunk-count``, or what decoding the payload raises.
        """
        chunk = message.chunk
        if chunk is None:
            return message
        self._expire(now_ns)
        group = message.group.writer_group_id if message.group is not None else None
        key = (message.publisher, group, chunk.writer_id, chunk.announcement, chunk.sequence)
        assembly = self._open.get(key)
        if assembly is None:
            assembly = self._open[key] = _Assembly(message, chunk.total, 0, now_ns)
        try:
            added = _fit(assembly, chunk)
        except UadpError:
            self._drop(key)
            raise
        self._bytes += added
        if assembly.received == assembly.total:
            self._close(key)
            return _whole(assembly)
        self._make_room(key)
        return None

    def _expire(self, now_ns: int) -> None:
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if now_ns - oldest.since_ns <= ASSEMBLY_AGE_NS:
                return
            self._drop(key)

    def _make_room(self, newest: _Key) -> None:
        while len(self._open) > ASSEMBLIES_MAX or self._bytes > ASSEMBLY_BYTES_MAX:
            oldest = next(iter(self._open))
            if oldest == newest and len(self._open) == 1:
                return  # one payload alone is bounded by PAYLOAD_BYTES_MAX
            self._drop(oldest)

    def _close(self, key: _Key) -> None:
        self._bytes -= self._open.pop(key).received

    def _drop(self, key: _Key) -> None:
        self._close(key)
        self.dropped += 1


def _fit(assembly: _Assembly, chunk: Chunk) -> int:
    """Put ``chunk`` in its place; bytes added (0 for a repeated chunk).

    All chunks but the last have one size and begin at a multiple of it, the last is no longer: so chunks cannot
    overlap, and as many bytes as the payload has are the payload.
    """
    held = assembly.pieces.get(chunk.offset)
    if held is not None and held == chunk.data and chunk.total == assembly.total:
        return 0
    last = chunk.offset + len(chunk.data) == chunk.total
    size = assembly.size if last or assembly.size else len(chunk.data)
    last_at = chunk.offset if last else assembly.last_at
    agree = (
        held is None
        and chunk.total == assembly.total
        and (not last or assembly.last_at is None)
        and (last or len(chunk.data) == size)
        and (not size or chunk.offset % size == 0)
        and (not size or last_at is None or (last_at % size == 0 and chunk.total - last_at <= size))
    )
    if not agree:
        raise UadpError(
            "chunk-mismatch",
            found=f"{len(chunk.data)} bytes at {chunk.offset} of {chunk.total}",
            expected="chunks of one size that agree about the payload",
        )
    if len(assembly.pieces) >= CHUNKS_MAX:
        raise UadpError("chunk-count", found="more chunks", expected=f"at most {CHUNKS_MAX}")
    assembly.size, assembly.last_at = size, last_at
    assembly.pieces[chunk.offset] = chunk.data
    assembly.received += len(chunk.data)
    return len(chunk.data)


def _whole(assembly: _Assembly) -> NetworkMessage:
    payload = b"".join([assembly.pieces[at] for at in sorted(assembly.pieces)])
    first, chunk = assembly.first, assembly.first.chunk
    assert chunk is not None
    assert len(payload) == assembly.total
    if chunk.announcement:
        return replace(first, chunk=None, discovery=decode_announcement(Cursor(payload, 0, len(payload))))
    writer_ids = (chunk.writer_id,) if chunk.writer_id is not None else None
    return replace(first, chunk=None, writer_ids=writer_ids, messages=(decode_data_set_message(payload),))
