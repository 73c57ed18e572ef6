"""What the processes tell about themselves: durations, counters, snapshots, logs, readiness."""

from sitsedge.telemetry.durations import DurationRing, StageDurations, percentiles_ms
from sitsedge.telemetry.process import ProcessSetup, prepare_process
from sitsedge.telemetry.snapshot import Snapshot, read_snapshot, write_snapshot

__all__ = [
    "DurationRing",
    "ProcessSetup",
    "Snapshot",
    "StageDurations",
    "percentiles_ms",
    "prepare_process",
    "read_snapshot",
    "write_snapshot",
]
