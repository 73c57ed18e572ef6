"""Trust in time: freshness of frames, steps of the wall clock, what holds it (PTP, NTP, nothing), event measures."""

from fieldbus.clock.discipline import ClockQuality, Hold, PtpDiscipline, PtpPolicy
from fieldbus.clock.freshness import ClockFault, FreshnessCheck, FreshnessPolicy
from fieldbus.clock.measures import DeltaE, DeltaEFigures, MeasureFault, SyncWindow
from fieldbus.clock.ptp_client import PtpClient, PtpStatus
from fieldbus.clock.ptp_messages import PtpError
from fieldbus.clock.quality import TimeQuality, TimeQualityKind, time_quality
from fieldbus.clock.step import ClockStepDetector
from fieldbus.clock.watch import PtpWatch

__all__ = [
    "ClockFault",
    "ClockQuality",
    "ClockStepDetector",
    "DeltaE",
    "DeltaEFigures",
    "FreshnessCheck",
    "FreshnessPolicy",
    "Hold",
    "MeasureFault",
    "PtpClient",
    "PtpDiscipline",
    "PtpError",
    "PtpPolicy",
    "PtpStatus",
    "PtpWatch",
    "SyncWindow",
    "TimeQuality",
    "TimeQualityKind",
    "time_quality",
]
