"""What was found at one station."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TagReport:
    """One tag: declared ``unit``, ``type`` as declared or as the machine has it, and the value with its StatusCode."""

    name: str
    unit: str
    type: str
    value: bool | int | float | str | None
    status: int


@dataclass(slots=True)
class StationReport:
    """A station as it was met. ``faults`` keep the deployment from working, ``warnings`` are for a person to judge;
    both begin with a stable code and a colon."""

    name: str
    protocol: str
    address: str
    reached: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    tags: list[TagReport] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Reached, and nothing in the way."""
        return self.reached and not self.faults

    def judge_tags(self) -> None:
        """A fault for each tag without a good value."""
        for tag in self.tags:
            if tag.status >> 30 or tag.value is None:
                self.faults.append(f"bad-tag: {tag.name} has status {tag.status:#010x}{_WORDS.get(tag.status, '')}")

    def as_data(self) -> dict[str, Any]:
        """Plain data for ``--output json``."""
        tags = [
            {"name": tag.name, "unit": tag.unit, "type": tag.type, "value": tag.value, "status": f"{tag.status:#010x}"}
            for tag in self.tags
        ]
        return {
            "name": self.name,
            "protocol": self.protocol,
            "address": self.address,
            "ok": self.ok,
            "reached": self.reached,
            "facts": self.facts,
            "tags": tags,
            "faults": self.faults,
            "warnings": self.warnings,
        }


_WORDS = {
    0x8032_0000: " (no value yet)",
    0x8034_0000: " (no such node)",
    0x803E_0000: " (not found)",
    0x8074_0000: " (another type)",
    0x803C_0000: " (no finite number)",
    0x808D_0000: " (the controller does not run its program)",
    0x808B_0000: " (device failure)",
    0x8007_0000: " (does not decode)",
}
"""Names of OPC 10000-4, annex A, for people."""
