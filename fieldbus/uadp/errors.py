"""The one error of the UADP codec; its code names the rule that the bytes (or the value to encode) broke."""

from __future__ import annotations

from fieldbus.errors import FieldbusError


class UadpError(FieldbusError):
    """Bytes that are not an acceptable UADP NetworkMessage, or a value that cannot become one.

    ``offset`` is the byte at which the rule was broken, or ``None`` where no byte is to blame.
    """

    def __init__(self, code: str, *, found: str, expected: str, hint: str = "", offset: int | None = None) -> None:
        super().__init__(code, found=found, expected=expected, hint=hint)
        self.offset = offset

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.offset is None else f"{text} at byte {self.offset}"


class LayoutError(UadpError):
    """A well-formed NetworkMessage that is not (or not usable as) the DataSet the deployment declares."""


class SecurityError(UadpError):
    """A message that its security group's keys and rules do not let in, or a key that cannot be used so."""


class KeepAlive(LayoutError):
    """No values, by intent: the publisher lives. ``sequence`` is the number its next message will have (7.2.4.5.8), so
    a keep-alive also tells of messages that were lost before it (``SequenceTracker.lost_before``)."""

    def __init__(self, sequence: int | None) -> None:
        super().__init__("keep-alive", found="a keep-alive message", expected="values")
        self.sequence = sequence
