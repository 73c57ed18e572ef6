"""The gate's judgement of one command: numbered checks, cheap ones first, the pairing last.

 1  ``malformed``          strict COSE_Sign1, deterministic CBOR, keys, types and ranges; as many values as rules
 2  ``gate-id``            addressed to this gate
 3  ``device-id``          from the device this epoch was opened for
 4  ``epoch-unknown``      the open epoch
 5  ``epoch-expired``      not past its end, by the gate's clock
 6  ``signature``          by the epoch's session key, the gate's identifier as external data
 7  ``replay``/``reorder`` sequence above the last accepted; ``replay`` if that number was accepted before
 8  ``module-digest``      the module of the epoch
 9  ``deployment-digest``  the deployment of the epoch
10  ``mode``               a mode the rules accept, and the mode the gate is in
11  ``future-source``      decided after it was sampled, both not ahead of the gate's clock
12  ``stale-source``       sample young enough, decided soon enough, not older than the last accepted sample
13  ``stale-decision``     decision young enough, not older than the last accepted decision
14  ``time-quality``       deciding clock good enough
15  ``input-range``        every input inside its range
16  ``input-rate``         every input's change since the last accepted command
17  ``output-limit``       every output inside the gate's own limits (narrower in SUPERVISED)
18  ``output-rate``        every output's change since the last accepted command, or since the plant's value
19  ``output-relation``    every linear relation
20  ``proof-missing``/``proof-kind``/``proof-backlog``   what the policy demands, and proofs owed coming in time
21  ``proof-signals``/``proof-point``/``proof-moved``/``proof-statement``/``proof-forged``   the proof verifies;
    where it follows later, the commitment is to this command's statement

Checks from 7 on speak about authenticated data. The first command of an epoch has no predecessor: its inputs
have no rate, its outputs are held against ``plant_outputs`` and ``first_step_max`` where both exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from attest.command.command import Command, ParsedCommand, parse_command
from attest.command.enums import INLINE_PROOFS, Mode, ProofKind, ProofPolicy
from attest.command.errors import CommandError
from attest.command.records import EpochOpened
from attest.command.rules import GateRules
from attest.command.state import GateState
from attest.errors import AttestError
from attest.proof.circuit import Curve
from attest.proof.commitment import statement_commitment

CHECKS: Final = {
    "malformed": 1,
    "gate-id": 2,
    "device-id": 3,
    "epoch-unknown": 4,
    "epoch-expired": 5,
    "signature": 6,
    "replay": 7,
    "reorder": 7,
    "module-digest": 8,
    "deployment-digest": 9,
    "mode": 10,
    "future-source": 11,
    "stale-source": 12,
    "stale-decision": 13,
    "time-quality": 14,
    "input-range": 15,
    "input-rate": 16,
    "output-limit": 17,
    "output-rate": 18,
    "output-relation": 19,
    "proof-missing": 20,
    "proof-kind": 20,
    "proof-backlog": 20,
    "proof-signals": 21,
    "proof-point": 21,
    "proof-moved": 21,
    "proof-statement": 21,
    "proof-forged": 21,
}
_NS_PER_MS: Final = 1_000_000


class ProofVerifier(Protocol):
    """A verifier bound to one verification key: those of ``attest.proof``, or the native one itself."""

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes, /) -> str | None:
        """``None`` if the proof verifies; else the name of the failed check, returned or as an error's code."""
        ...


Explain = Callable[[tuple[int, ...]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """The epoch a gate has open: who signs, for which module and deployment, until when.

    ``vk_digest`` pins the verification key that commitments are made with; empty where no proof is demanded.
    """

    number: int
    device_id: str
    session_public: bytes
    module_digest: bytes
    deployment_digest: bytes
    expires_ns: int
    vk_digest: bytes = b""
    command_public: bytes = b""

    @property
    def command_key(self) -> bytes:
        """Who signs the commands: a key of the TPM where there is one, else the session key."""
        return self.command_public or self.session_public

    @classmethod
    def of(cls, record: EpochOpened) -> OpenEpoch:
        """What ``judge`` needs of the record that opened an epoch."""
        return cls(
            number=record.epoch,
            device_id=record.device_id,
            session_public=record.session_public,
            module_digest=record.module_digest,
            deployment_digest=record.deployment_digest,
            expires_ns=record.expires_ns,
            vk_digest=record.vk_digest,
            command_public=record.command_public,
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """Every check passed; the state has taken the command over.

    ``proof_verified`` is false where none was due. ``now_ns`` is the time it was judged at: the receipt's
    ``t_accepted_ns``, so that an auditor can repeat the judgement.
    """

    parsed: ParsedCommand
    proof_verified: bool
    now_ns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The first check that failed. ``parsed`` is ``None`` only for ``malformed`` and ``gate-id``."""

    code: str
    check: int
    found: str
    expected: str
    parsed: ParsedCommand | None


class _Refuse(Exception):
    """Leaves the chain of checks at the first failure; never crosses ``judge``."""

    def __init__(self, code: str, found: str, expected: str) -> None:
        super().__init__(code)
        self.code, self.found, self.expected = code, found, expected


def judge(
    data: bytes,
    rules: GateRules,
    state: GateState,
    epoch: OpenEpoch | None,
    now_ns: int,
    *,
    gate_mode: Mode,
    verifier: ProofVerifier | None = None,
    explain: Explain | None = None,
    withdrawn: str | None = None,
) -> Accepted | Refused:
    """Judge the bytes of one command at ``now_ns`` (the gate's CLOCK_REALTIME); numbers as above.

    ``state`` changes only if the result is ``Accepted``. ``explain`` gives the model's outputs for some
    inputs; it is called after a failed pairing, to name the reason, and before a commitment is taken, so that nothing
    but the model's outputs moves the plant while the proof is still owed. A deployment whose policy demands a
    proof needs ``verifier``; without one every such command is refused (a check that cannot be made fails).
    ``withdrawn`` says why no further commitment is taken: earlier ones are overdue or too many.
    """
    parsed: ParsedCommand | None = None
    try:
        parsed = parse_command(data, rules.gate_id)  # 1, 2
        command = parsed.command
        _check_shape(command, rules)  # 1
        _check_authentic(parsed, epoch, now_ns)  # 3-6
        assert epoch is not None
        assert epoch.number == state.epoch, "state and epoch belong together"
        _check_order(command, state)  # 7
        _check_deployment(command, rules, epoch, gate_mode)  # 8-10
        _check_times(command, rules, state, now_ns)  # 11-14
        _check_inputs(command, rules, state)  # 15, 16
        _check_outputs(command, rules, state)  # 17-19
        due = _check_proof_kind(command, rules, withdrawn)  # 20
        proof_digest = hashlib.sha256(command.proof).digest() if command.proof else None
        if due:
            _check_proof(command, state, proof_digest, verifier, explain)  # 21
        elif command.proof_kind is ProofKind.COMMITMENT:
            _check_commitment(command, rules, epoch, explain)  # 21
    except CommandError as error:
        return Refused(error.code, CHECKS[error.code], error.found, error.expected, parsed)
    except _Refuse as refuse:
        return Refused(refuse.code, CHECKS[refuse.code], refuse.found, refuse.expected, parsed)
    header = command.header
    state.accept(
        sequence=header.sequence,
        inputs=command.inputs,
        outputs=command.outputs,
        t_source_ns=header.t_source_ns,
        t_decided_ns=header.t_decided_ns,
        proof_digest=proof_digest,
    )
    return Accepted(parsed, due, now_ns)


def _check_shape(command: Command, rules: GateRules) -> None:
    found = (len(command.inputs), len(command.outputs))
    expected = (len(rules.inputs), len(rules.outputs))
    if found != expected:
        raise _Refuse(
            "malformed",
            f"{found[0]} inputs and {found[1]} outputs",
            f"{expected[0]} and {expected[1]}",
        )


def _check_authentic(parsed: ParsedCommand, epoch: OpenEpoch | None, now_ns: int) -> None:
    header = parsed.command.header
    if epoch is None:
        raise _Refuse("epoch-unknown", f"epoch {header.epoch}", "no epoch is open")
    if header.device_id != epoch.device_id:
        raise _Refuse("device-id", header.device_id, epoch.device_id)
    if header.epoch != epoch.number:
        raise _Refuse("epoch-unknown", f"epoch {header.epoch}", f"epoch {epoch.number}")
    if now_ns >= epoch.expires_ns:
        late_ms = (now_ns - epoch.expires_ns) // _NS_PER_MS
        raise _Refuse("epoch-expired", f"{late_ms} ms past the end of epoch {epoch.number}", "an open epoch")
    parsed.verify(epoch.command_key)


def _check_order(command: Command, state: GateState) -> None:
    sequence = command.header.sequence
    if sequence <= state.sequence:
        code = "replay" if state.accepted(sequence) else "reorder"
        raise _Refuse(code, f"sequence {sequence}", f"above {state.sequence}")


def _check_deployment(command: Command, rules: GateRules, epoch: OpenEpoch, gate_mode: Mode) -> None:
    header = command.header
    if header.module_digest != epoch.module_digest:
        raise _Refuse("module-digest", header.module_digest.hex(), epoch.module_digest.hex())
    if header.deployment_digest != epoch.deployment_digest:
        raise _Refuse("deployment-digest", header.deployment_digest.hex(), epoch.deployment_digest.hex())
    if header.mode not in rules.modes:
        raise _Refuse("mode", header.mode.name, " or ".join(mode.name for mode in sorted(rules.modes)))
    if header.mode != gate_mode:
        raise _Refuse("mode", header.mode.name, f"the gate's mode {gate_mode.name}")


def _check_times(command: Command, rules: GateRules, state: GateState, now_ns: int) -> None:
    header = command.header
    source, decided = header.t_source_ns, header.t_decided_ns
    ahead = max(source, decided) - now_ns
    if ahead > rules.future_ms_max * _NS_PER_MS:
        raise _Refuse("future-source", f"{_ms(ahead)} ahead of the gate", f"at most {rules.future_ms_max} ms")
    if decided < source:
        raise _Refuse("future-source", f"sampled {_ms(source - decided)} after the decision", "before it")
    if now_ns - source > rules.source_age_ms_max * _NS_PER_MS:
        raise _Refuse("stale-source", f"a sample {_ms(now_ns - source)} old", f"at most {rules.source_age_ms_max} ms")
    if decided - source > rules.decide_ms_max * _NS_PER_MS:
        raise _Refuse("stale-source", f"decided {_ms(decided - source)} after it", f"at most {rules.decide_ms_max} ms")
    if source < state.t_source_ns:
        raise _Refuse("stale-source", f"{_ms(state.t_source_ns - source)} before the last sample", "not before")
    if now_ns - decided > rules.decision_age_ms_max * _NS_PER_MS:
        raise _Refuse(
            "stale-decision",
            f"a decision {_ms(now_ns - decided)} old",
            f"at most {rules.decision_age_ms_max} ms",
        )
    if decided < state.t_decided_ns:
        raise _Refuse("stale-decision", f"{_ms(state.t_decided_ns - decided)} before the last decision", "not before")
    if command.time_quality < rules.time_quality_min:
        raise _Refuse("time-quality", command.time_quality.name, f"{rules.time_quality_min.name} or better")


def _check_inputs(command: Command, rules: GateRules, state: GateState) -> None:
    for rule, value in zip(rules.inputs, command.inputs, strict=True):
        if not rule.low <= value <= rule.high:
            raise _Refuse("input-range", f"{rule.name} = {value}", f"{rule.low}..{rule.high}")
    if state.inputs is None:
        return
    interval = command.header.t_source_ns - state.t_source_ns
    for rule, value, last in zip(rules.inputs, command.inputs, state.inputs, strict=True):
        if rule.rate_milli_max is None or value == last:
            continue
        allowed = rules.allowed_change(rule.rate_milli_max, interval) + 1
        if abs(value - last) > allowed:
            found = f"{rule.name} from {last} to {value} in {_ms(interval)}"
            raise _Refuse("input-rate", found, f"a change of at most {allowed}")


def _check_outputs(command: Command, rules: GateRules, state: GateState) -> None:
    supervised = command.header.mode is Mode.SUPERVISED
    for rule, value in zip(rules.outputs, command.outputs, strict=True):
        low, high = rule.supervised if supervised and rule.supervised else (rule.low, rule.high)
        if not low <= value <= high:
            raise _Refuse("output-limit", f"{rule.name} = {value}", f"{low}..{high}")
    if state.outputs is not None:
        interval = command.header.t_decided_ns - state.t_decided_ns
        for rule, value, last in zip(rules.outputs, command.outputs, state.outputs, strict=True):
            if rule.rate_milli_max is None or value == last:
                continue
            allowed = rules.allowed_change(rule.rate_milli_max, interval)
            if abs(value - last) > allowed:
                found = f"{rule.name} from {last} to {value} in {_ms(interval)}"
                raise _Refuse("output-rate", found, f"a change of at most {allowed}")
    elif state.plant_outputs is not None:
        for rule, value, last in zip(rules.outputs, command.outputs, state.plant_outputs, strict=True):
            if rule.first_step_max is not None and abs(value - last) > rule.first_step_max:
                found = f"{rule.name} from the plant's {last} to {value}"
                raise _Refuse("output-rate", found, f"a first step of at most {rule.first_step_max}")
    for relation in rules.relations:
        left = relation.left(command.inputs, command.outputs)
        if left > relation.bound:
            raise _Refuse("output-relation", f"{relation.name} = {left}", f"at most {relation.bound}")


def _check_proof_kind(command: Command, rules: GateRules, withdrawn: str | None) -> bool:
    """Whether a proof is there that has to verify."""
    kind, policy = command.proof_kind, rules.proof_policy
    if kind is ProofKind.NONE:
        if policy is ProofPolicy.OFF:
            return False
        raise _Refuse("proof-missing", "no proof", rules.proof_kind.name)
    if kind is ProofKind.COMMITMENT:
        if policy is ProofPolicy.DEFERRED:
            if withdrawn is not None:
                raise _Refuse("proof-backlog", withdrawn, "earlier proofs in time")
            return False
        raise _Refuse("proof-kind", kind.name, rules.proof_kind.name)
    if kind is not rules.proof_kind:
        raise _Refuse("proof-kind", kind.name, rules.proof_kind.name)
    return kind in INLINE_PROOFS


def _check_commitment(command: Command, rules: GateRules, epoch: OpenEpoch, explain: Explain | None) -> None:
    if not epoch.vk_digest:
        raise _Refuse("proof-kind", "no verification key for this module", "a key to commit to")
    expected = statement_commitment(
        epoch.vk_digest, command.inputs, command.outputs, command.header.ctx(), curve=Curve(int(rules.proof_kind))
    )
    if command.proof != expected:
        raise _Refuse("proof-statement", f"a commitment {command.proof.hex()}", f"{expected.hex()} for this statement")
    if explain is not None:
        outputs = tuple(explain(command.inputs))
        if outputs != command.outputs:
            raise _Refuse("proof-statement", f"outputs {command.outputs}"[:200], f"{outputs}"[:200])


def _check_proof(
    command: Command,
    state: GateState,
    proof_digest: bytes | None,
    verifier: ProofVerifier | None,
    explain: Explain | None,
) -> None:
    if verifier is None:
        raise _Refuse("proof-kind", "no verification key for this module", command.proof_kind.name)
    try:
        failed = verifier.verify(command.inputs, command.outputs, command.header.ctx(), command.proof)
    except AttestError as refusal:
        failed = refusal.code
    if failed is None:
        return
    if "pairing" not in failed:
        code = "proof-signals" if "signal" in failed else "proof-point"
        raise _Refuse(code, f"check {failed} failed", "a proof that verifies")
    seen = None if proof_digest is None else state.proof_seen(proof_digest)
    if seen is not None:
        raise _Refuse("proof-moved", f"the proof of sequence {seen}", f"one for {command.header.sequence}")
    if explain is not None:
        outputs = tuple(explain(command.inputs))
        if outputs != command.outputs:
            raise _Refuse("proof-statement", f"outputs {command.outputs}"[:200], f"{outputs}"[:200])
    raise _Refuse("proof-forged", "a proof that does not satisfy the pairing equation", "one that does")


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / _NS_PER_MS:.3f} ms"
