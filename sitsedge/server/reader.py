"""Values of other processes' snapshots by kind: what is not there, or of another kind, is ``None``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Reader:
    """One object of a snapshot."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def text(self, key: str) -> str | None:
        """Words."""
        value = self._data.get(key)
        return value if isinstance(value, str) else None

    def reason(self, key: str) -> str | None:
        """Snapshots say ``null`` where there is nothing to give a reason for: that is an empty one."""
        return "" if key in self._data and self._data[key] is None else self.text(key)

    def whole(self, key: str) -> int | None:
        """A whole number."""
        return whole(self._data.get(key))

    def count(self, key: str) -> int:
        """The same, 0 where it is not there."""
        return self.whole(key) or 0

    def number(self, key: str) -> float | None:
        """A number."""
        value = self._data.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def flag(self, key: str) -> bool | None:
        """True or false."""
        value = self._data.get(key)
        return value if isinstance(value, bool) else None

    def counts(self, key: str) -> dict[str, int] | None:
        """Counts by code."""
        value = self._data.get(key)
        if not isinstance(value, dict):
            return None
        return {str(code): count for code, count in value.items() if whole(count) is not None}

    def below(self, key: str) -> Reader:
        """An object inside, empty where there is none."""
        value = self._data.get(key)
        return Reader(value if isinstance(value, dict) else {})


def whole(value: object) -> int | None:
    """A whole number, and no truth value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
