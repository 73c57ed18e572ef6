"""From the samples of single stations to samples of the whole DataSet. Pure: no clock, no socket, bounded memory.

The trigger's sample makes one; the others add what they had said by then, or bad fields. A station that is gone never
holds up a sample and never leaves an old value in one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sitsedge.bridge.sample import BAD_NO_DATA, BAD_WAITING, FieldValue, Sample, bad_fields

REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class StationSample:
    """A station's tags in its order, at one time (Unix ns).

    ``held``: the values stand until the station says something else, as those of a subscription do, so their age
    says nothing. A station that loses its connection must say so with bad ones.
    """

    t_source_ns: int
    fields: tuple[FieldValue, ...]
    held: bool = False


class Combiner:
    """Samples of ``stations`` (name → its tags) as one DataSet in ``order``; ``trigger`` is one of the names."""

    def __init__(
        self,
        stations: Mapping[str, Sequence[str]],
        order: Sequence[str],
        *,
        trigger: str,
        skew_ns_max: int,
        age_ns_max: int,
    ) -> None:
        places = {tag: place for place, tag in enumerate(order)}
        self._places = {name: tuple(places[tag] for tag in tags) for name, tags in stations.items()}
        self._trigger = trigger
        self._skew_ns_max, self._age_ns_max = skew_ns_max, age_ns_max
        self._latest: dict[str, StationSample] = {}
        self.dropped: Counter[str] = Counter()
        self.unmatched: Counter[str] = Counter()
        """Samples in which a station's values were of another time, by station."""

    def take(self, station: str, sample: StationSample, now_ns: int) -> Sample | None:
        """The sample of the whole that ``sample`` makes, if it is the trigger's; counted ``repeated`` if its time is
        that of the last one. ``now_ns``: CLOCK_REALTIME."""
        before = self._latest.get(station)
        self._latest[station] = sample
        if station != self._trigger:
            return None
        if before is not None and before.t_source_ns == sample.t_source_ns:
            self.dropped[REPEATED] += 1
            return None
        fields: list[FieldValue | None] = [None] * sum(map(len, self._places.values()))
        for name, places in self._places.items():
            for place, field in zip(places, self._fields(name, sample.t_source_ns, now_ns), strict=True):
                fields[place] = field
        return Sample(sample.t_source_ns, tuple(field for field in fields if field is not None))

    def _fields(self, name: str, t_source_ns: int, now_ns: int) -> tuple[FieldValue, ...]:
        count = len(self._places[name])
        latest = self._latest.get(name)
        if latest is None:
            return bad_fields(count, BAD_WAITING)
        apart = abs(t_source_ns - latest.t_source_ns) > self._skew_ns_max
        old = now_ns - latest.t_source_ns > self._age_ns_max
        if name == self._trigger or latest.held or not (apart or old):
            return latest.fields
        self.unmatched[name] += 1
        # What was bad keeps its reason; only numbers are of the wrong time.
        return tuple(field if field.value is None else FieldValue(None, BAD_NO_DATA) for field in latest.fields)
