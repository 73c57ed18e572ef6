"""Twelve attacks on a running system, each with the reason it must be refused for.

Every attack returns one :class:`Attempt` per variant: who tried what, the refusal code it must get, the code it got,
and the record that the refusal left. Nothing here knows a secret that its attacker would not have.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest import cbor
from attest.boot.measure import PCR_APPLICATION
from attest.command import Mode, Receipt, SessionKey, parse_command, parse_record
from attest.evidence.claims import parse_evidence
from attest.ledger import Ledger, sign_checkpoint
from attest.ledger.note import Checkpoint
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import PairingCurve
from attest.tpm import TpmDevice
from sitsedge.demo.compromised import CompromisedLoop, Statement, paused
from sitsedge.demo.offline import cut_copy_and_audit
from sitsedge.demo.system import LiveSystem
from sitsedge.errors import SitsError
from sitsedge.gate.link import GateLink, Message, decode, encode

ANSWER_S = 5.0
FRAME_DELAY_S = 0.05  # beyond source_age_ms_max of the example
SEARCHES = 200_000
SEED = 7
INPUTS, OUTPUTS = 10, 11  # keys of the command map (evidence §4)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One variant of an attack and what came of it; ``record`` is the signed record that the refusal left."""

    attacker: str
    what: str
    expected: str
    got: str
    found: str
    record: bytes | None
    ledger: str = "gate"

    @property
    def ok(self) -> bool:
        """Refused, and for the right reason."""
        return self.got == self.expected


Attack = Callable[[LiveSystem], list[Attempt]]

WIRE = "man in the middle, no key"
LOOP = "compromised loop, own valid epoch"
DISK = "root on the device's disk"
NETWORK = "man in the middle on the plant network"


def _attempt(attacker: str, what: str, expected: str, answer: Message | None) -> Attempt:
    if answer is None:
        return Attempt(attacker, what, expected, "no-answer", "nothing", None)
    got = str(answer.get("code", "accepted")) if answer["t"] == "refused" else "accepted"
    return Attempt(attacker, what, expected, got, str(answer.get("found", "")), answer.get("record"))


def _newest_command(system: LiveSystem) -> bytes:
    """A genuine command that the gate has just accepted. Raises :class:`SitsError` ``demo-idle``."""
    system.relay.forget()
    seen: dict[bytes, bytes] = {}

    def receipted(message: Message) -> bool:
        if message["t"] != "receipt":
            return False
        for data in system.relay.commands:
            seen[hashlib.sha256(data).digest()] = data
        receipt = parse_record(message["record"]).record
        return isinstance(receipt, Receipt) and receipt.command_digest in seen

    message = system.relay.wait_answer(receipted, timeout_s=ANSWER_S)
    if message is None:
        raise SitsError("demo-idle", found=f"no accepted command in {ANSWER_S} s", expected="a running loop")
    receipt = parse_record(message["record"]).record
    assert isinstance(receipt, Receipt)
    return seen[receipt.command_digest]


def _sequence(packet: bytes) -> int:
    return parse_command(decode(packet)["command"], None).command.header.sequence


def _refusal_of(system: LiveSystem, numbers: list[int]) -> Message | None:
    """The gate's refusal of the command that was meddled with; a busy machine may cause others."""
    return system.relay.wait_answer(
        lambda m: m["t"] == "refused" and bool(numbers) and m.get("sequence") == numbers[0], timeout_s=ANSWER_S
    )


def _as_compromised(system: LiveSystem, act: Callable[[CompromisedLoop], list[Attempt]]) -> list[Attempt]:
    """Run ``act`` in the loop's place; afterwards two people approve AUTO again, as after a real incident."""
    loop = CompromisedLoop(system.session.attestation_setup(), system.bundle)
    try:
        with paused(system.loop_pid):
            return act(loop)
    finally:
        loop.close()
        system.approve_auto()


def _quiet_inputs(system: LiveSystem) -> tuple[int, ...]:
    """Inputs of the last genuine command: inside every limit."""
    return parse_command(_newest_command(system), None).command.inputs


def _signed_attempt(
    loop: CompromisedLoop, what: str, expected: str, inputs: tuple[int, ...], change: Callable[[Statement], Statement]
) -> Attempt:
    opened = loop.open()
    statement = change(loop.statement(opened.context, Mode(opened.mode), inputs))
    return _attempt(LOOP, what, expected, loop.send_command(loop.sign(statement, opened.context.key)))


# --- the twelve ------------------------------------------------------------------------------------------------------


def replay(system: LiveSystem) -> list[Attempt]:
    """Send an accepted command once more."""
    data = _newest_command(system)
    return [_attempt(WIRE, "an accepted command again", "replay", system.send_raw(data))]


def reorder(system: LiveSystem) -> list[Attempt]:
    """Hold one command back and deliver it after its successor."""
    held: list[bytes] = []
    numbers: list[int] = []

    def hold(packet: bytes) -> list[bytes]:
        if not held:
            held.append(packet)
            numbers.append(_sequence(packet))
            return []
        system.relay.hook = None
        return [packet, held[0]]

    system.relay.forget()
    system.relay.hook = hold
    answer = _refusal_of(system, numbers)
    return [_attempt(WIRE, "a command after its successor", "reorder", answer)]


def stale_frame(system: LiveSystem) -> list[Attempt]:
    """Delay the plant's frames; the loop itself must refuse them."""
    since = system.ledger_size("device")
    system.frames.delay_s = FRAME_DELAY_S
    try:
        record = system.wait_device_refusal("stale-frame", since, timeout_s=ANSWER_S)
    finally:
        system.frames.delay_s = 0.0
    got, found, data = record
    return [
        Attempt(NETWORK, f"frames held back {FRAME_DELAY_S * 1e3:.0f} ms", "stale-frame", got, found, data, "device")
    ]


def _tampered(system: LiveSystem, field: int, what: str) -> list[Attempt]:
    inputs = _quiet_inputs(system)
    system.relay.forget()

    numbers: list[int] = []

    def alter(packet: bytes) -> list[bytes]:
        system.relay.hook = None
        numbers.append(_sequence(packet))
        message = decode(packet)
        message["command"] = _with_value(message["command"], field)
        return [encode(message)]

    system.relay.hook = alter
    answer = _refusal_of(system, numbers)
    on_the_wire = _attempt(WIRE, "the signed bytes changed on their way", "signature", answer)

    def act(loop: CompromisedLoop) -> list[Attempt]:
        def change(statement: Statement) -> Statement:
            if field == OUTPUTS:
                return replace(statement, outputs=_nudged(statement.outputs))
            counts = 1
            while loop.infer(other := _nudged(statement.inputs, counts)) == statement.outputs:
                counts += 1  # a change that the model itself does not notice is no attack
            return replace(statement, inputs=other)

        return [_signed_attempt(loop, what, "proof-statement", inputs, change)]

    return [on_the_wire, *_as_compromised(system, act)]


def _nudged(values: tuple[int, ...], counts: int = 1) -> tuple[int, ...]:
    """The first value moved by ``counts``: up from zero or below, else down, so that it stays inside every limit."""
    return (values[0] + (counts if values[0] <= 0 else -counts), *values[1:])


def _with_value(command: bytes, field: int) -> bytes:
    """The same signed bytes with the first value of one field moved by one count."""
    parts = cbor.loads(command[1:])
    assert isinstance(parts, tuple)
    assert isinstance(parts[2], bytes)
    payload = cbor.loads(parts[2])
    assert isinstance(payload, dict)
    values = payload[field]
    assert isinstance(values, tuple)
    payload[field] = _nudged(tuple(value for value in values if isinstance(value, int)))
    return command[:1] + cbor.dumps([parts[0], parts[1], cbor.dumps(payload), parts[3]])


def tampered_output(system: LiveSystem) -> list[Attempt]:
    """Change an output after the model: on the wire, and before signing."""
    return _tampered(system, OUTPUTS, "an output changed after the proof, then signed")


def tampered_input(system: LiveSystem) -> list[Attempt]:
    """Change an input after the model: on the wire, and before signing."""
    return _tampered(system, INPUTS, "an input changed after the proof, then signed")


def forged_proof(system: LiveSystem) -> list[Attempt]:
    """Proofs made without a witness: key points, points off the curve, nothing at all."""
    inputs = _quiet_inputs(system)
    key = VerificationKey.decode(system.bundle.verification_key)
    from_key = Proof(key.alpha, key.beta, key.ic[0], key.curve).encode()
    off_curve = _off_curve(key.curve.parameters) + from_key[key.curve.parameters.g1_bytes :]

    def act(loop: CompromisedLoop) -> list[Attempt]:
        return [
            _signed_attempt(loop, what, code, inputs, lambda s, proof=proof: replace(s, proof=proof))  # type: ignore[misc]
            for what, code, proof in (
                ("a proof put together from the key's own points", "proof-forged", from_key),
                ("a proof with a point off the curve", "proof-point", off_curve),
                (f"{len(from_key)} zero bytes as proof", "proof-point", bytes(len(from_key))),
            )
        ]

    return _as_compromised(system, act)


def _off_curve(it: PairingCurve) -> bytes:
    """A compressed G1 point whose x is on no point: x³ + b has no root."""
    x = next(x for x in range(1, it.p) if pow(x**3 + it.b, (it.p - 1) // 2, it.p) != 1)
    return (x | it.smaller << 8 * (it.g1_bytes - 1)).to_bytes(it.g1_bytes, "big")


def proof_moved(system: LiveSystem) -> list[Attempt]:
    """Attach the proof of an accepted command to a new one with the same values."""
    genuine = parse_command(_newest_command(system), None).command

    def change(statement: Statement) -> Statement:
        return replace(statement, outputs=genuine.outputs, proof=genuine.proof)

    what = "a genuine proof moved to another command"
    return _as_compromised(system, lambda loop: [_signed_attempt(loop, what, "proof-moved", genuine.inputs, change)])


def wrong_model(system: LiveSystem) -> list[Attempt]:
    """Speak for a model that was not approved: in a command, and when opening an epoch."""
    inputs = _quiet_inputs(system)
    other = bytes(reversed(system.bundle.digest))

    def act(loop: CompromisedLoop) -> list[Attempt]:
        def change(statement: Statement) -> Statement:
            return loop.prove(replace(statement, header=replace(statement.header, module_digest=other)))

        in_command = _signed_attempt(loop, "a command of another model", "module-digest", inputs, change)
        answer = loop.send_evidence(pretend_module=other)
        return [in_command, _attempt(LOOP, "an epoch for another model", "module-digest", answer)]

    return _as_compromised(system, act)


def unapproved_boot(system: LiveSystem) -> list[Attempt]:
    """Something the policy does not know was measured: shown in the log, and hidden from it. Ends with a reboot."""

    def act(loop: CompromisedLoop) -> list[Attempt]:
        from attest.boot import eventlog

        log = eventlog.parse(system.state.event_log.read_bytes())
        event = eventlog.text_event(PCR_APPLICATION, "rootkit.ko")
        with TpmDevice(system.tcti) as tpm:
            tpm.extend(PCR_APPLICATION, event.digest)
        hidden = _attempt(DISK, "an unknown component, hidden from the log", "event-log-replay", loop.send_evidence())
        shown_log = system.state.run / "attack-event-log.bin"
        shown_log.write_bytes(eventlog.EventLog((*log.events, event), log.startup_locality).encode())
        loop.setup = replace(loop.setup, event_log=shown_log)
        shown = _attempt(DISK, "an unknown component, shown in the log", "boot-policy", loop.send_evidence())
        system.session.restart_tpm()
        return [shown, hidden]

    return _as_compromised(system, act)


def old_quote(system: LiveSystem) -> list[Attempt]:
    """Evidence of an earlier epoch, as it is and in a new envelope."""
    old = system.newest_evidence()

    def act(loop: CompromisedLoop) -> list[Attempt]:
        as_it_was = _attempt(DISK, "evidence of an earlier epoch", "nonce", loop.send_evidence(old))
        link = GateLink(loop.setup.gate_socket)
        key = SessionKey.generate()
        try:
            challenge = link.ask({"t": "challenge"}, answers=("nonce",))
            claims, _ = parse_evidence(old)
            renewed = replace(claims, nonce=challenge["nonce"], session_public=key.public).sign(key)
            head = system.ledger_head(challenge["witnessed"])
            message: dict[str, Any] = {"t": "evidence", "nonce": challenge["nonce"], "evidence": renewed, **head}
            answer = link.ask(message, answers=("epoch", "refused"))
        finally:
            key.erase()
            link.close()
        return [as_it_was, _attempt(DISK, "an old quote in a new envelope", "quote-qualifying", answer)]

    return _as_compromised(system, act)


def over_limit(system: LiveSystem) -> list[Attempt]:
    """A correct inference, correctly proven, whose output is beyond the gate's own limit."""
    rules = system.gate_rules

    def act(loop: CompromisedLoop) -> list[Attempt]:
        draw = random.Random(SEED)  # noqa: S311 - a search, no secret
        for _ in range(SEARCHES):
            inputs = tuple(draw.choice((rule.low, rule.high)) for rule in rules.inputs)
            outputs = loop.infer(inputs)
            if any(not rule.low <= y <= rule.high for rule, y in zip(rules.outputs, outputs, strict=True)):
                what = f"a proven output of {outputs[0]} counts, limit {rules.outputs[0].high}"
                return [_signed_attempt(loop, what, "output-limit", inputs, lambda statement: statement)]
        raise SitsError("demo-search", found="no such inputs", expected="inputs that drive an output over the limit")

    return _as_compromised(system, act)


def cut_ledger(system: LiveSystem) -> list[Attempt]:
    """Take records out of the device's ledger: shown to the gate while it runs, and found by an audit afterwards."""

    def act(loop: CompromisedLoop) -> list[Attempt]:
        opened = loop.open()
        ledger = Ledger.open_readonly(system.state.device_ledger)
        try:
            size = ledger.size // 2
            cut = Checkpoint(system.deployment.device_origin, size, ledger.root(size))
        finally:
            ledger.close()
        note = sign_checkpoint(cut, opened.context.key)
        link = GateLink(loop.setup.gate_socket)
        try:
            answer = link.ask({"t": "checkpoint", "note": note, "consistency": []}, answers=("witness", "refused"))
        finally:
            link.close()
        return [_attempt(DISK, "a signed checkpoint of half the ledger", "ledger-cut", answer)]

    live = _as_compromised(system, act)
    code, found = cut_copy_and_audit(system.state.ledger, Path(system.scratch))
    return [
        *live,
        Attempt(DISK, "the newest part of a copied ledger removed", "ledger-cut", code, found, None, "audit"),
    ]


ATTACKS: dict[str, Attack] = {
    "replay": replay,
    "reorder": reorder,
    "stale-frame": stale_frame,
    "tampered-output": tampered_output,
    "tampered-input": tampered_input,
    "forged-proof": forged_proof,
    "proof-moved": proof_moved,
    "wrong-model": wrong_model,
    "unapproved-boot": unapproved_boot,
    "old-quote": old_quote,
    "over-limit": over_limit,
    "cut-ledger": cut_ledger,
}
