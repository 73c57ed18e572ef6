"""What the PLC does with a request: take over, clamp, rate-limit, watch the heartbeat, let the operator win.

Pure and clock-free: time is the scan count, so that a simulation and the live PLC run the same code.

Rules
1. MAN selected by the operator wins over everything; without AutoRequest the block is in MAN as well. MAN holds
   the last applied values.
2. A request is a changed Sequence. Its values are taken over together in one scan or not at all.
3. NaN, Inf or an expired ValidUntil: refused, counted, nothing changes. A value beyond the limits: clamped.
4. Applied values move towards the request at a limited rate; Applied.Sequence follows when they have arrived.
5. Heartbeat unchanged for longer than ``heartbeat_scans``: watchdog trips, hold the last values for
   ``hold_scans``, then ramp to zero. A heartbeat that moves again clears it; the old request does not come back.
6. Entering AUTO is bumpless: the applied values stay until the next request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

SCAN_S = 0.002
GAP_LIMIT_MM = 0.4  # a tenth of the nominal exit thickness: more is a set-up error, not a correction
GAP_RATE_MM_S = 20.0
TRIM_LIMIT_PERCENT = 1.0
TRIM_RATE_PERCENT_S = 50.0
REACHED = 1e-9  # applied equals target except for the last rounding


class BlockMode(StrEnum):
    """State of the request block."""

    MAN = "MAN"
    AUTO = "AUTO"
    HOLD = "HOLD"
    FAILSAFE = "FAILSAFE"


class Refused(StrEnum):
    """Why a request was not taken over."""

    NONE = "none"
    NOT_FINITE = "not-finite"
    EXPIRED = "expired"
    NOT_AUTO = "not-auto"


@dataclass(frozen=True, slots=True)
class RequestImage:
    """Everything the network and the operator may say, copied as one object before a scan."""

    gap_correction_mm: float = 0.0
    speed_trim_percent: float = 0.0
    sequence: int = 0
    heartbeat: int = 0
    valid_until_ns: int = 0  # 0: no limit
    auto_request: bool = False
    manual_selected: bool = False


@dataclass(frozen=True, slots=True)
class BlockRules:
    """Limits of the block, on the PLC's side and independent of the network's."""

    gap_limit_mm: float = GAP_LIMIT_MM
    gap_rate_mm_s: float = GAP_RATE_MM_S
    trim_limit_percent: float = TRIM_LIMIT_PERCENT
    trim_rate_percent_s: float = TRIM_RATE_PERCENT_S
    heartbeat_s: float = 0.5
    hold_s: float = 1.0
    failsafe_s: float = 3.0  # time a full-scale correction takes to return to zero


@dataclass(frozen=True, slots=True)
class Applied:
    """Output image of one scan."""

    gap_correction_mm: float
    speed_trim_percent: float
    sequence: int
    mode: BlockMode
    watchdog_tripped: bool
    refused: Refused
    refused_count: int
    taken_count: int
    clamped_count: int
    trip_count: int
    scans: int


class Arbiter:
    """The request block's explicit state; :meth:`scan` is one PLC cycle of 2 ms."""

    def __init__(self, rules: BlockRules | None = None) -> None:
        self.rules = rules or BlockRules()
        r = self.rules
        self._gap = self._trim = 0.0
        self._gap_target = self._trim_target = 0.0
        self._sequence_seen = self._sequence_taken = self._sequence_applied = 0
        self._heartbeat = 0
        self._beat_scan: int | None = None  # none yet: the network has never been there
        self._heartbeat_scans = round(r.heartbeat_s / SCAN_S)
        self._hold_scans = round(r.hold_s / SCAN_S)
        self._mode = BlockMode.MAN
        self._tripped = False
        self._trip_scan = 0
        self._refused = Refused.NONE
        self._refused_count = self._taken_count = self._clamped_count = self._trip_count = 0
        self._scans = 0

    def scan(self, image: RequestImage, now_ns: int) -> Applied:
        """One cycle; ``now_ns`` (CLOCK_REALTIME) is compared with ValidUntil only."""
        self._scans += 1
        self._watch(image)
        self._choose_mode(image)
        if image.sequence != self._sequence_seen:
            self._sequence_seen = image.sequence
            self._take(image, now_ns)
        self._move()
        return Applied(
            gap_correction_mm=self._gap,
            speed_trim_percent=self._trim,
            sequence=self._sequence_applied,
            mode=self._mode,
            watchdog_tripped=self._tripped,
            refused=self._refused,
            refused_count=self._refused_count,
            taken_count=self._taken_count,
            clamped_count=self._clamped_count,
            trip_count=self._trip_count,
            scans=self._scans,
        )

    def _watch(self, image: RequestImage) -> None:
        if image.heartbeat != self._heartbeat:
            self._heartbeat = image.heartbeat
            self._beat_scan = self._scans
            self._tripped = False
            return
        if self._tripped or self._beat_scan is None:
            return
        if self._scans - self._beat_scan > self._heartbeat_scans:
            self._tripped = True
            self._trip_scan = self._scans
            self._trip_count += 1

    def _choose_mode(self, image: RequestImage) -> None:
        before = self._mode
        if image.manual_selected or not image.auto_request or self._beat_scan is None:
            self._mode = BlockMode.MAN
        elif not self._tripped:
            self._mode = BlockMode.AUTO
        elif self._scans - self._trip_scan <= self._hold_scans:
            self._mode = BlockMode.HOLD
        else:
            self._mode = BlockMode.FAILSAFE
        if self._mode is before:
            return
        # Whatever was still on its way belongs to the mode just left.
        if self._mode is BlockMode.FAILSAFE:
            self._gap_target = self._trim_target = 0.0
        else:
            self._gap_target, self._trim_target = self._gap, self._trim
        self._sequence_taken = self._sequence_applied

    def _take(self, image: RequestImage, now_ns: int) -> None:
        reason = Refused.NONE
        if self._mode is not BlockMode.AUTO:
            reason = Refused.NOT_AUTO
        elif not (math.isfinite(image.gap_correction_mm) and math.isfinite(image.speed_trim_percent)):
            reason = Refused.NOT_FINITE
        elif image.valid_until_ns and now_ns > image.valid_until_ns:
            reason = Refused.EXPIRED
        self._refused = reason
        if reason is not Refused.NONE:
            self._refused_count += 1
            return
        r = self.rules
        self._gap_target = min(max(image.gap_correction_mm, -r.gap_limit_mm), r.gap_limit_mm)
        self._trim_target = min(max(image.speed_trim_percent, -r.trim_limit_percent), r.trim_limit_percent)
        if self._gap_target != image.gap_correction_mm or self._trim_target != image.speed_trim_percent:
            self._clamped_count += 1
        self._sequence_taken = image.sequence
        self._taken_count += 1

    def _move(self) -> None:
        r = self.rules
        if self._mode is BlockMode.FAILSAFE:
            gap_rate, trim_rate = r.gap_limit_mm / r.failsafe_s, r.trim_limit_percent / r.failsafe_s
        else:
            gap_rate, trim_rate = r.gap_rate_mm_s, r.trim_rate_percent_s
        self._gap = _towards(self._gap, self._gap_target, gap_rate * SCAN_S)
        self._trim = _towards(self._trim, self._trim_target, trim_rate * SCAN_S)
        arrived = abs(self._gap - self._gap_target) <= REACHED and abs(self._trim - self._trim_target) <= REACHED
        if arrived:
            self._sequence_applied = self._sequence_taken


def _towards(value: float, target: float, step_max: float) -> float:
    if abs(target - value) <= step_max:
        return target
    return value + math.copysign(step_max, target - value)
