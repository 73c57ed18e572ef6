"""What the server has to remember over a restart: what became of its alarms, and how far the ledgers were read.

One small JSON file, replaced atomically. It holds nothing that others rely on: without it, alarms that are still active
come again and want to be acknowledged again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from attest import jsontext
from sitsedge.server.alarms import ALARMS
from sitsedge.server.condition import Condition

VERSION: Final = 1
BYTES_MAX: Final = 256 * 1024

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Memory:
    """Everything that is kept; ``epoch_index``: where the newest epoch lies in the gate's ledger."""

    conditions: dict[str, Condition] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    epoch_index: int | None = None

    def __post_init__(self) -> None:
        for name, spec in ALARMS.items():
            self.conditions.setdefault(name, Condition(spec))

    @classmethod
    def load(cls, path: Path) -> Memory:
        """What an earlier life kept; a new memory where there is none, or none that can be read."""
        try:
            with path.open("rb") as file:
                return cls._parse(jsontext.loads(file.read(BYTES_MAX)))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            log.warning("the server's memory %s cannot be read (%s): alarms begin anew", path.name, error)
            return cls()

    @classmethod
    def _parse(cls, data: Mapping[str, Any]) -> Memory:
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}")
        positions = {name: _index(data["positions"][name]) for name in ("gate", "device") if name in data["positions"]}
        epoch = data["epoch_index"]
        conditions = {
            name: Condition.from_data(ALARMS[name], item) for name, item in data["conditions"].items() if name in ALARMS
        }
        return cls(conditions, positions, None if epoch is None else _index(epoch))

    def save(self, path: Path) -> None:
        """Replace the file; a disk that does not take it is logged, and the alarms go on."""
        body = {
            "version": VERSION,
            "positions": self.positions,
            "epoch_index": self.epoch_index,
            "conditions": {name: item.to_data() for name, item in self.conditions.items() if item.t_event_ns},
        }
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_text(jsontext.dumps(body), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            log.error("the server's memory is not kept: %s", error.strerror)


def _index(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("an index")
    return value
