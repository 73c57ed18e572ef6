"""Is CLOCK_REALTIME synchronised by PTP, carried on from it, or on its own? Rules without I/O.

A poll of the daemon is good when, in this order:

1. ``ptp-port``         a port is SLAVE; UNCALIBRATED counts where the policy says that ptp4l only measures
                        (``free_running``: something else disciplines the clock, or it is shared)
2. ``ptp-grandmaster``  the grandmaster is one the policy admits, where it names any
3. ``ptp-silence``      a Sync came in within ``sync_silence_s_max`` (linuxptp goes on to report the last offset, and
                        even the grandmaster as present, after it has gone)
4. ``ptp-offset``       the offset measured is at most ``error_us_max``
5. ``tai-offset``       PTP and the kernel do not contradict each other about TAI - UTC
6. ``phc``              with stamps by the card: its clock could be read and CLOCK_REALTIME follows it

``polls_to_lock`` good polls in a row lock. A bad one, or no answer, turns a locked clock to holdover: the kind stays
as declared while the bound of the error, growing by ``drift_ppm_max``, is within ``error_us_max`` and the holdover no
longer than ``holdover_s_max``. Then, or at once when the wall clock is stepped, it is ``free``: also where the kernel
still calls the clock disciplined, which it goes on to do for hours after its daemon has stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fieldbus.clock.ptp_client import PtpStatus
from fieldbus.clock.ptp_messages import PortState
from fieldbus.clock.quality import TimeQuality, TimeQualityKind

_NS_PER_S = 1_000_000_000


class Hold(StrEnum):
    """How the declared kind is held."""

    LOCKED = "locked"
    HOLDOVER = "holdover"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PtpPolicy:
    """Limits of the rules above. ``grandmasters``: EUI-64 identities (None: any, which trusts the network)."""

    error_us_max: float = 100.0
    holdover_s_max: float = 5.0
    drift_ppm_max: float = 10.0
    sync_silence_s_max: float = 2.0
    polls_to_lock: int = 3
    free_running: bool = False
    grandmasters: frozenset[bytes] | None = None

    def __post_init__(self) -> None:
        limits = (self.error_us_max, self.holdover_s_max, self.drift_ppm_max, self.sync_silence_s_max)
        if not all(0 <= limit < 1e9 for limit in limits) or self.polls_to_lock < 1:
            raise ValueError("PTP limits must be finite and not negative, polls_to_lock at least 1")


@dataclass(frozen=True, slots=True)
class ClockQuality:
    """What may be said of the wall clock now.

    ``error_ns_max``: bound of its error to the grandmaster as far as the policy's drift holds (None: unknown; for
    ``ntp`` the kernel's own bound). ``tai_offset_s``: TAI - UTC by the best account there is, 0 where there is none.
    ``reason``: the broken rule, or empty.
    """

    kind: TimeQualityKind
    hold: Hold
    error_ns_max: int | None
    tai_offset_s: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Poll:
    """One look at everything: the daemon's answer (None: none), why not, the kernel's account, the card's clock.

    ``phc_apart_ns``: CLOCK_REALTIME minus the card's clock taken as TAI, None where it could not be read. ``stepped``:
    the wall clock was set since the last poll.
    """

    mono_ns: int
    kernel: TimeQuality
    status: PtpStatus | None = None
    no_status: str = ""
    phc_apart_ns: int | None = None
    stepped: bool = False


class PtpDiscipline:
    """The state between two polls. Not for several threads."""

    def __init__(self, policy: PtpPolicy) -> None:
        self._policy = policy
        self._error_ns_max = round(policy.error_us_max * 1_000)
        self._good_polls = 0
        self._kind = TimeQualityKind.FREE
        self._hold = Hold.NONE
        self._ever_locked = False
        self._ingress_ns = 0
        self._ingress_mono_ns: int | None = None
        self._offset_ns = 0
        self._tai_offset_s = 0

    def update(self, poll: Poll) -> ClockQuality:
        """Take a poll in; the quality from now on."""
        self._note_sync(poll)
        fault = self._fault(poll)
        if poll.stepped:
            self._lose()
            fault = fault or "clock-step: the wall clock was set"
        if fault is None:
            self._good_polls += 1
            if self._hold is not Hold.NONE or self._good_polls >= self._policy.polls_to_lock:
                self._lock(poll)
        else:
            self._good_polls = 0
            if self._hold is not Hold.NONE:
                self._hold = Hold.HOLDOVER
        return self._quality(poll, fault or "")

    def _note_sync(self, poll: Poll) -> None:
        if poll.status is None:
            return
        ingress_ns = poll.status.time.ingress_ns
        if ingress_ns != self._ingress_ns:
            # The first value seen may be of long ago; only a change shows that Syncs come in.
            if self._ingress_ns and ingress_ns:
                self._ingress_mono_ns = poll.mono_ns
            self._ingress_ns = ingress_ns

    def _fault(self, poll: Poll) -> str | None:
        status, policy = poll.status, self._policy
        if status is None:
            return poll.no_status or "ptp-unreachable"
        states = {port.state for port in status.ports}
        wanted = {PortState.SLAVE, PortState.UNCALIBRATED} if policy.free_running else {PortState.SLAVE}
        if not states & wanted:
            return f"ptp-port: {', '.join(sorted(state.name for state in states))}"
        grandmaster = status.time.grandmaster
        if policy.grandmasters is not None and grandmaster not in policy.grandmasters:
            return f"ptp-grandmaster: {grandmaster.hex()} is not one of those admitted"
        if self._ingress_mono_ns is None:
            return "ptp-silence: no Sync seen yet"
        silence_s = (poll.mono_ns - self._ingress_mono_ns) / _NS_PER_S
        if silence_s > policy.sync_silence_s_max:
            return f"ptp-silence: the last Sync was {silence_s:.3f} s ago"
        if abs(status.time.offset_ns) > self._error_ns_max:
            return f"ptp-offset: {status.time.offset_ns} ns"
        return self._scale_fault(poll, status)

    def _scale_fault(self, poll: Poll, status: PtpStatus) -> str | None:
        properties, kernel_s = status.properties, poll.kernel.tai_offset_s
        told = properties.utc_offset_valid and properties.ptp_timescale
        if told and kernel_s and kernel_s != properties.utc_offset_s:
            return f"tai-offset: {properties.utc_offset_s} s by PTP, {kernel_s} s by the kernel"
        if not _by_hardware(status):
            return None
        if poll.phc_apart_ns is None:
            return "phc: the network card's clock could not be read"
        if abs(poll.phc_apart_ns) + abs(status.time.offset_ns) > self._error_ns_max:
            return f"phc: CLOCK_REALTIME is {poll.phc_apart_ns} ns from the network card's clock"
        return None

    def _lock(self, poll: Poll) -> None:
        assert poll.status is not None
        hardware = _by_hardware(poll.status)
        self._kind = TimeQualityKind.PTP_HW if hardware else TimeQualityKind.PTP_SW
        self._hold = Hold.LOCKED
        self._ever_locked = True
        apart_ns = abs(poll.phc_apart_ns or 0) if hardware else 0
        self._offset_ns = abs(poll.status.time.offset_ns) + apart_ns
        properties = poll.status.properties
        told = properties.utc_offset_valid and properties.ptp_timescale
        self._tai_offset_s = properties.utc_offset_s if told else 0

    def _lose(self) -> None:
        self._hold = Hold.NONE
        self._kind = TimeQualityKind.FREE
        self._good_polls = 0

    def _quality(self, poll: Poll, reason: str) -> ClockQuality:
        tai_s = self._tai_offset_s or poll.kernel.tai_offset_s
        if self._hold is Hold.NONE:
            return self._kernels_word(poll, tai_s, reason)
        assert self._ingress_mono_ns is not None
        # Also while locked: the last Sync may be as old as the policy lets it be.
        since_ns = max(0, poll.mono_ns - self._ingress_mono_ns)
        bound_ns = self._offset_ns + round(since_ns * self._policy.drift_ppm_max / 1e6)
        if self._hold is Hold.HOLDOVER:
            too_long = since_ns > self._policy.holdover_s_max * _NS_PER_S
            if too_long or bound_ns > self._error_ns_max:
                self._lose()
                return ClockQuality(TimeQualityKind.FREE, Hold.NONE, None, tai_s, reason)
        return ClockQuality(self._kind, self._hold, bound_ns, tai_s, reason)

    def _kernels_word(self, poll: Poll, tai_s: int, reason: str) -> ClockQuality:
        if self._ever_locked:
            return ClockQuality(TimeQualityKind.FREE, Hold.NONE, None, tai_s, reason)
        kernel = poll.kernel
        known = kernel.max_error_ns if kernel.kind is not TimeQualityKind.FREE else None
        return ClockQuality(kernel.kind, Hold.NONE, known, tai_s, reason)


def _by_hardware(status: PtpStatus) -> bool:
    """Whether the port that follows the grandmaster has its messages stamped by the card."""
    following = {port.identity for port in status.ports if port.state in (PortState.SLAVE, PortState.UNCALIBRATED)}
    stamping = [port.timestamping for port in status.port_properties if port.identity in following]
    return bool(stamping) and all(item.by_hardware for item in stamping)


def following_interface(status: PtpStatus) -> str | None:
    """Interface of the port that follows the grandmaster with stamps by the card; None where there is none."""
    following = {port.identity for port in status.ports if port.state in (PortState.SLAVE, PortState.UNCALIBRATED)}
    for port in status.port_properties:
        if port.identity in following and port.timestamping.by_hardware:
            return port.interface
    return None
