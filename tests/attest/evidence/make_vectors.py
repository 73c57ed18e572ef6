"""Write the golden vectors: ``python -m tests.attest.evidence.make_vectors``. The same bytes each time."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attest.evidence.seen import Seen
from tests.attest.evidence.cases import CASES
from tests.attest.evidence.forge import Case

VECTORS = Path(__file__).with_name("vectors")
SCHEMA = "sits-evidence-2"


def plain(value: object) -> object:
    """An argument as JSON has it: bytes in hex, what was seen as an object."""
    if isinstance(value, Seen):
        return asdict(value)
    return value.hex() if isinstance(value, bytes) else value


def vector(name: str, case: Case, failed: tuple[str, ...]) -> dict[str, Any]:
    arguments = case.arguments()
    encoded = {key: plain(value) for key, value in arguments.items()}
    return {
        "schema": SCHEMA,
        "comment": name.replace("-", " "),
        "result": "invalid" if failed else "valid",
        "flags": list(failed),
        "evidence": case.evidence().hex(),
        "arguments": encoded,
    }


def main() -> None:
    VECTORS.mkdir(exist_ok=True)
    for old in VECTORS.glob("*.json"):
        old.unlink()
    for name, (case, failed) in CASES.items():
        text = json.dumps(vector(name, case, failed), indent=1)
        (VECTORS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
