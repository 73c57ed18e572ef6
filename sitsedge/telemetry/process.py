"""What every process of the appliance does before its own work: logs, parent death, memory, priority."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from attest import jsontext

PR_SET_PDEATHSIG = 1  # prctl(2)
MCL_CURRENT_AND_FUTURE = 3  # mlockall(2)
END_COMMANDS = signal.SIGUSR1  # supervisor to sitsd: a stop has begun that still waits for proofs

log = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, process part, message."""

    def format(self, record: logging.LogRecord) -> str:
        body = {
            "t": round(record.created, 6),
            "level": record.levelname.lower(),
            "from": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            body["trace"] = self.formatException(record.exc_info)
        return jsontext.dumps(body, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ProcessSetup:
    """What was granted, so that a status page can say it."""

    name: str
    memory_locked: bool
    realtime: bool


def prepare_process(
    name: str, log_dir: Path | None, *, lock_memory: bool = False, fifo_priority: int | None = None
) -> ProcessSetup:
    """Log as JSON lines to ``log_dir/name.log`` (stderr without a folder) and die with the parent.

    ``lock_memory`` asks for mlockall(2) and ``fifo_priority`` for SCHED_FIFO (sched(7)); a refusal is reported,
    not fatal, since a developer's machine may not allow it. Threads started later inherit the scheduling.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if log_dir is not None:
        handler = logging.FileHandler(log_dir / f"{name}.log", encoding="utf-8")
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("asyncua").setLevel(logging.ERROR)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.environ.get("SITS_SUPERVISED") == "1":
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    locked = lock_memory and libc.mlockall(MCL_CURRENT_AND_FUTURE) == 0
    if lock_memory and not locked:
        log.warning("memory is not locked: %s", os.strerror(ctypes.get_errno()))
    if fifo_priority is not None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo_priority))
        except OSError as error:
            log.warning("no real-time scheduling: %s", error.strerror)
    return ProcessSetup(name, locked, os.sched_getscheduler(0) == os.SCHED_FIFO)


def freeze_garbage(*, disable: bool) -> None:
    """After warm-up: move everything alive out of the collector's sight.

    A full collection with an OPC UA stack loaded takes over 100 ms; what was alive at start-up stays alive anyway.
    ``disable`` stops the collector altogether, for a process whose data path makes no reference cycles.
    """
    gc.collect()
    gc.freeze()
    if disable:
        gc.disable()


def notify(state: str) -> None:
    """sd_notify(3): tell systemd ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``; nothing without a supervisor."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto(state.encode(), address)


def realtime_offset_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC now; turns a kernel receive stamp into a monotonic instant."""
    return time.time_ns() - time.monotonic_ns()
