"""A thousand UADP frames a second over a pair of virtual Ethernet ports: what is lost, how late the receiver wakes, Δe.

    sudo python -m benchmarks.fieldbus_receive [--seconds 3600] [--fifo]

A sender process in a network namespace of its own publishes frames of 16 Doubles under VLAN 5; the receiver takes
every one with ``EthernetReceiver``, decodes it and checks its clock. Every other second a bare ``recvmsg`` loop on a
second socket is measured instead, so that both wake-ups are of the same run under the same load. Printed at the end,
one JSON object: frames sent, received and dropped by the kernel (which must add up), wake-up after the kernel's stamp
for both, ours also until the frame was handed over, Δe (stamp to verdict), resident memory in the first and the last
tenth (room for the samples is there from the start, so that what grows is the receive path's). Needs root for the
namespace.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import socket
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fieldbus.clock import DeltaE, FreshnessCheck, FreshnessPolicy
from fieldbus.net import EthernetReceiver, EthernetSender, NetError, ReceivedFrame, VlanTag
from fieldbus.net.ethernet import ETHERTYPE_UADP, ethertype_filter, packet_socket
from fieldbus.net.stamps import SO_TIMESTAMPING, Ancillary, Reception
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    LayoutReader,
    LayoutWriter,
    PublisherId,
    PublisherIdType,
    SequenceTracker,
    UadpError,
)

GROUP = "01:00:5e:00:00:01"
TAG = VlanTag(5, 6)
PERIOD_NS = 1_000_000
FIELDS = tuple((f"f{n}", BuiltinType.DOUBLE) for n in range(16))
LAYOUT = DataSetLayout(PublisherId(PublisherIdType.UINT16, 2201), 100, 1, FIELDS)
CLONE_NEWNET = 0x4000_0000
FIFO_PRIORITY = 40
NS_PER_S = 1_000_000_000


def percentiles_us(samples: Sequence[int]) -> dict[str, float]:
    """P50, P99, P99.9 and maximum in microseconds (nearest rank)."""
    ordered = sorted(samples)
    if not ordered:
        return {}
    ranks = {"p50": 500, "p99": 990, "p999": 999}
    found = {name: ordered[-(-len(ordered) * per_mille // 1_000) - 1] / 1e3 for name, per_mille in ranks.items()}
    return {**found, "max": ordered[-1] / 1e3}


def resident_kb() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def fifo() -> bool:
    """Ask for SCHED_FIFO; False where it is not permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except PermissionError:
        return False
    return True


def send(seconds: float, with_fifo: bool) -> None:
    """The sender process: one frame a millisecond; prints how many."""
    if with_fifo:
        fifo()
    gc.disable()
    writer = LayoutWriter(LAYOUT)
    values = tuple(float(n) for n in range(16))
    count = 0
    with EthernetSender("v0", GROUP, vlans=(TAG,)) as sender:
        due = time.monotonic_ns() + PERIOD_NS
        end = due + round(seconds * NS_PER_S)
        while due < end:
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            sender.send(writer.write(t_source_ns=time.time_ns(), values=values, status=0))
            count += 1
            due += PERIOD_NS
    print(count)


class Samples:
    """Nanoseconds in memory that is there, and touched, from the start: keeping one more costs none."""

    def __init__(self, room: int) -> None:
        self._kept = array("q", [0]) * room
        self.count = 0

    def append(self, value_ns: int) -> None:
        """One more; beyond the room it is left out, and ``count`` says how many were kept."""
        if self.count < len(self._kept):
            self._kept[self.count] = value_ns
            self.count += 1

    def percentiles_us(self) -> dict[str, float]:
        return percentiles_us(self._kept[: self.count])


class NotingReceiver(EthernetReceiver):
    """Notes when ``recvmsg`` returned, as the bare loop does, before anything is made of the frame."""

    woken_ns = 0

    def _frame(self, data: bytes, source: Any, ancillary: Ancillary, reception: Reception) -> ReceivedFrame | None:
        self.woken_ns = reception.woken_ns
        return super()._frame(data, source, ancillary, reception)


class Run:
    """The receiving side, with all it counts."""

    def __init__(self, seconds: float) -> None:
        self.receiver = NotingReceiver("v1", group=GROUP, vlan_id=TAG.vid, receive_buffer_bytes=4_000_000)
        # The second socket hears the same frames; what waits in it when its second begins is read away unmeasured.
        self.bare = packet_socket("v1", ethertype_filter(ETHERTYPE_UADP), buffer_bytes=200_000)
        self.bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 200_000))
        self.reader = LayoutReader(LAYOUT)
        self.tracker = SequenceTracker()
        self.check = FreshnessCheck(FreshnessPolicy(age_ms_max=5_000.0, future_ms_max=1.0))
        self.measure = DeltaE()
        # Either side has every other second; the tenth more is for a machine that is late with the change.
        room = round(seconds * NS_PER_S / PERIOD_NS * 0.6) + 2 * NS_PER_S // PERIOD_NS
        self.delta_e, self.wake, self.handed, self.bare_wake = (Samples(room) for _ in range(4))
        self.received = self.refused = 0

    def ours(self, until_ns: int) -> None:
        """Receive and judge until then."""
        while time.monotonic_ns() < until_ns:
            frame = self.receiver.receive(0.2)
            if frame is None:
                return
            self.handed.append(time.time_ns() - frame.t_rx_ns)
            self.wake.append(self.receiver.woken_ns - frame.t_rx_ns)
            self.judge(frame.data, frame.t_rx_ns, measured=True)

    def judge(self, data: bytes, t_rx_ns: int, *, measured: bool) -> None:
        """Decode and check; Δe ends here."""
        self.received += 1
        try:
            sample = self.reader.read(data)
        except UadpError:
            self.refused += 1
            return
        verdict = self.tracker.update(sample.sequence)
        fault = self.check.check(
            verdict.extended, sample.t_source_ns, t_rx_ns, time.time_ns(), now_mono_ns=time.monotonic_ns()
        )
        self.refused += fault is not None
        if measured:
            delta_ns = self.measure.add(t_rx_ns, time.time_ns())
            if delta_ns is not None:
                self.delta_e.append(delta_ns)

    def catch_up(self) -> None:
        """Frames of the other socket's second: judged, not measured, because they waited."""
        while (frame := self.receiver.receive(0.0)) is not None:
            self.judge(frame.data, frame.t_rx_ns, measured=False)

    def theirs(self, until_ns: int) -> None:
        """The bare loop: recvmsg and the stamp, nothing else."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.bare.recvmsg(200, 200, socket.MSG_DONTWAIT)
        while time.monotonic_ns() < until_ns:
            try:
                _, ancillary, _, _ = self.bare.recvmsg(200, 200)
            except BlockingIOError:
                return
            now = time.time_ns()
            for _, kind, body in ancillary:
                if kind == SO_TIMESTAMPING:
                    seconds, fraction = struct.unpack_from("@qq", body)
                    self.bare_wake.append(now - seconds * NS_PER_S - fraction)


def measure(seconds: float, with_fifo: bool) -> dict[str, Any]:
    """The whole run; see the module's text."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise SystemExit("needs the right to make a network namespace (root)")
    for line in ("link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"):
        subprocess.run(["ip", *line.split()], check=True)
    real_time = with_fifo and fifo()
    run = Run(seconds)
    command = [sys.executable, "-m", "benchmarks.fieldbus_receive", "--send", "--seconds", str(seconds)]
    sender = subprocess.Popen([*command, *(["--fifo"] if with_fifo else [])], stdout=subprocess.PIPE, text=True)
    gc.disable()
    memory: list[int] = []
    started = time.monotonic_ns()
    with sender:
        while sender.poll() is None:
            now = time.monotonic_ns()
            run.ours(now + NS_PER_S)
            run.theirs(time.monotonic_ns() + NS_PER_S)
            run.catch_up()
            memory.append(resident_kb())
        assert sender.stdout is not None
        sent = int(sender.stdout.read())
    run.catch_up()
    admitted, dropped = run.receiver.statistics()
    tenth = max(1, len(memory) // 10)
    figures = {
        "seconds": round((time.monotonic_ns() - started) / 1e9, 1),
        "fifo": real_time,
        "load": os.getloadavg(),
        "sent": sent,
        "admitted": admitted,
        "received": run.received,
        "dropped": dropped,
        "foreign": run.receiver.counts.foreign,
        "refused": run.refused,
        "adds_up": sent == admitted == run.received + dropped,
        "wake_us": run.wake.percentiles_us(),
        "handed_over_us": run.handed.percentiles_us(),
        "bare_wake_us": run.bare_wake.percentiles_us(),
        "delta_e_us": run.delta_e.percentiles_us(),
        "resident_kb_first_tenth": sum(memory[:tenth]) // tenth,
        "resident_kb_last_tenth": sum(memory[-tenth:]) // tenth,
        "kept_samples": run.wake.count + run.bare_wake.count,
    }
    run.receiver.close()
    run.bare.close()
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--fifo", action="store_true", help="SCHED_FIFO for both sides, where it is permitted")
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        send(options.seconds, options.fifo)
        return
    try:
        print(json.dumps(measure(options.seconds, options.fifo)))
    except NetError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
