"""The epoch desk: nonces, evidence, device record, boot policy, and the last device tree head that was seen."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from attest.command import EpochOpened, EpochRefused, GateKey, Witness, line, sign_record
from attest.evidence.seen import Seen
from attest.evidence.verdict import Verdict
from attest.evidence.verify import CHECKS
from attest.ledger import Checkpoint, LedgerError, verify_consistency
from attest.ledger.merkle import EMPTY_ROOT
from attest.ledger.witness import check_extension
from sitsedge.errors import SitsError
from sitsedge.gate.attestation import vouched
from sitsedge.gate.link import Message
from sitsedge.gate.server import Connection

NS_PER_S = 1_000_000_000
CHALLENGES_MAX = 32  # all that the clients of one gate can have outstanding
CONSISTENCY_MAX = 128  # two paths of a tree with 2^63 leaves
ROOT_BYTES = 32
NO_TPM = "none"
# The gate's own checks are numbered behind those of the evidence.
DEVICE_CHECK = len(CHECKS) + 1
LEDGER_CHECK = len(CHECKS) + 2

#: ``verify(evidence, nonce, now_ns, seen) -> Verdict`` with everything else bound.
EvidenceVerifier = Callable[[bytes, bytes, int, Seen], Verdict]


class EpochRejected(SitsError):
    """Evidence that opens no epoch; ``record`` is the signed refusal for the ledger.

    ``vouched``: it is the enrolled TPM itself that says what was refused.
    """

    def __init__(self, code: str, *, found: str, expected: str, record: bytes, vouched: bool = False) -> None:
        super().__init__(code, found=found, expected=expected)
        self.record = record
        self.vouched = vouched


@dataclass(frozen=True, slots=True)
class DeskSetup:
    """Who may open an epoch for what."""

    gate_id: str
    device_id: str
    device_origin: str
    module_digest: bytes
    deployment_digest: bytes
    rules_digest: bytes
    vk_digest: bytes
    record_digest: bytes
    policy_digest: bytes
    epoch_s_max: int


class EpochDesk:
    """Opens epochs and vouches for the device's ledger.

    ``number`` and ``accepted`` continue what the gate's ledger last recorded; ``seen`` is the device's
    tree head the gate vouched for last.
    """

    def __init__(
        self,
        setup: DeskSetup,
        *,
        key: GateKey,
        verify: EvidenceVerifier,
        number: int,
        accepted: Seen,
        seen: Checkpoint | None,
    ) -> None:
        self._setup = setup
        self._key = key
        self._verify = verify
        self._number = number
        self._accepted = accepted
        self.seen = seen
        self._heads: dict[bytes, Checkpoint | None] = {}

    def challenged(self, nonce: bytes) -> int:
        """The size vouched for when ``nonce`` is given out: the evidence for it has to extend that.

        Evidence takes a while, and checkpoints go on meanwhile: they extend it as well.
        """
        while len(self._heads) >= CHALLENGES_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[nonce] = self.seen
        return 0 if self.seen is None else self.seen.size

    def open(
        self, connection: Connection, message: Message, plant_outputs: tuple[int, ...] | None
    ) -> tuple[EpochOpened, bytes]:
        """The record of a new epoch and the evidence behind it. Raises :class:`EpochRejected`."""
        evidence, nonce = message.get("evidence"), message.get("nonce")
        if not isinstance(evidence, bytes) or not isinstance(nonce, bytes):
            raise self._rejected("format", 1, b"", b"", "another shape", "evidence and nonce")
        if not connection.take_nonce(nonce):
            raise self._rejected("nonce", 3, evidence, nonce, "a nonce we did not just give out", "our nonce")
        now_ns = time.time_ns()
        verdict = self._verify(evidence, nonce, now_ns, self._accepted)
        failed = verdict.failed
        if failed is not None or not verdict.ok:
            name = failed.name if failed is not None else "format"
            number = failed.number if failed is not None else 1
            found, expected = (failed.found, failed.expected) if failed is not None else ("no checks", "all checks")
            raise self._rejected(name, number, evidence, nonce, found, expected, word=vouched(verdict))
        # Attestation mode "none" shows no device; it only gets this far in a development profile.
        if verdict.tpm_kind != NO_TPM and verdict.device_id != self._setup.device_id:
            raise self._rejected("device-id", DEVICE_CHECK, evidence, nonce, verdict.device_id, self._setup.device_id)
        self._check_head(message, evidence, nonce)
        self._number += 1
        self._accepted = Seen(verdict.reset_count, verdict.policy_version)
        opened = EpochOpened(
            gate_id=self._setup.gate_id,
            device_id=self._setup.device_id,
            epoch=self._number,
            evidence_digest=hashlib.sha256(evidence).digest(),
            nonce=nonce,
            session_public=verdict.session_public,
            module_digest=self._setup.module_digest,
            deployment_digest=self._setup.deployment_digest,
            rules_digest=self._setup.rules_digest,
            vk_digest=self._setup.vk_digest,
            record_digest=self._setup.record_digest,
            policy_digest=self._setup.policy_digest,
            t_opened_ns=now_ns,
            expires_ns=now_ns + self._setup.epoch_s_max * NS_PER_S,
            ak_name=verdict.ak_name,
            tpm_kind=verdict.tpm_kind,
            boot_policy=line(f"{verdict.policy_name} v{verdict.policy_version}: {verdict.boot_state}"),
            reset_count=verdict.reset_count,
            plant_outputs=plant_outputs,
            command_public=verdict.command_public,
        )
        return opened, evidence

    def witness(self, message: Message, session_public: bytes) -> Witness:
        """Vouch for a checkpoint that extends the last one. Raises ``LedgerError`` (``ledger-cut``, …)."""
        note = message.get("note")
        if not isinstance(note, bytes):
            raise LedgerError("note-format", found="no note", expected="a signed checkpoint")
        seen = check_extension(
            note, _path(message), origin=self._setup.device_origin, public=session_public, seen=self.seen
        )
        self.seen = seen
        return Witness(self._setup.gate_id, seen.origin, seen.size, seen.root, time.time_ns())

    def _check_head(self, message: Message, evidence: bytes, nonce: bytes) -> None:
        """The device must show that its ledger still holds everything the gate vouched for."""
        head = message.get("ledger")
        size = head.get("size") if isinstance(head, dict) else None
        root = head.get("root") if isinstance(head, dict) else None
        if not isinstance(size, int) or isinstance(size, bool) or not isinstance(root, bytes) or size < 0:
            raise self._rejected(
                "ledger-head", LEDGER_CHECK, evidence, nonce, "no tree head", "size and root of the ledger"
            )
        seen = self._heads.pop(nonce, self.seen)
        old, old_root = (0, EMPTY_ROOT) if seen is None else (seen.size, seen.root)
        if size < old:
            raise self._rejected("ledger-cut", LEDGER_CHECK, evidence, nonce, f"{size} records", f"at least {old}")
        try:
            verify_consistency(old, old_root, size, root, _path(message))
        except LedgerError as error:
            expected = f"an extension of the {old} records seen"
            raise self._rejected(
                "ledger-cut", LEDGER_CHECK, evidence, nonce, f"size {size}: {error.found}", expected
            ) from error

    def _rejected(
        self, code: str, check: int, evidence: bytes, nonce: bytes, found: str, expected: str, *, word: bool = False
    ) -> EpochRejected:
        refused = EpochRefused(
            gate_id=self._setup.gate_id,
            evidence_digest=hashlib.sha256(evidence).digest(),
            nonce=nonce[:64],
            session_public=b"",
            code=code,
            check=check,
            found=line(found),
            expected=line(expected),
            t_ns=time.time_ns(),
        )
        record = sign_record(refused, self._key)
        return EpochRejected(code, found=found, expected=expected, record=record, vouched=word)


def _path(message: Message) -> list[bytes]:
    path = message.get("consistency", ())
    if not isinstance(path, tuple | list) or len(path) > CONSISTENCY_MAX:
        raise LedgerError("ledger-proof", found="another shape", expected="a list of hashes")
    if not all(isinstance(item, bytes) and len(item) == ROOT_BYTES for item in path):
        raise LedgerError("ledger-proof", found="items of other sizes", expected="32-byte hashes")
    return list(path)
