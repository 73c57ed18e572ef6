"""How a gate kept its own rule about owed proofs: with one overdue, or too many owed, it takes no further commitment.

The gate's clock at an acceptance is not in its command record, so the decision's own time stands for it, and the rule
may be applied that much later; the deadline of each single commitment is judged with the receipt's exact time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from attest.command.records import ProofStatus
from attest.command.rules import GateRules

NS_PER_MS: Final = 1_000_000
GRACE_NS: Final = 5_000 * NS_PER_MS  # the gate looks twice a second; a stop and a start may lie between
GRACE_COMMANDS: Final = 64  # accepted while the withdrawal was being recorded

Add = Callable[[str, int | None, str, str], None]
"""``add(code, index, found, expected)``."""


class OwedProofs:
    """Follows one gate's ledger; memory is bounded by the backlog its own rules allow."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._due: OrderedDict[bytes, int] = OrderedDict()
        self.withdrawn: str | None = None
        """Why the gate had withdrawn "verified" at this point of its ledger."""

    def accepted(self, index: int, digest: bytes, t_ns: int, rules: GateRules) -> None:
        """An accepted commitment at ``t_ns``."""
        if self._due:
            oldest, due_ns = next(iter(self._due.items()))
            if t_ns > due_ns + GRACE_NS:
                found = f"a commitment accepted {(t_ns - due_ns) // NS_PER_MS} ms after an earlier proof was due"
                self._add("proof", index, found, "none until the proof came or people approved")
                del self._due[oldest]  # once for each overdue proof
        self._due[digest] = t_ns + rules.proof_deadline_ms * NS_PER_MS
        if len(self._due) > rules.proof_backlog_max + GRACE_COMMANDS:
            self._due.popitem(last=False)
            self._add("proof", index, f"over {rules.proof_backlog_max} proofs owed", "no more than the rules allow")

    def proven(self, digest: bytes) -> None:
        """The proof of one came."""
        self._due.pop(digest, None)

    def status(self, record: ProofStatus) -> None:
        """The gate withdrew "verified" or stands by it again; an approval writes off what was owed."""
        self.withdrawn = None if record.verified else record.code
        if record.code == "approved":
            self._due.clear()
