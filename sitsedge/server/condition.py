"""One alarm condition as OPC 10000-9 (5.5 to 5.8) describes it: a state machine without any I/O.

Active, acknowledged, confirmed: a new alarm has to be acknowledged, and what was acknowledged confirmed; it stays of
interest (Retain) until it is inactive, acknowledged and confirmed. A person acknowledges what they have seen: the
EventId they name must be one of this activation's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sitsedge.server.alarms import AlarmSpec, Finding

COMMENT_CHARACTERS_MAX: Final = 1000
MESSAGE_CHARACTERS_MAX: Final = 500
EVENT_IDS_MAX: Final = 32  # of one activation: each change of severity or comment adds one


class Answer(StrEnum):
    """Results of a method of a condition; the names are those of the status codes."""

    GOOD = "Good"
    EVENT_ID_UNKNOWN = "BadEventIdUnknown"
    ALREADY_ACKED = "BadConditionBranchAlreadyAcked"
    ALREADY_CONFIRMED = "BadConditionBranchAlreadyConfirmed"
    NOT_ACKED = "BadInvalidState"


@dataclass(slots=True)
class Condition:
    """One condition; times in ns since the Unix epoch, 0 before anything happened."""

    spec: AlarmSpec
    active: bool = False
    acked: bool = True
    confirmed: bool = True
    severity: int = 0
    last_severity: int = 0
    message: str = ""
    comment: str = ""
    user: str = ""
    t_active_ns: int = 0
    t_acked_ns: int = 0
    t_confirmed_ns: int = 0
    t_comment_ns: int = 0
    t_event_ns: int = 0
    event_ids: list[bytes] = field(default_factory=list)

    @property
    def retain(self) -> bool:
        """Whether somebody should still look at it (5.5.2)."""
        return self.active or not self.acked or not self.confirmed

    @property
    def event_id(self) -> bytes:
        """Of the newest event; empty before the first."""
        return self.event_ids[-1] if self.event_ids else b""

    def judge(self, finding: Finding, now_ns: int) -> bool:
        """Take over what is known now; whether that is an event.

        A new text alone is none while the alarm is active: values in it change all the time.
        """
        severity = finding.severity or self.spec.severity
        if finding.active:
            message = (finding.message or self.spec.meaning)[:MESSAGE_CHARACTERS_MAX]
            if not self.active:
                self.active, self.acked, self.confirmed = True, False, True
                self.t_active_ns, self.event_ids = now_ns, []
            elif severity == self.severity:
                self.message = message
                return False
            self.message = message
            self.last_severity, self.severity = self.severity, severity
        elif self.active:
            self.active, self.t_active_ns = False, now_ns
        else:
            return False
        self._event(now_ns)
        return True

    def acknowledge(self, event_id: bytes, comment: str, user: str, now_ns: int) -> Answer:
        """Somebody has seen it (5.7.3)."""
        if event_id not in self.event_ids:
            return Answer.EVENT_ID_UNKNOWN
        if self.acked:
            return Answer.ALREADY_ACKED
        self.acked, self.confirmed, self.t_acked_ns = True, False, now_ns
        self._remark(comment, user, now_ns)
        return Answer.GOOD

    def confirm(self, event_id: bytes, comment: str, user: str, now_ns: int) -> Answer:
        """Somebody has done something about it (5.7.4)."""
        if event_id not in self.event_ids:
            return Answer.EVENT_ID_UNKNOWN
        if not self.acked:
            return Answer.NOT_ACKED
        if self.confirmed:
            return Answer.ALREADY_CONFIRMED
        self.confirmed, self.t_confirmed_ns = True, now_ns
        self._remark(comment, user, now_ns)
        return Answer.GOOD

    def add_comment(self, event_id: bytes, comment: str, user: str, now_ns: int) -> Answer:
        """A word beside it (5.5.6)."""
        if event_id not in self.event_ids:
            return Answer.EVENT_ID_UNKNOWN
        self._remark(comment, user, now_ns, always=True)
        return Answer.GOOD

    def _remark(self, comment: str, user: str, now_ns: int, *, always: bool = False) -> None:
        """An empty comment leaves the one before (5.7.3); the user is who did the last thing."""
        if comment or always:
            self.comment, self.t_comment_ns = comment[:COMMENT_CHARACTERS_MAX], now_ns
        self.user = user
        self._event(now_ns)

    def _event(self, now_ns: int) -> None:
        self.t_event_ns = now_ns
        self.event_ids = [*self.event_ids[1 - EVENT_IDS_MAX :], uuid.uuid4().bytes]

    def to_data(self) -> dict[str, Any]:
        """For the file that outlives a restart."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {"event_ids": [item.hex() for item in self.event_ids]}

    @classmethod
    def from_data(cls, spec: AlarmSpec, data: Mapping[str, Any]) -> Condition:
        """The condition of such a file. Raises ValueError, KeyError or TypeError for another shape."""
        condition = cls(spec)
        for name in _PLAIN:
            value = data[name]
            if type(value) is not type(getattr(condition, name)):
                raise TypeError(name)
            setattr(condition, name, value)
        condition.event_ids = [bytes.fromhex(item) for item in list(data["event_ids"])[-EVENT_IDS_MAX:]]
        return condition


_PLAIN: Final = (
    "active",
    "acked",
    "confirmed",
    "severity",
    "last_severity",
    "message",
    "comment",
    "user",
    "t_active_ns",
    "t_acked_ns",
    "t_confirmed_ns",
    "t_comment_ns",
    "t_event_ns",
)
