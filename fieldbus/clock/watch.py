"""Looks at the clock beside the loop: asks ptp4l in a thread of its own, keeps the last answer for whoever wants it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from fieldbus.clock.discipline import ClockQuality, Hold, Poll, PtpDiscipline, PtpPolicy, following_interface
from fieldbus.clock.measures import SyncWindow
from fieldbus.clock.phc import apart_ns, phc_index
from fieldbus.clock.ptp_client import TIMEOUT_S, PtpClient, PtpStatus
from fieldbus.clock.ptp_messages import PtpError
from fieldbus.clock.quality import TimeQualityKind, time_quality
from fieldbus.clock.step import ClockStepDetector

INTERVAL_S = 0.2
"""Between two polls: short against any holdover worth the name, and under a millisecond of work each."""

STALL_S = 7 * TIMEOUT_S + 2 * INTERVAL_S
"""A thread that has not finished a poll for longer hangs (seven questions may each time out): no quality then."""

STEP_MS_MAX = 5.0
"""As the loop's own check of clock steps (FreshnessPolicy.clock_step_ms_max)."""


class PtpWatch:
    """Polls from construction until ``close``. ``quality`` may be read from any thread and never waits."""

    def __init__(
        self,
        path: str,
        policy: PtpPolicy,
        *,
        domain: int = 0,
        interval_s: float = INTERVAL_S,
        folder: Path | None = None,
    ) -> None:
        """``path``: ptp4l's socket; ``folder``: for the own one (see PtpClient). A daemon that is not there (yet) is no
        error but a quality without it."""
        self._path, self._domain, self._interval_s, self._folder = path, domain, interval_s, folder
        self._discipline = PtpDiscipline(policy)
        self._steps = ClockStepDetector(step_ms_max=STEP_MS_MAX)
        self._client: PtpClient | None = None
        self._ingress_ns = 0
        self._stop = threading.Event()
        self.path_rtt = SyncWindow()
        """Round trips to the grandmaster's port, from ptp4l's mean path delay."""
        self._latest = (time.monotonic_ns(), self._poll())
        self._thread = threading.Thread(target=self._run, name="ptp-watch", daemon=True)
        self._thread.start()

    def quality(self) -> ClockQuality:
        """The last poll's quality; ``free`` with reason ``ptp-watch`` where polling has stopped."""
        mono_ns, quality = self._latest
        stalled_s = (time.monotonic_ns() - mono_ns) / 1e9
        if stalled_s > STALL_S + self._interval_s:
            reason = f"ptp-watch: no poll for {stalled_s:.1f} s"
            return ClockQuality(TimeQualityKind.FREE, Hold.NONE, None, quality.tai_offset_s, reason)
        return quality

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            quality = self._poll()
            self._latest = (time.monotonic_ns(), quality)

    def _poll(self) -> ClockQuality:
        status, problem = self._ask()
        real_ns, mono_ns = time.time_ns(), time.monotonic_ns()
        stepped = self._steps.update(real_ns, mono_ns) != 0
        if stepped:
            self.path_rtt.clear()
        if status is not None:
            # Without Syncs ptp4l goes on to report the last delay: that measures nothing any more.
            ingress_ns, self._ingress_ns = self._ingress_ns, status.time.ingress_ns
            if ingress_ns and ingress_ns != self._ingress_ns and status.current.path_delay_ns > 0:
                self.path_rtt.add(2 * status.current.path_delay_ns, mono_ns)
        kernel = time_quality()
        apart = None if status is None else _apart_ns(status, kernel.tai_offset_s)
        return self._discipline.update(Poll(mono_ns, kernel, status, problem, apart, stepped))

    def _ask(self) -> tuple[PtpStatus | None, str]:
        try:
            if self._client is None:
                self._client = PtpClient(self._path, domain=self._domain, folder=self._folder)
            return self._client.status(), ""
        except PtpError as error:
            # A daemon that was started anew has a new socket behind the same name.
            self._hang_up()
            return None, f"{error.code}: {error.found}"

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Stop polling and remove the socket; a second call does nothing."""
        self._stop.set()
        self._thread.join()
        self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _apart_ns(status: PtpStatus, kernel_tai_s: int) -> int | None:
    interface = following_interface(status)
    index = None if interface is None else phc_index(interface)
    if index is None:
        return None
    properties = status.properties
    # A grandmaster that does not use PTP's time scale hands out UTC or a scale of its own: then nothing is added.
    offset_s = properties.utc_offset_s if properties.utc_offset_valid else kernel_tai_s
    return apart_ns(index, tai_offset_s=offset_s if properties.ptp_timescale else 0)
