"""What the gate allows: frozen rules, configured on the gate's side and pinned by digest in every epoch.

Values are counts (quantised integers); a deployment's physical limits are converted before they come here.
Rates are thousandths of a count per second, so that every judgement is exact integer arithmetic and an
auditor repeats it bit for bit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from attest import cbor
from attest.command.command import IDENTIFIER, SIGNALS_MAX, VALUE_MAX, VALUE_MIN
from attest.command.enums import Mode, ProofKind, ProofPolicy, TimeQuality
from attest.command.errors import CommandError
from attest.errors import AttestError

VERSION: Final = 1
RULES_BYTES_MAX: Final = 1 << 20
RELATIONS_MAX: Final = 256
NAME_CHARACTERS_MAX: Final = 64
MS_MAX: Final = 3_600_000  # an age limit over an hour is a mistake in a control loop
RATE_MILLI_MAX: Final = 1 << 53
PROOF_DEADLINE_MS_MAX: Final = 86_400_000  # a proof that is a day late shows nothing anybody still waits for
PROOF_BACKLOG_MAX: Final = 100_000  # a quarter of an hour at 100 Hz; the gate keeps each owed command in memory
COEFFICIENT_MAX: Final = 1 << 53
_NS_PER_MS: Final = 1_000_000
_MILLI_NS: Final = 1_000 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class InputRule:
    """One input: inclusive range and, where given, the largest change per second.

    ``rate_milli_max`` is in thousandths of a count per second between two accepted commands, on the
    command's own source times. One count is allowed on top: two roundings to counts can differ by one more
    than the quantity did.
    """

    name: str
    low: int
    high: int
    rate_milli_max: int | None = None


@dataclass(frozen=True, slots=True)
class OutputRule:
    """One output: the gate's own inclusive limits, rate, a narrower band for SUPERVISED, and a first step.

    ``rate_milli_max`` (thousandths of a count per second, on decision times) is rounded down with nothing on
    top, because an allowance per command would add up. ``first_step_max`` bounds the first accepted command
    of an epoch against the value the plant then has, where the gate knows it.
    """

    name: str
    low: int
    high: int
    rate_milli_max: int | None = None
    supervised: tuple[int, int] | None = None
    first_step_max: int | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """``sum(inputs[i] * x_i) + sum(outputs[j] * y_j) <= bound`` over counts, exact; pairs (index, coefficient)."""

    name: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    bound: int

    def left(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
        """The left-hand side for these values."""
        total = sum(factor * inputs[index] for index, factor in self.inputs)
        return total + sum(factor * outputs[index] for index, factor in self.outputs)


@dataclass(frozen=True, slots=True)
class GateRules:
    """Everything a command is held against apart from its epoch. Ages in milliseconds.

    ``modes`` are the modes in which a command is accepted at all (writing modes, and SHADOW where the gate
    only records). ``rate_interval_ms_min`` is the shortest interval a rate is computed over, so that two
    commands decided on one sample (interval zero) are still comparable. Under the deferred policy a proof is due
    ``proof_deadline_ms`` after its command was accepted, and ``proof_backlog_max`` may be owed at a time; the other
    policies know neither and do not encode them.
    """

    gate_id: str
    inputs: tuple[InputRule, ...]
    outputs: tuple[OutputRule, ...]
    source_age_ms_max: int
    decision_age_ms_max: int
    decide_ms_max: int
    future_ms_max: int
    time_quality_min: TimeQuality = TimeQuality.FREE
    proof_policy: ProofPolicy = ProofPolicy.INLINE
    proof_kind: ProofKind = ProofKind.GROTH16_BN254
    modes: frozenset[Mode] = frozenset({Mode.SUPERVISED, Mode.AUTO})
    relations: tuple[Relation, ...] = ()
    rate_interval_ms_min: int = 1
    proof_deadline_ms: int = 60_000
    proof_backlog_max: int = 1000

    def __post_init__(self) -> None:
        """Refuse rules no gate should run with. Raises ``CommandError`` (``malformed``)."""
        if IDENTIFIER.match(self.gate_id) is None:
            raise _bad("gate_id", repr(self.gate_id), "1..64 printable ASCII characters without space")
        for what, count in (("inputs", len(self.inputs)), ("outputs", len(self.outputs))):
            if not 1 <= count <= SIGNALS_MAX:
                raise _bad(what, f"{count} rules", f"1..{SIGNALS_MAX}")
        for rule in self.inputs:
            _check_limits(rule)
        for output in self.outputs:
            _check_limits(output)
        if len(self.relations) > RELATIONS_MAX:
            raise _bad("relations", f"{len(self.relations)}", f"at most {RELATIONS_MAX}")
        for relation in self.relations:
            _check_relation(relation, len(self.inputs), len(self.outputs))
        ages = (self.source_age_ms_max, self.decision_age_ms_max, self.decide_ms_max)
        if not all(1 <= age <= MS_MAX for age in ages) or not 0 <= self.future_ms_max <= MS_MAX:
            raise _bad("ages", f"{(*ages, self.future_ms_max)} ms", f"1..{MS_MAX} ms, future 0..{MS_MAX} ms")
        if not 1 <= self.rate_interval_ms_min <= MS_MAX:
            raise _bad("rate_interval_ms_min", str(self.rate_interval_ms_min), f"1..{MS_MAX}")
        if not self.modes or Mode.OFF in self.modes:
            raise _bad("modes", str(sorted(self.modes)), "at least one mode, never OFF")
        if not 1 <= self.proof_deadline_ms <= PROOF_DEADLINE_MS_MAX:
            raise _bad("proof_deadline_ms", str(self.proof_deadline_ms), f"1..{PROOF_DEADLINE_MS_MAX}")
        if not 1 <= self.proof_backlog_max <= PROOF_BACKLOG_MAX:
            raise _bad("proof_backlog_max", str(self.proof_backlog_max), f"1..{PROOF_BACKLOG_MAX}")
        if self.proof_kind not in (ProofKind.GROTH16_BN254, ProofKind.GROTH16_BLS12_381):
            raise _bad("proof_kind", self.proof_kind.name, "a Groth16 curve")

    def allowed_change(self, rate_milli: int, interval_ns: int) -> int:
        """Largest change in counts over ``interval_ns``, rounded down."""
        floor_ns = self.rate_interval_ms_min * _NS_PER_MS
        return rate_milli * max(interval_ns, floor_ns) // _MILLI_NS

    def encode(self) -> bytes:
        """Deterministic CBOR of these rules (``formats/gate-rules.cddl``)."""
        deferred = {15: self.proof_deadline_ms, 16: self.proof_backlog_max}
        return cbor.dumps(
            {
                1: VERSION,
                2: self.gate_id,
                3: [[r.name, r.low, r.high, r.rate_milli_max] for r in self.inputs],
                4: [[r.name, r.low, r.high, r.rate_milli_max, r.supervised, r.first_step_max] for r in self.outputs],
                5: [[r.name, r.inputs, r.outputs, r.bound] for r in self.relations],
                6: self.source_age_ms_max,
                7: self.decision_age_ms_max,
                8: self.decide_ms_max,
                9: self.future_ms_max,
                10: int(self.time_quality_min),
                11: self.proof_policy.value,
                12: int(self.proof_kind),
                13: sorted(int(mode) for mode in self.modes),
                14: self.rate_interval_ms_min,
            }
            | (deferred if self.proof_policy is ProofPolicy.DEFERRED else {})
        )

    def digest(self) -> bytes:
        """SHA-256 of ``encode()``; epoch records carry it."""
        return hashlib.sha256(self.encode()).digest()

    @classmethod
    def decode(cls, data: bytes) -> GateRules:
        """Read ``encode()`` back strictly. Raises ``CommandError`` (``malformed``)."""
        try:
            return _decode(data)
        except CommandError:
            raise
        except AttestError as error:
            raise CommandError("malformed", found=error.found, expected=error.expected) from error


def _decode(data: bytes) -> GateRules:
    fields = cbor.Fields(cbor.loads(data, max_bytes=RULES_BYTES_MAX, max_depth=5), "gate rules")
    fields.integer(1, low=VERSION, high=VERSION)
    policy = ProofPolicy(fields.text(11, choices=[policy.value for policy in ProofPolicy]))
    deferred = {}
    if policy is ProofPolicy.DEFERRED:
        deferred["proof_deadline_ms"] = fields.integer(15, high=PROOF_DEADLINE_MS_MAX)
        deferred["proof_backlog_max"] = fields.integer(16, high=PROOF_BACKLOG_MAX)
    rules = GateRules(
        gate_id=fields.text(2, high=64),
        inputs=tuple(_input_rule(row) for row in fields.array(3, high=SIGNALS_MAX)),
        outputs=tuple(_output_rule(row) for row in fields.array(4, high=SIGNALS_MAX)),
        relations=tuple(_relation(row) for row in fields.array(5, high=RELATIONS_MAX)),
        source_age_ms_max=fields.integer(6, high=MS_MAX),
        decision_age_ms_max=fields.integer(7, high=MS_MAX),
        decide_ms_max=fields.integer(8, high=MS_MAX),
        future_ms_max=fields.integer(9, high=MS_MAX),
        time_quality_min=TimeQuality(fields.integer(10, high=TimeQuality.PTP_HW)),
        proof_policy=policy,
        proof_kind=ProofKind(fields.integer(12, high=ProofKind.COMMITMENT)),
        modes=frozenset(Mode(m) for m in fields.integers(13, low=0, high=Mode.AUTO, count_max=len(Mode))),
        rate_interval_ms_min=fields.integer(14, high=MS_MAX),
        **deferred,
    )
    fields.done()
    if rules.encode() != data:
        raise _bad("encoding", "modes out of order or repeated", "the one encoding of these rules")
    return rules


def _row(row: cbor.CborValue, what: str, size: int) -> cbor.Fields:
    if not isinstance(row, tuple) or len(row) != size:
        raise _bad(what, "another shape", f"an array of {size}")
    return cbor.Fields(dict(enumerate(row)), what)


def _optional(row: cbor.Fields, key: int, high: int) -> int | None:
    value = row.take(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
        raise row.error(key, str(value)[:40], f"null or 0..{high}")
    return value


def _input_rule(value: cbor.CborValue) -> InputRule:
    row = _row(value, "input rule", 4)
    return InputRule(row.text(0), _value(row, 1), _value(row, 2), _optional(row, 3, RATE_MILLI_MAX))


def _output_rule(value: cbor.CborValue) -> OutputRule:
    row = _row(value, "output rule", 6)
    name, low, high = row.text(0), _value(row, 1), _value(row, 2)
    rate = _optional(row, 3, RATE_MILLI_MAX)
    band = row.take(4)
    supervised: tuple[int, int] | None = None
    if band is not None:
        pair = _row(band, "supervised band", 2)
        supervised = (_value(pair, 0), _value(pair, 1))
    return OutputRule(name, low, high, rate, supervised, _optional(row, 5, VALUE_MAX - VALUE_MIN))


def _relation(value: cbor.CborValue) -> Relation:
    row = _row(value, "relation", 4)
    sides = []
    for key in (1, 2):
        terms = [_row(term, "term", 2) for term in row.array(key, high=SIGNALS_MAX)]
        sides.append(
            tuple(
                (t.integer(0, high=SIGNALS_MAX), t.integer(1, low=-COEFFICIENT_MAX, high=COEFFICIENT_MAX))
                for t in terms
            )
        )
    return Relation(row.text(0), sides[0], sides[1], row.integer(3, low=-(1 << 63), high=(1 << 63) - 1))


def _value(row: cbor.Fields, key: int) -> int:
    return row.integer(key, low=VALUE_MIN, high=VALUE_MAX)


def _check_limits(rule: InputRule | OutputRule) -> None:
    if not 1 <= len(rule.name) <= NAME_CHARACTERS_MAX:
        raise _bad("name", f"{len(rule.name)} characters", f"1..{NAME_CHARACTERS_MAX}")
    if not VALUE_MIN <= rule.low <= rule.high <= VALUE_MAX:
        raise _bad(rule.name, f"limits {rule.low}..{rule.high}", "low <= high in 32 bits")
    if rule.rate_milli_max is not None and not 0 <= rule.rate_milli_max <= RATE_MILLI_MAX:
        raise _bad(rule.name, f"rate {rule.rate_milli_max}", f"0..{RATE_MILLI_MAX}")
    if isinstance(rule, OutputRule):
        if rule.supervised is not None and not (rule.low <= rule.supervised[0] <= rule.supervised[1] <= rule.high):
            raise _bad(rule.name, f"supervised band {rule.supervised}", "a band inside the limits")
        if rule.first_step_max is not None and rule.first_step_max < 0:
            raise _bad(rule.name, f"first step {rule.first_step_max}", "at least 0")


def _check_relation(relation: Relation, n_inputs: int, n_outputs: int) -> None:
    if not 1 <= len(relation.name) <= NAME_CHARACTERS_MAX:
        raise _bad("relation", f"name of {len(relation.name)} characters", f"1..{NAME_CHARACTERS_MAX}")
    for terms, count in ((relation.inputs, n_inputs), (relation.outputs, n_outputs)):
        indices = [index for index, _ in terms]
        if len(set(indices)) != len(indices) or not all(0 <= index < count for index in indices):
            raise _bad(relation.name, f"indices {indices[:8]}", f"distinct indices in 0..{count - 1}")
        if not all(abs(factor) <= COEFFICIENT_MAX for _, factor in terms):
            raise _bad(relation.name, "a coefficient over 2^53", "at most 2^53")


def _bad(what: str, found: str, expected: str) -> CommandError:
    return CommandError("malformed", found=f"gate rules, {what}: {found}", expected=expected)
