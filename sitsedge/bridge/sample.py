"""From the values of single tags to whole samples. Pure: no clock, no socket, bounded memory.

A tag's value is a number, or it is not there and a StatusCode says why. Nothing is interpolated or carried over
where the policy does not say so; every sample that is not whole is counted under one of the reasons below.
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

BAD_NO_DATA = 0x809B_0000
"""Bad_NoData: there is no value of the sample's time."""

BAD_LOST = 0x809D_0000
"""Bad_DataLost: a value came, but never all that belong to it."""

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

    def given_up(self, before_ns: int) -> tuple[FieldValue, ...] | None:
        """Fields without values, with reasons, if since the last call values came and no sample was or will be made.

        What is unfinished counts as given up if it is of a time (Unix ns) before ``before_ns``.
        """
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
        self._heard: set[int] = set()
        self._lost = 0  # values since the last look that can be in no sample
        self._made = False
        self.dropped: Counter[str] = Counter()
        self.lacking: Mapping[str, int] = {}

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """See :class:`Assembler`. A value for a time already passed on is counted ``out-of-order``."""
        made: list[Sample] = []
        for result in values:
            if result.t_source_ns is None:
                self.dropped[NO_SOURCE_TIMESTAMP] += 1
                self._lost += 1
                continue
            self._heard.add(self._places[result.tag])
            if result.t_source_ns <= self._last_ns:
                self.dropped[OUT_OF_ORDER] += 1
                self._lost += result.t_source_ns < self._last_ns
                continue
            fields = self._open.setdefault(result.t_source_ns, {})
            fields[self._places[result.tag]] = field_of(result)
            if all(place in fields or tag in self.lacking for tag, place in self._places.items()):
                made.append(self._close(result.t_source_ns))
            elif len(self._open) > OPEN_CYCLES_MAX:
                del self._open[min(self._open)]
                self.dropped[INCOMPLETE] += 1
                self._lost += len(self._places)
        self._made = self._made or bool(made)
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

    def given_up(self, before_ns: int) -> tuple[FieldValue, ...] | None:
        """See :class:`Assembler`. Values without a time, or of a time long past, count once there is one for each tag.

        A tag that was not in the newest sample given up has no data, one that was is lost with it.
        """
        if self._made:  # what has been unfinished since is looked at the next time
            self._made, self._lost = False, 0
            return None
        dead = [moment for moment in self._open if moment < before_ns]
        newest = self._open[max(dead)] if dead else {}
        for moment in dead:
            del self._open[moment]
        self.dropped[INCOMPLETE] += len(dead)
        silent = bool(dead) or self._lost >= len(self._places)
        self._lost = 0
        return tuple(self._reason(tag, place, newest) for tag, place in self._places.items()) if silent else None

    def _reason(self, tag: str, place: int, newest: Mapping[int, FieldValue]) -> FieldValue:
        if (status := self.lacking.get(tag)) is not None:
            return FieldValue(None, status)
        if place not in self._heard:
            return FieldValue(None, BAD_WAITING)
        known = newest.get(place)
        if known is None:
            return FieldValue(None, BAD_NO_DATA)
        return known if known.value is None else FieldValue(None, BAD_LOST)

    def reset(self) -> None:
        """See :class:`Assembler`; unfinished samples are counted ``incomplete``."""
        self.dropped[INCOMPLETE] += len(self._open)
        self._open.clear()
        self._heard.clear()


class TriggerAssembler:
    """A sample whenever the trigger has a new source timestamp, with the latest value of each tag.

    A tag that was never heard of or is too far from the trigger's time has none in it, and where the trigger is bad
    no tag has: the loop is to hear of such a cycle. It is counted all the same.

    ``trigger`` is one of ``tags`` or another variable; ``skew_ns_max`` None: a tag without news is unchanged.
    """

    def __init__(self, tags: Sequence[str], *, trigger: str, skew_ns_max: int | None) -> None:
        self._tags = tuple(tags)
        self._trigger = trigger
        self._skew_ns_max = skew_ns_max
        self._latest: dict[str, ReadResult] = {}
        self._last_ns = -1
        self._lost: int | None = None  # why the trigger's last news made no sample
        self.dropped: Counter[str] = Counter()
        self.lacking: Mapping[str, int] = {}

    def take(self, values: Sequence[ReadResult]) -> list[Sample]:
        """See :class:`Assembler`.

        ``values`` are put in source-time order first, the trigger last at equal times, because a server delivers
        what one publish gathered tag by tag, not instant by instant.
        """
        timed = [(result.t_source_ns, result) for result in values if result.t_source_ns is not None]
        self.dropped[NO_SOURCE_TIMESTAMP] += len(values) - len(timed)
        if any(result.tag == self._trigger and result.t_source_ns is None for result in values):
            self._lost = BAD_WAITING
        timed.sort(key=lambda item: (item[0], item[1].tag == self._trigger))
        made: list[Sample] = []
        for moment, result in timed:
            before = self._latest.get(result.tag)
            if before is not None and before.t_source_ns is not None and moment < before.t_source_ns:
                self.dropped[OUT_OF_ORDER] += 1
                self._lost = BAD_LOST if result.tag == self._trigger else self._lost
                continue
            self._latest[result.tag] = result
            if result.tag == self._trigger:
                made += self._sample(moment)
        return made

    def _sample(self, t_source_ns: int) -> list[Sample]:
        """The sample of this trigger, with what is wrong with it counted; none for a time passed on already."""
        if t_source_ns <= self._last_ns:
            self.dropped[OUT_OF_ORDER] += 1
            self._lost = BAD_LOST if t_source_ns < self._last_ns else self._lost
            return []
        trigger = self._latest[self._trigger].status
        if trigger >> 30 >= 2 and self._trigger not in self._tags:
            self.dropped[BAD_TRIGGER] += 1
            fields = bad_fields(len(self._tags), trigger)
        else:
            fields = tuple(self._field(tag, t_source_ns) for tag in self._tags)
            asked = [tag for tag in self._tags if tag not in self.lacking]
            if any(tag not in self._latest for tag in asked):
                self.dropped[INCOMPLETE] += 1
            elif any(self._is_stale(self._latest[tag], t_source_ns) for tag in asked):
                self.dropped[STALE_TAG] += 1
        self._last_ns, self._lost = t_source_ns, None
        return [Sample(t_source_ns, fields)]

    def _field(self, tag: str, t_source_ns: int) -> FieldValue:
        latest, status = self._latest.get(tag), self.lacking.get(tag)
        if status is not None or latest is None:
            return FieldValue(None, BAD_WAITING if status is None else status)
        field = field_of(latest)
        # What was bad keeps its reason; only numbers are of the wrong time.
        late = field.value is not None and self._is_stale(latest, t_source_ns)
        return FieldValue(None, BAD_NO_DATA) if late else field

    def _is_stale(self, result: ReadResult, t_source_ns: int) -> bool:
        assert result.t_source_ns is not None
        return self._skew_ns_max is not None and abs(t_source_ns - result.t_source_ns) > self._skew_ns_max

    def given_up(self, before_ns: int) -> tuple[FieldValue, ...] | None:
        """See :class:`Assembler`. Only a trigger without a time, or of a time already past, makes no sample."""
        lost, self._lost = self._lost, None
        if lost is None:
            return None
        return tuple(FieldValue(None, self.lacking.get(tag, lost)) for tag in self._tags)

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

    def given_up(self, before_ns: int) -> tuple[FieldValue, ...] | None:
        """See :class:`Assembler`. Nothing: it says all that it hears."""
        return None

    def reset(self) -> None:
        """See :class:`Assembler`."""
        self._fields = dict.fromkeys(self._fields, FieldValue(None, BAD_WAITING))
