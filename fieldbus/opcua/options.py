"""What to ask of a server for a subscription: intervals, queues, triggers, deadbands (OPC 10000-4, 5.13 and 7.22)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ITEM_QUEUE_MAX = 100_000
"""Values a server may be asked to keep for one tag."""


class Trigger(StrEnum):
    """What makes a notification (OPC 10000-4, 7.10): ``STATUS_VALUE`` is the servers' default.

    ``STATUS_VALUE_TIMESTAMP`` also reports a value that was written again unchanged, if its source time moved.
    """

    STATUS = "status"
    STATUS_VALUE = "status-value"
    STATUS_VALUE_TIMESTAMP = "status-value-timestamp"


class DeadbandKind(StrEnum):
    """``ABSOLUTE`` in the variable's unit; ``PERCENT`` of its EURange (OPC 10000-8, 7.2)."""

    ABSOLUTE = "absolute"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Deadband:
    """Changes of a number up to ``value`` are not reported; a change of its quality always is.

    A server that cannot do it refuses the tag, and the tag is then refused here by name: fewer values than meant is
    a wrong measurement, more values an overload. ``here``: filter on our side instead, where the server does not.
    A percentage needs the variable's EURange; ``span`` stands in for the range where the server has none (with
    ``here`` only, since the server cannot know it).
    """

    kind: DeadbandKind
    value: float
    here: bool = False
    span: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError("a deadband must be a positive number")
        if self.kind is DeadbandKind.PERCENT and self.value > 100:
            raise ValueError("a deadband in percent must be at most 100")
        if self.span is not None:
            if self.kind is not DeadbandKind.PERCENT or not self.here:
                raise ValueError("a span belongs to a deadband in percent that is applied here")
            if not (math.isfinite(self.span) and self.span > 0):
                raise ValueError("a span must be a positive number")


@dataclass(frozen=True, slots=True)
class ItemOptions:
    """One tag's own settings; None takes the subscription's. ``discard_oldest`` False keeps the oldest of a full
    queue and replaces its newest (OPC 10000-4, 5.13.1.5): for events to be counted, never for control."""

    sampling_ms: float | None = None
    queue: int | None = None
    discard_oldest: bool = True
    trigger: Trigger | None = None
    deadband: Deadband | None = None

    def __post_init__(self) -> None:
        if self.sampling_ms is not None and not (math.isfinite(self.sampling_ms) and self.sampling_ms >= 0):
            raise ValueError("a sampling interval must not be negative")
        if self.queue is not None and not 1 <= self.queue <= ITEM_QUEUE_MAX:
            raise ValueError(f"a queue holds 1 to {ITEM_QUEUE_MAX} values")
        if self.deadband is not None and self.trigger not in (None, Trigger.STATUS_VALUE):
            # The standard makes STATUS_VALUE of a timestamp trigger with a deadband: nobody should rely on either.
            raise ValueError("a deadband goes with the trigger status-value only")


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """What to ask of the server: times in ms; ``item_queue`` values it keeps per tag between publishes;
    ``hand_over`` values kept here before the oldest is dropped and counted; ``items``: tags with own settings.

    ``latency_ms_max``: the deployment's claim of how old a change may be when it arrives; a server whose revised
    intervals cannot keep it is a finding ``latency-claim``. ``source_age_ms_max``: values older than this by their
    source time are dropped and counted where the same message brings a newer one of the tag: what a server kept
    during an outage arrives as a burst.
    """

    publishing_ms: float = 100.0
    sampling_ms: float = 0.0
    item_queue: int = 1
    hand_over: int = 1_024
    trigger: Trigger = Trigger.STATUS_VALUE
    items: Mapping[str, ItemOptions] = field(default_factory=dict)
    latency_ms_max: float | None = None
    source_age_ms_max: float | None = None

    def __post_init__(self) -> None:
        if not (self.publishing_ms > 0 and self.sampling_ms >= 0 and self.item_queue >= 1 and self.hand_over >= 1):
            raise ValueError("subscription times and queue lengths must be positive")
        for limit in (self.latency_ms_max, self.source_age_ms_max):
            if limit is not None and not limit > 0:
                raise ValueError("subscription limits must be positive")
        if self.trigger is not Trigger.STATUS_VALUE and any(item.deadband for item in self.items.values()):
            raise ValueError("a deadband goes with the trigger status-value only")

    def of(self, tag: str) -> ItemOptions:
        """The settings of one tag, nothing left open."""
        own = self.items.get(tag, ItemOptions())
        return ItemOptions(
            sampling_ms=self.sampling_ms if own.sampling_ms is None else own.sampling_ms,
            queue=self.item_queue if own.queue is None else own.queue,
            discard_oldest=own.discard_oldest,
            trigger=self.trigger if own.trigger is None else own.trigger,
            deadband=own.deadband,
        )
