"""Trust in time: freshness of frames, steps of the wall clock, quality of its synchronisation."""

from fieldbus.clock.freshness import ClockFault, FreshnessCheck, FreshnessPolicy
from fieldbus.clock.quality import TimeQuality, TimeQualityKind, time_quality
from fieldbus.clock.step import ClockStepDetector

__all__ = [
    "ClockFault",
    "ClockStepDetector",
    "FreshnessCheck",
    "FreshnessPolicy",
    "TimeQuality",
    "TimeQualityKind",
    "time_quality",
]
