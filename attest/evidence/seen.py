"""What a verifier remembers of one device between two pieces of evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest values of accepted evidence; ``None`` where none was accepted yet.

    ``reset_count`` is the TPM's (it counts power cycles), ``policy_version`` that of the boot policy.
    """

    reset_count: int | None = None
    policy_version: int | None = None


NOTHING_SEEN = Seen()
