"""What the gate verifies evidence against: its own trust folder, and nothing the device says."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from attest import cose
from attest.boot.policy import parse_policy
from attest.command import EpochOpened, GateKey, parse_record
from attest.errors import AttestError
from attest.evidence.none import verify_none
from attest.evidence.revocation import MAX_LIST_BYTES
from attest.evidence.verdict import Verdict
from attest.evidence.verify import NOTHING_SEEN, Seen, verify_evidence
from attest.ledger import Ledger, RecordKind
from sitsedge.config import Deployment
from sitsedge.errors import SitsError
from sitsedge.gate.epochs import EvidenceVerifier
from sitsedge.supervisor.keys import read_public
from sitsedge.supervisor.sealfiles import RESIDENT, signer_policy
from sitsedge.supervisor.state import StateDir

REVOCATIONS = "revocations.cose"
UNREADABLE = b""  # no list, so check 6 fails: a list that is there and cannot be read is not "no list"


def revocation_list(state: StateDir) -> bytes | None:
    """The plant's revocation list, where this gate keeps one.

    Read while the gate runs, so it never waits: a pipe, a folder or an unreadable file in its place is no valid list
    (``UNREADABLE``), and of a huge one only so much is read that it is refused.
    """
    try:
        handle = os.open(state.trust / REVOCATIONS, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return UNREADABLE
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return UNREADABLE
        with os.fdopen(handle, "rb", closefd=False) as stream:
            return stream.read(MAX_LIST_BYTES + 1)
    except OSError:
        return UNREADABLE
    finally:
        os.close(handle)


def last_record(path: Path, kind: RecordKind, key: GateKey) -> Any:
    """The newest record of a kind in the gate's ledger, its signature checked; ``None`` where there is none."""
    if not path.exists():
        return None
    ledger = Ledger.open_readonly(path)
    try:
        leaf = ledger.last(kind)
    finally:
        ledger.close()
    if leaf is None:
        return None
    parsed = parse_record(leaf.data)
    parsed.verify(key.public)
    return parsed.record


def remembered(state: StateDir, key: GateKey) -> Seen:
    """What the gate will judge the next evidence against. Raises as :func:`last_seen`."""
    opened = last_record(state.gate_ledger, RecordKind.EPOCH_OPENED, key)
    return last_seen(state, opened if isinstance(opened, EpochOpened) else None)


def last_seen(state: StateDir, opened: EpochOpened | None) -> Seen:
    """What the gate accepted last, from the newest epoch record of its own ledger.

    The record names its boot policy by digest; the anchors beside the ledger keep every policy that was ever used.
    Raises :class:`SitsError` ``policy-memory`` where that file is gone: without it a downgrade could not be noticed.
    """
    if opened is None or not opened.policy_digest:
        return NOTHING_SEEN if opened is None else Seen(reset_count=opened.reset_count)
    path = state.anchors / "boot-policies" / f"{opened.policy_digest.hex()}.cose"
    try:
        data = path.read_bytes()
        policy, message = parse_policy(data)
        cose.verify(message, public=read_public(state.trust / "policy.pub"))
    except (OSError, AttestError) as error:
        raise SitsError(
            "policy-memory",
            found=f"{path.name}: {error}",
            expected="the boot policy of the last epoch, as signed",
            hint=f"restore {path.parent} from a backup; it belongs to the gate's ledger",
        ) from error
    if hashlib.sha256(data).digest() != opened.policy_digest:
        raise SitsError("policy-memory", found=f"another {path.name}", expected="the file its name says")
    return Seen(opened.reset_count, policy.version)


def evidence_verifier(
    state: StateDir, deployment: Deployment, mode: str, *, module: bytes, deployed: bytes
) -> EvidenceVerifier:
    """Everything but evidence, nonce and time comes from the gate's own trust folder.

    A revocation list there (``revocations.cose``) is read again each time: a new one counts from the next epoch on.
    """
    development = deployment.profile == "development"
    if mode == "none":

        def without(evidence: bytes, nonce: bytes, now_ns: int, seen: Seen) -> Verdict:
            return verify_none(
                evidence,
                nonce=nonce,
                expected_module=module,
                expected_deployment=deployed,
                development_profile=development,
            )

        return without
    record = (state.trust / "device-record.cbor").read_bytes()
    policy = (state.trust / "boot-policy.cose").read_bytes()
    public = read_public(state.trust / "policy.pub")
    sealed = signer_policy(state) if mode == RESIDENT else None

    def with_tpm(evidence: bytes, nonce: bytes, now_ns: int, seen: Seen) -> Verdict:
        return verify_evidence(
            evidence,
            nonce=nonce,
            record=record,
            policy=policy,
            policy_public=public,
            expected_module=module,
            expected_deployment=deployed,
            now_ns=now_ns,
            seen=seen,
            revocations=revocation_list(state),
            application_pcr=deployment.attestation.application_pcr,
            signer_policy=sealed,
        )

    return with_tpm
