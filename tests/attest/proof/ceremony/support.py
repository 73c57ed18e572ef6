"""What the ceremony's tests share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attest.proof.ceremony_folder import CeremonyFolder


@dataclass(frozen=True, slots=True)
class Made:
    """Files of one honest ceremony, with the hashes that its contributors were told."""

    circuit: bytes
    phase1: Path
    folder: CeremonyFolder
    first: tuple[bytes, ...]
    second: tuple[bytes, ...]
