"""TCP byte streams put together again from captured segments, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from fieldbus.capture.errors import CaptureError
from fieldbus.capture.limits import AHEAD_BYTES_MAX, AHEAD_SEGMENTS_MAX, FLOWS_MAX
from fieldbus.capture.packets import Segment

_WRAP = 1 << 32
_HALF = 1 << 31

End = tuple[bytes, int]


@dataclass(slots=True)
class Direction:
    """One direction of a connection: what is next, what came too early, what waits to be a whole telegram."""

    conn: int
    next: int | None = None
    ahead: dict[int, bytes] = field(default_factory=dict)
    buffer: bytearray = field(default_factory=bytearray)
    lost: bool = False


class Streams:
    """Follows every connection of a capture that ``add`` is given the segments of."""

    def __init__(self) -> None:
        self._flows: OrderedDict[tuple[End, End], Direction] = OrderedDict()
        self._connections = 0

    def direction(self, segment: Segment) -> Direction:
        """The state of the segment's direction; a connection has the same number in both."""
        key = (segment.source, segment.target)
        known = self._flows.get(key)
        if known is not None and not segment.syn:
            self._flows.move_to_end(key)
            return known
        back = self._flows.get((segment.target, segment.source))
        if back is not None and (known is None or back.conn > known.conn):
            number = back.conn  # the other side of a connection that the peer's segment began
        else:
            self._connections += 1
            number = self._connections
        known = self._flows[key] = Direction(number)
        while len(self._flows) > FLOWS_MAX:
            self._flows.popitem(last=False)
        return known

    @staticmethod
    def add(state: Direction, segment: Segment) -> bytes:
        """The bytes that are new and in order in the segment's direction. Raises CaptureError ``stream-gap`` once a
        gap can no longer close; the direction is ``lost`` from then on."""
        sequence = (segment.sequence + segment.syn) % _WRAP
        if state.lost:
            return b""
        if state.next is None:
            state.next = sequence
        if segment.data:
            _keep(state, sequence, segment.data)
        fresh = bytearray()
        while (piece := _take(state)) is not None:
            fresh += piece
        if len(state.ahead) > AHEAD_SEGMENTS_MAX or sum(map(len, state.ahead.values())) > AHEAD_BYTES_MAX:
            state.lost = True
            state.ahead.clear()
            state.buffer.clear()
            raise CaptureError(
                "stream-gap", found=f"a segment missing in connection {state.conn}", expected="the whole stream"
            )
        return bytes(fresh)


def _keep(state: Direction, sequence: int, data: bytes) -> None:
    if len(data) > len(state.ahead.get(sequence, b"")):
        state.ahead[sequence] = data


def _take(state: Direction) -> bytes | None:
    """New bytes of the first kept segment that reaches what is next; older repeats are dropped."""
    assert state.next is not None
    for sequence in list(state.ahead):
        behind = (state.next - sequence) % _WRAP
        if behind >= _HALF:
            continue  # still ahead
        data = state.ahead.pop(sequence)
        if behind < len(data):
            state.next = (sequence + len(data)) % _WRAP
            return data[behind:]
    return None
