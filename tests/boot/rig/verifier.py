"""The verifier's half on the host: enrol, set a boot policy from a reference boot, judge evidence."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.boot import eventlog
from attest.boot.eventlog import EventLog
from attest.boot.policy import BootState, make_policy, reference_state
from attest.cose import Ed25519Signer
from attest.evidence import enrol
from attest.evidence.claims import Evidence, parse_evidence
from attest.evidence.verdict import Verdict
from attest.evidence.verify import NOTHING_SEEN, Seen, verify_evidence
from tests.boot.rig.machine import Agent

# 10 is IMA's and is judged by its list; 8 and 14 to 16 nobody extends here; 9, 11, 12: boot chain; 13: ours.
PCRS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13)
MODULE: Final = bytes(range(32))
DEPLOYMENT: Final = bytes(range(32, 64))
_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Shown:
    """What one boot showed: the evidence as it came, parsed, its log, and the nonce it answers."""

    data: bytes
    nonce: bytes
    evidence: Evidence
    log: EventLog


class Verifier:
    """Keeps the plant's policy key, the device record, the policy and the last reset count."""

    def __init__(self, ca_roots: Sequence[bytes]) -> None:
        self._signer = Ed25519Signer.generate()
        self._ca_roots = ca_roots
        self._record = b""
        self._policy = b""
        self._seen: Seen = NOTHING_SEEN

    def enrol(self, agent: Agent) -> None:
        """MakeCredential for the EK and AK of the agent's hello; the right answer makes the device record."""
        wish = enrol.Request(
            ek_public=_octets(agent.hello["ek_public"]),
            ek_certificates=tuple(_octets(item) for item in _items(agent.hello["ek_certificates"])),
            ak_public=_octets(agent.hello["ak_public"]),
        )
        credential, pending = enrol.challenge(wish, ca_roots=self._ca_roots, now_ns=time.time_ns())
        answer = agent.ask("enrol", blob=credential.blob, secret=credential.secret)
        self._record = pending.finish(
            _octets(answer["value"]),
            device_id="rig",
            policy_signer=self._signer,
            enrolled_by="boot rig",
            now_ns=time.time_ns(),
        )

    def ask(self, agent: Agent, *, ima: bool) -> Shown:
        """Evidence for a fresh nonce, with PCR 10 and IMA's list where the kernel found its TPM before IMA began."""
        nonce = os.urandom(32)
        answer = agent.ask(
            "evidence",
            nonce=nonce,
            module=MODULE,
            deployment=DEPLOYMENT,
            record=self._record,
            pcrs=list(PCRS),
            ima=ima,
        )
        data = _octets(answer["evidence"])
        evidence, _ = parse_evidence(data)
        return Shown(data, nonce, evidence, eventlog.parse(evidence.event_log))

    def approve(self, *states: BootState) -> None:
        """Sign a policy that allows these states."""
        now = time.time_ns()
        policy = make_policy(
            name="rig",
            version=1,
            states=states,
            not_before_ns=now - _DAY_NS,
            not_after_ns=now + _DAY_NS,
            tpm_kinds=("swtpm",),
        )
        self._policy = policy.sign(self._signer)

    def judge(self, shown: Shown) -> Verdict:
        """Every check of the product's verifier; an accepted one is remembered by its reset count."""
        verdict = verify_evidence(
            shown.data,
            nonce=shown.nonce,
            record=self._record,
            policy=self._policy,
            policy_public=self._signer.public,
            expected_module=MODULE,
            expected_deployment=DEPLOYMENT,
            now_ns=time.time_ns(),
            seen=self._seen,
        )
        if verdict.ok:
            self._seen = Seen(reset_count=verdict.reset_count, policy_version=verdict.policy_version)
        return verdict


def reference(shown: Shown, label: str = "reference") -> BootState:
    """The state a boot was in, as one to allow."""
    return reference_state(label, log=shown.log, values=shown.evidence.pcrs, pcrs=PCRS)


def _octets(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _items(value: object) -> Sequence[object]:
    assert isinstance(value, tuple)
    return value
