"""What an audit says: counts, and findings with a stable code, the ledger and the record they are about.

Codes: ``ledger-missing``, ``ledger-foreign``, ``ledger-newer``, ``ledger-torn``, ``ledger-origin``, ``ledger-io`` (a
file that cannot be read as a ledger), ``anchors``, ``leaf-hash`` (a record or node was altered),
``checkpoint-signature``, ``checkpoint-root`` (the records are not those a checkpoint was signed over),
``checkpoint-missing`` (records that no checkpoint covers, or a witnessed checkpoint that is not there),
``ledger-cut`` (records missing that a checkpoint, the other side or a witness shows), ``ledger-reordered``,
``unknown-record``, ``evidence``, ``command``, ``proof``, ``receipt``, ``unreconciled``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

FINDINGS_MAX: Final = 1000  # one fault can spoil every later record; the rest is only counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; ``index`` is the record's, ``None`` where it is about the whole."""

    code: str
    ledger: str
    index: int | None
    found: str
    expected: str

    def __str__(self) -> str:
        where = self.ledger if self.index is None else f"{self.ledger} record {self.index}"
        return f"{self.code}: {where}: got {self.found}, expected {self.expected}"


@dataclass(slots=True)
class LedgerSummary:
    """One ledger as it was found.

    ``unauthenticated`` counts the device's records from outside any epoch (a key the gate never introduced; they
    can excuse nothing), ``checkpoints_unknown`` its checkpoints by such a key, which a later one by a known key
    must cover.
    """

    name: str
    origin: str = ""
    size: int = 0
    root: str = ""
    data_bytes: int = 0
    checkpoints: int = 0
    checkpointed: int = 0
    checkpoints_unknown: int = 0
    unauthenticated: int = 0
    closed: bool = False
    kinds: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class EpochSummary:
    """One epoch as the gate recorded it. ``evidence`` is ``ok``, ``none`` (no attestation) or the failed check."""

    number: int
    evidence: str
    tpm_kind: str
    module_digest: str
    deployment_digest: str
    development_key: bool
    accepted: int = 0
    proofs_checked: int = 0
    witnesses: int = 0


@dataclass(slots=True)
class AuditReport:
    """The result of ``audit.verify``; ``ok`` means no finding at all.

    ``proofs_owed`` counts accepted commitments whose proof is not due yet, ``proofs_late`` proofs that came after their
    deadline (they verify, but the plant ran without knowing).

    Three counts state what the unclean ends of epochs may leave: ``tail_device`` commands that the gate accepted after
    its last witnesses and the device had not yet made durable, ``tail_gate`` commands the device recorded last that
    the gate never answered, ``tail_receipts`` accepted commands whose receipt a gate that stopped without closing its
    epoch never wrote.
    """

    engine: str
    proofs: str
    profile: str = ""
    ledgers: dict[str, LedgerSummary] = field(default_factory=dict)
    epochs: list[EpochSummary] = field(default_factory=list)
    accepted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    proofs_checked: int = 0
    proofs_owed: int = 0
    proofs_late: int = 0
    tail_device: int = 0
    tail_gate: int = 0
    tail_receipts: int = 0
    findings: list[Finding] = field(default_factory=list)
    findings_total: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.findings_total == 0

    def add(self, code: str, ledger: str, index: int | None, found: str, expected: str) -> None:
        """Note a finding; beyond ``FINDINGS_MAX`` only the count grows."""
        self.findings_total += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(code, ledger, index, found[:300], expected[:300]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"ok": self.ok, **asdict(self)}
