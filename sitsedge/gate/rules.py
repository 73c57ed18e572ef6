"""The rules a gate runs with: its own file, tightened by the module's limits, never loosened."""

from __future__ import annotations

import math

from attest.command import GateRules, InputRule, Mode, OutputRule, ProofPolicy, Relation, TimeQuality
from attest.command.rules import COEFFICIENT_MAX
from sitsedge.config import Deployment, GateFile
from sitsedge.config.gatefile import OutputLimit
from sitsedge.config.gatefile import Relation as RelationFile
from sitsedge.modules.config import BundleConfig, Signal

MILLI = 1000
TINY = 1e-9  # a limit that is a whole number of counts must not lose one to binary fractions
ACCEPTED_MODES = frozenset({Mode.SHADOW, Mode.ADVISORY, Mode.SUPERVISED, Mode.AUTO})
RELATION_STEPS = 1 << 20  # fixed-point steps of the finest output scale in a relation


def gate_rules(gate: GateFile, deployment: Deployment, module: BundleConfig) -> GateRules:
    """Counts and milli-counts per second from physical limits; each limit is the tighter of gate and module.

    Names and units must have been compared before (:func:`sitsedge.config.consistency.check`).
    """
    own_inputs = {item.name: item for item in gate.inputs}
    own_outputs = {item.name: item for item in gate.outputs}
    inputs = []
    for signal in module.inputs:
        own = own_inputs.get(signal.name)
        low, high = _box(signal, own.range if own else None)
        inputs.append(InputRule(signal.name, low, high, _rate(signal, own.max_rate if own else None)))
    outputs = [_output(signal, own_outputs[signal.name]) for signal in module.outputs]
    return GateRules(
        gate_id=deployment.gate_id,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        source_age_ms_max=math.ceil(gate.source_age_ms_max),
        decision_age_ms_max=math.ceil(gate.decision_age_ms_max),
        decide_ms_max=math.ceil(gate.source_age_ms_max),
        future_ms_max=math.ceil(gate.future_ms_max),
        time_quality_min=TimeQuality[gate.time_quality_min.upper().replace("-", "_")],
        proof_policy=ProofPolicy(gate.proof),
        proof_kind=module.proof.kind,
        proof_deadline_ms=gate.proof_deadline_ms,
        proof_backlog_max=gate.proof_backlog_max,
        modes=ACCEPTED_MODES,
        relations=tuple(_relation(i, item, module) for i, item in enumerate(gate.relations)),
    )


def _box(signal: Signal, own: list[float] | None) -> tuple[int, int]:
    low, high = signal.range
    if own is not None:
        low, high = max(low, own[0]), min(high, own[1])
    return math.ceil(low / signal.scale - TINY), math.floor(high / signal.scale + TINY)


def _rate(signal: Signal, own: float | None) -> int | None:
    rates = [rate for rate in (signal.max_rate, own) if rate is not None]
    return math.floor(min(rates) / signal.scale * MILLI) if rates else None


def _output(signal: Signal, own: OutputLimit) -> OutputRule:
    low, high = _box(signal, own.limits)
    supervised = None
    if own.supervised is not None:
        band = _box(signal, own.supervised)
        supervised = (max(low, band[0]), min(high, band[1]))
    step = None if own.first_step_max is None else math.floor(own.first_step_max / signal.scale + TINY)
    return OutputRule(signal.name, low, high, _rate(signal, own.max_rate), supervised, step)


def _relation(index: int, item: RelationFile, module: BundleConfig) -> Relation:
    """Physical coefficients to integers; the bound is lowered by the largest error that rounding can make."""
    places = {signal.name: (i, signal) for i, signal in enumerate(module.outputs)}
    finest = min(places[name][1].scale for name in item.terms)
    unit = finest / RELATION_STEPS
    terms, slack = [], 0.0
    for name, coefficient in item.terms.items():
        place, signal = places[name]
        exact = coefficient * signal.scale / unit
        factor = round(exact)
        assert abs(factor) <= COEFFICIENT_MAX, "the configuration check bounds coefficients"
        slack += abs(exact - factor) * max(abs(count) for count in signal.counts)
        terms.append((place, factor))
    return Relation(f"relation-{index}", (), tuple(sorted(terms)), math.floor(item.bound / unit - slack))
