"""Diagnostic events in words: the ones people meet. An id that is not listed has no text, never another one's.

Source: Siemens, "System Software for S7-300/400: System and Standard Functions", list of diagnostic events.
"""

from __future__ import annotations

_TEXTS = {
    0x2521: "BCD conversion error",
    0x2522: "area length error when reading",
    0x2523: "area length error when writing",
    0x2524: "area error when reading",
    0x2525: "area error when writing",
    0x2526: "timer number error",
    0x2527: "counter number error",
    0x2528: "alignment error when reading",
    0x2529: "alignment error when writing",
    0x2530: "write error when accessing the data block",
    0x2531: "write error when accessing the instance data block",
    0x2532: "block number error when opening a data block",
    0x2533: "block number error when opening an instance data block",
    0x2534: "block number error when calling a function",
    0x2535: "block number error when calling a function block",
    0x253A: "data block not loaded",
    0x253C: "function not loaded",
    0x253D: "system function not loaded",
    0x253E: "function block not loaded",
    0x253F: "system function block not loaded",
    0x2942: "I/O access error when reading",
    0x2943: "I/O access error when writing",
    0x3501: "cycle time exceeded",
    0x3502: "request error of an organisation block",
    0x3505: "time-of-day interrupt skipped by a new clock setting",
    0x3571: "nesting depth too high",
    0x35A1: "organisation block not loaded",
    0x38C4: "distributed I/O: station has returned",
    0x39C4: "distributed I/O: station has failed",
    0x3842: "module in order",
    0x3942: "module fault",
    0x3861: "module plugged in",
    0x3961: "module pulled out or not responding",
    0x4301: "mode transition from STOP to STARTUP",
    0x4302: "mode transition from STARTUP to RUN",
    0x4303: "STOP by the mode selector",
    0x4304: "STOP by a programming device or SFB 20",
    0x4305: "HOLD: breakpoint reached",
    0x4306: "HOLD: breakpoint left",
    0x4307: "memory reset begun by a programming device",
    0x4308: "memory reset begun by the mode selector",
    0x4309: "memory reset begun by itself (power on without backup)",
    0x430A: "HOLD left, transition to STOP",
    0x430D: "STOP by another CPU of a multicomputing set",
    0x430E: "memory reset done",
    0x4562: "STOP by a programming error (organisation block not loaded or not possible)",
    0x4563: "STOP by an I/O access error (organisation block not loaded or not possible)",
    0x4568: "STOP by a time error (organisation block not loaded or not possible)",
}
_CLASSES = {
    1: "standard organisation block event",
    2: "synchronous error",
    3: "asynchronous error",
    4: "stop event or mode transition",
    5: "mode of execution",
    6: "communication event",
    7: "safety or redundancy event",
    8: "diagnostic data of a module",
    9: "user event",
}


def event_text(event_id: int) -> str:
    """The event in words, or the class of events it belongs to, or an empty text."""
    return _TEXTS.get(event_id) or _CLASSES.get(event_id >> 12, "")
