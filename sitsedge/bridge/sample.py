"""From the values of single tags to whole samples. Pure: no clock, no socket, bounded memory.

A tag's value is a number, or it is not there and a StatusCode says why. Nothing is interpolated or carried over
where the policy does not say so; every sample that is not made is counted under one of the reasons below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fieldbus.opcua import ReadResult

BAD_TYPE_MISMATCH = 0x8074_0000
BAD_OUT_OF_RANGE = 0x803C_0000
"""StatusCodes (OPC 10000-6, annex A) given to a value that is no number, or no finite one."""

BAD_WAITING = 0x8032_0000
"""Bad_WaitingForInitialData: nothing was heard of the tag yet."""

BAD_GONE = 0x8031_0000
"""Bad_NoCommunication: the connection the value would come by is not there."""

OPEN_CYCLES_MAX = 64
"""Source timestamps that may wait for their last tag at once: a server may deliver tag by tag, so this covers
two publishes of 32 queued values; older ones are given up."""

INTEGER_EXACT_MAX = 2**53
"""Larger integers have no exact Double, and a sample must not hold a rounded one."""

INCOMPLETE = "incomplete"
OUT_OF_ORDER = "out-of-order"
NO_SOURCE_TIMESTAMP = "no-source-timestamp"
STALE_TAG = "stale-tag"
BAD_TRIGGER = "bad-trigger"


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A tag's value in one sample: ``value`` is None exactly where ``status`` is bad."""

    value: float | None
    status: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Fields in tag order, at one source time (Unix ns)."""

    t_source_ns: int
    fields: tuple[FieldValue, ...]

    @property
    def status(self) -> int:
        """The worst StatusCode by severity; 0 when all are good."""
        return max((field.status for field in self.fields), key=lambda status: status >> 30)

    @property
    def good(self) -> bool:
        """Whether every field is Good."""
        return self.status >> 30 == 0


def bad_fields(count: int, status: int) -> tuple[FieldValue, ...]:
    """``count`` fields without a value."""
    return (FieldValue(None, status),) * count


class Assembler(Protocol):
    """Makes samples of values in order of arrival.

    ``lacking``: tags that the server does not have or monitor now, with a bad StatusCode; samples are made without
    them, so that one dead node does not hold up the others.
    """

    dropped: Counter[str]
    lacking: Mapping[str, int]

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """Samples that ``values`` complete, in time order."""
        ...

    def reset(self) -> None:
        """Forget unfinished samples: values from before and after an outage are never mixed."""
        ...


def number_of(value: object, status: int) -> FieldValue:
    """The number in a value, or why there is none. A Boolean or a text is no number, whatever it looks like."""
    if status >> 30 >= 2:
        return FieldValue(None, status)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return FieldValue(None, BAD_TYPE_MISMATCH)
    if not math.isfinite(value) or (isinstance(value, int) and abs(value) > INTEGER_EXACT_MAX):
        return FieldValue(None, BAD_OUT_OF_RANGE)
    return FieldValue(float(value), status)


def field_of(result: ReadResult) -> FieldValue:
    """The field of a value as it was subscribed."""
    return number_of(result.value, result.status)


class SameTimestampAssembler:
    """A sample when every tag has a value with the same source timestamp."""

    def __init__(self, tags: Sequence[str]) -> None:
        self._places = {tag: place for place, tag in enumerate(tags)}
        self._open: dict[int, dict[int, FieldValue]] = {}
        self._last_ns = -1
        self.dropped: Counter[str] = Counter()
        self.lacking: Mapping[str, int] = {}

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """See :class:`Assembler`. A value for a time already passed on is counted ``out-of-order``."""
        made: list[Sample] = []
        for result in values:
            if result.t_source_ns is None:
                self.dropped[NO_SOURCE_TIMESTAMP] += 1
                continue
            if result.t_source_ns <= self._last_ns:
                self.dropped[OUT_OF_ORDER] += 1
                continue
            fields = self._open.setdefault(result.t_source_ns, {})
            fields[self._places[result.tag]] = field_of(result)
            if all(place in fields or tag in self.lacking for tag, place in self._places.items()):
                made.append(self._close(result.t_source_ns))
            elif len(self._open) > OPEN_CYCLES_MAX:
                del self._open[min(self._open)]
                self.dropped[INCOMPLETE] += 1
        return made

    def _close(self, t_source_ns: int) -> Sample:
        fields = self._open.pop(t_source_ns)
        older = [moment for moment in self._open if moment < t_source_ns]
        for moment in older:
            # The loop takes samples in time order only, so what is older than one passed on is of no use any more.
            del self._open[moment]
        self.dropped[INCOMPLETE] += len(older)
        self._last_ns = t_source_ns
        made = [fields.get(place) or FieldValue(None, self.lacking[tag]) for tag, place in self._places.items()]
        return Sample(t_source_ns, tuple(made))

    def reset(self) -> None:
        """See :class:`Assembler`; unfinished samples are counted ``incomplete``."""
        self.dropped[INCOMPLETE] += len(self._open)
        self._open.clear()


class TriggerAssembler:
    """A sample whenever the trigger has a new source timestamp, with the latest value of each tag.

    ``trigger`` is one of ``tags`` or another variable; ``skew_ns_max`` None: a tag without news is unchanged.
    """

    def __init__(self, tags: Sequence[str], *, trigger: str, skew_ns_max: int | None) -> None:
        self._tags = tuple(tags)
        self._trigger = trigger
        self._skew_ns_max = skew_ns_max
        self._latest: dict[str, ReadResult] = {}
        self._last_ns = -1
        self.dropped: Counter[str] = Counter()
        self.lacking: Mapping[str, int] = {}

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """See :class:`Assembler`.

        ``values`` are put in source-time order first, the trigger last at equal times, because a server delivers
        what one publish gathered tag by tag, not instant by instant.
        """
        timed = [(result.t_source_ns, result) for result in values if result.t_source_ns is not None]
        self.dropped[NO_SOURCE_TIMESTAMP] += len(values) - len(timed)
        timed.sort(key=lambda item: (item[0], item[1].tag == self._trigger))
        made: list[Sample] = []
        for moment, result in timed:
            before = self._latest.get(result.tag)
            if before is not None and before.t_source_ns is not None and moment < before.t_source_ns:
                self.dropped[OUT_OF_ORDER] += 1
                continue
            self._latest[result.tag] = result
            if result.tag == self._trigger:
                sample = self._sample(moment)
                made += [] if sample is None else [sample]
        return made

    def _sample(self, t_source_ns: int) -> Sample | None:
        """The sample of this trigger, or None with the reason counted."""
        known = [self._latest[tag] for tag in self._tags if tag in self._latest and tag not in self.lacking]
        reason = None
        if t_source_ns <= self._last_ns:
            reason = OUT_OF_ORDER
        elif any(tag not in self._latest and tag not in self.lacking for tag in self._tags):
            reason = INCOMPLETE
        elif any(self._is_stale(result, t_source_ns) for result in known):
            reason = STALE_TAG
        elif self._latest[self._trigger].status >> 30 >= 2 and self._trigger not in self._tags:
            reason = BAD_TRIGGER
        if reason is not None:
            self.dropped[reason] += 1
            return None
        self._last_ns = t_source_ns
        return Sample(t_source_ns, tuple(map(self._field, self._tags)))

    def _field(self, tag: str) -> FieldValue:
        status = self.lacking.get(tag)
        return field_of(self._latest[tag]) if status is None else FieldValue(None, status)

    def _is_stale(self, result: ReadResult, t_source_ns: int) -> bool:
        assert result.t_source_ns is not None
        return self._skew_ns_max is not None and abs(t_source_ns - result.t_source_ns) > self._skew_ns_max

    def reset(self) -> None:
        """See :class:`Assembler`; the server sends every tag's current value after a reconnect."""
        self._latest.clear()


class LatestAssembler:
    """All tags with what the server last said of each, whenever it says something; at the newest time among them."""

    def __init__(self, tags: Sequence[str]) -> None:
        self._fields = dict.fromkeys(tags, FieldValue(None, BAD_WAITING))
        self._newest_ns = 0
        self.dropped: Counter[str] = Counter()
        self.lacking: Mapping[str, int] = {}
        self._lacked: Mapping[str, int] = {}

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """See :class:`Assembler`; one sample for all of ``values``, and for other tags that are lacking."""
        for result in values:
            if result.t_source_ns is None:
                self.dropped[NO_SOURCE_TIMESTAMP] += 1
                self._fields[result.tag] = FieldValue(None, BAD_WAITING)
                continue
            self._newest_ns = max(self._newest_ns, result.t_source_ns)
            self._fields[result.tag] = field_of(result)
        fields = self._fields | {tag: FieldValue(None, status) for tag, status in self.lacking.items()}
        news = bool(values) or self.lacking != self._lacked
        self._lacked = dict(self.lacking)
        return [Sample(self._newest_ns, tuple(fields[tag] for tag in self._fields))] if news else []

    def reset(self) -> None:
        """See :class:`Assembler`."""
        self._fields = dict.fromkeys(self._fields, FieldValue(None, BAD_WAITING))
