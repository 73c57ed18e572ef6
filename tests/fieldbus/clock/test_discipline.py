"""When a clock counts as held by PTP, how long it is carried on, and what ends that: one test per rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fieldbus.clock import ClockQuality, Hold, PtpDiscipline, PtpPolicy, PtpStatus, TimeQuality, TimeQualityKind
from fieldbus.clock.discipline import Poll
from fieldbus.clock.ptp_messages import (
    CurrentDataSet,
    DefaultDataSet,
    ParentDataSet,
    PortDataSet,
    PortIdentity,
    PortProperties,
    PortState,
    TimeProperties,
    Timestamping,
    TimeStatus,
)

S = 1_000_000_000
CLOCK, GRANDMASTER, ROGUE = bytes(8), b"G" * 8, b"R" * 8
PORT = PortIdentity(CLOCK, 1)
KERNEL_FREE = TimeQuality(TimeQualityKind.FREE, 16 * S, 16 * S, 0)
KERNEL_NTP = TimeQuality(TimeQualityKind.NTP, 1_000_000, 1_000, 0)
POLICY = PtpPolicy(error_us_max=100.0, holdover_s_max=5.0, drift_ppm_max=10.0, sync_silence_s_max=1.0)


def status(
    *,
    state: PortState = PortState.SLAVE,
    offset_ns: int = 500,
    ingress_ns: int = 1,
    stamping: Timestamping = Timestamping.SOFTWARE,
    grandmaster: bytes = GRANDMASTER,
    utc_offset_s: int = 37,
    utc_known: bool = True,
) -> PtpStatus:
    return PtpStatus(
        clock=DefaultDataSet(1, CLOCK, 0),
        current=CurrentDataSet(1, offset_ns, 2_000),
        parent=ParentDataSet(PortIdentity(grandmaster, 1), grandmaster, 6, 0x21),
        properties=TimeProperties(utc_offset_s, utc_known, 0, utc_known, True, True, 0x20),
        time=TimeStatus(offset_ns, ingress_ns, True, grandmaster),
        ports=(PortDataSet(PORT, state, 0.75, 0.125),),
        port_properties=(PortProperties(PORT, state, stamping, "eth0"),),
    )


class Rig:
    """A discipline polled every 0.2 s, with a Sync between two polls unless the daemon is silent."""

    def __init__(self, policy: PtpPolicy = POLICY, kernel: TimeQuality = KERNEL_FREE) -> None:
        self.discipline = PtpDiscipline(policy)
        self.kernel = kernel
        self.mono_ns = 100 * S
        self.ingress_ns = 10 * S

    def poll(
        self, given: PtpStatus | None, *, syncs: bool = True, apart_ns: int | None = None, stepped: bool = False
    ) -> ClockQuality:
        self.mono_ns += S // 5
        if syncs:
            self.ingress_ns += S // 5
        if given is not None:
            given = replace(given, time=replace(given.time, ingress_ns=self.ingress_ns))
        return self.discipline.update(Poll(self.mono_ns, self.kernel, given, "ptp-silent: x", apart_ns, stepped))

    def polls(self, count: int, given: PtpStatus | None, **options: object) -> ClockQuality:
        for _ in range(count):
            quality = self.poll(given, **options)  # type: ignore[arg-type]
        return quality

    def locked(self, given: PtpStatus | None = None, **options: object) -> Rig:
        quality = self.polls(4, given or status(), **options)
        assert quality.hold is Hold.LOCKED
        return self


def what(quality: ClockQuality) -> tuple[str, str]:
    return quality.kind.label, quality.hold.value


def test_it_locks_after_a_sync_was_seen_and_enough_good_polls() -> None:
    rig = Rig()
    assert what(rig.poll(status())) == ("free", "none")  # this Sync may be of long ago
    assert [what(rig.poll(status())) for _ in range(3)] == [("free", "none"), ("free", "none"), ("ptp-sw", "locked")]
    quality = rig.poll(status())
    assert (quality.error_ns_max, quality.tai_offset_s, quality.reason) == (500, 37, "")


def test_a_bad_poll_on_the_way_starts_the_count_anew() -> None:
    rig = Rig()
    rig.polls(3, status())
    rig.poll(None)
    assert [what(rig.poll(status()))[1] for _ in range(3)] == ["none", "none", "locked"]


def test_stamps_by_the_card_are_ptp_hw_where_the_system_clock_follows_it() -> None:
    hardware = status(stamping=Timestamping.HARDWARE)
    rig = Rig().locked(hardware, apart_ns=-300)
    quality = rig.poll(hardware, apart_ns=-300)
    assert (quality.kind, quality.error_ns_max) == (TimeQualityKind.PTP_HW, 800)
    assert "phc" in rig.poll(hardware, apart_ns=99_600).reason
    assert "phc" in rig.poll(hardware, apart_ns=None).reason
    unread = Rig().polls(9, hardware, apart_ns=None)
    assert (what(unread), unread.reason[:4]) == (("free", "none"), "phc:")


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (status(state=PortState.LISTENING), "ptp-port"),
        (status(state=PortState.MASTER), "ptp-port"),
        (status(state=PortState.UNCALIBRATED), "ptp-port"),
        (status(grandmaster=ROGUE), "ptp-grandmaster"),
        (status(offset_ns=100_001), "ptp-offset"),
        (status(offset_ns=-100_001), "ptp-offset"),
    ],
)
def test_a_broken_rule_never_locks_and_turns_a_locked_clock_to_holdover(given: PtpStatus, rule: str) -> None:
    policy = replace(POLICY, grandmasters=frozenset({GRANDMASTER}))
    quality = Rig(policy).polls(9, given)
    assert (what(quality), quality.reason.split(":")[0]) == (("free", "none"), rule)
    quality = Rig(policy).locked().poll(given)
    assert (what(quality), quality.reason.split(":")[0]) == (("ptp-sw", "holdover"), rule)


def test_uncalibrated_counts_where_ptp4l_only_measures() -> None:
    rig = Rig(replace(POLICY, free_running=True))
    assert what(rig.polls(4, status(state=PortState.UNCALIBRATED))) == ("ptp-sw", "locked")


def test_a_silent_grandmaster_is_gone_though_the_daemon_reports_the_last_offset() -> None:
    rig = Rig().locked()
    told = [rig.poll(status(), syncs=False) for _ in range(6)]
    assert [what(quality)[1] for quality in told] == ["locked"] * 5 + ["holdover"]
    assert told[-1].reason.startswith("ptp-silence")


def test_holdover_ends_when_it_is_too_long() -> None:
    rig = Rig().locked()
    told = [rig.poll(None) for _ in range(26)]
    assert {what(quality) for quality in told[:25]} == {("ptp-sw", "holdover")}
    assert what(told[25]) == ("free", "none")
    assert told[25].error_ns_max is None


def test_the_bound_of_the_error_grows_by_the_drift_and_ends_the_holdover() -> None:
    rig = Rig(replace(POLICY, drift_ppm_max=50.0)).locked()
    told = [rig.poll(None) for _ in range(10)]
    assert [quality.error_ns_max for quality in told[:3]] == [10_500, 20_500, 30_500]
    assert [what(quality)[1] for quality in told] == ["holdover"] * 9 + ["none"]


def test_a_grandmaster_that_comes_back_in_holdover_locks_at_once_and_after_it_by_polls() -> None:
    rig = Rig().locked()
    rig.poll(None)
    assert what(rig.poll(status())) == ("ptp-sw", "locked")
    rig.polls(30, None)
    assert [what(rig.poll(status()))[1] for _ in range(3)] == ["none", "none", "locked"]


def test_a_step_of_the_wall_clock_ends_it_at_once() -> None:
    rig = Rig().locked()
    quality = rig.poll(status(), stepped=True)
    assert (what(quality), quality.reason) == (("free", "none"), "clock-step: the wall clock was set")
    holding = Rig().locked()
    holding.poll(None)
    assert what(holding.poll(None, stepped=True)) == ("free", "none")


def test_tai_offset_a_contradiction_between_ptp_and_the_kernel() -> None:
    rig = Rig(kernel=replace(KERNEL_NTP, tai_offset_s=36))
    assert rig.polls(9, status()).reason == "tai-offset: 37 s by PTP, 36 s by the kernel"
    assert what(Rig(kernel=replace(KERNEL_NTP, tai_offset_s=37)).polls(4, status()))[1] == "locked"
    unknown = Rig(kernel=replace(KERNEL_NTP, tai_offset_s=36)).polls(4, status(utc_known=False))
    assert (unknown.hold, unknown.tai_offset_s) == (Hold.LOCKED, 36)


def test_before_any_lock_the_kernels_word_counts_and_after_a_loss_it_does_not() -> None:
    rig = Rig(kernel=KERNEL_NTP)
    quality = rig.poll(None)
    assert (what(quality), quality.error_ns_max, quality.reason) == (("ntp", "none"), 1_000_000, "ptp-silent: x")
    rig.locked()
    assert what(rig.polls(30, None)) == ("free", "none")


def test_a_port_that_follows_by_software_is_not_made_hardware_by_another() -> None:
    other = PortIdentity(CLOCK, 2)
    both = replace(
        status(),
        ports=(*status().ports, PortDataSet(other, PortState.MASTER, 0.75, 0.125)),
        port_properties=(
            *status().port_properties,
            PortProperties(other, PortState.MASTER, Timestamping.HARDWARE, "eth1"),
        ),
    )
    assert what(Rig().polls(4, both)) == ("ptp-sw", "locked")


@pytest.mark.parametrize("name", ["error_us_max", "holdover_s_max", "drift_ppm_max", "sync_silence_s_max"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_limits_are_finite_and_not_negative(name: str, value: float) -> None:
    with pytest.raises(ValueError):
        PtpPolicy(**{name: value})  # type: ignore[arg-type]


def test_at_least_one_poll_locks() -> None:
    with pytest.raises(ValueError):
        PtpPolicy(polls_to_lock=0)
