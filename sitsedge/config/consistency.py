"""Deployment, gate file and module must speak of the same signals in the same units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sitsedge.config.deployment import Deployment, locate
from sitsedge.config.gatefile import GateFile
from sitsedge.config.source import ConfigError, ConfigFault
from sitsedge.modules.config import Signal

RELATION_COEFFICIENT_MAX = 1e6  # keeps every relation inside exact integers


def check(
    deployment: Deployment,
    deployment_path: Path,
    gate: GateFile,
    gate_path: Path,
    *,
    inputs: Sequence[Signal],
    outputs: Sequence[Signal],
) -> None:
    """Raise :class:`ConfigError` naming every difference with the line in the file that has it.

    ``inputs`` and ``outputs`` are the module's.
    """
    faults = _sources(deployment, deployment_path, inputs) + _outputs(gate, gate_path, inputs, outputs)
    faults += _proofs(deployment, deployment_path, gate, gate_path)
    if faults:
        raise ConfigError(faults)


def _fault(path: Path, where: str, found: str, expected: str) -> ConfigFault:
    line, column = locate(path, where)
    return ConfigFault(str(path), line, column, where, found, expected)


def _sources(deployment: Deployment, path: Path, inputs: Sequence[Signal]) -> list[ConfigFault]:
    places = deployment.source.dataset()
    names = tuple(place.name for place in places)
    expected = tuple(signal.name for signal in inputs)
    if names != expected:
        key = places[0].key.rpartition(".")[0]
        return [_fault(path, key, ", ".join(names), f"the module's inputs in order: {', '.join(expected)}")]
    return [
        _fault(path, f"{place.key}.unit", f"{place.unit!r} for {place.name}", f"the module's unit {signal.unit!r}")
        for place, signal in zip(places, inputs, strict=True)
        if place.unit != signal.unit
    ]


def _proofs(deployment: Deployment, path: Path, gate: GateFile, gate_path: Path) -> list[ConfigFault]:
    """The loop must make what the gate demands, within the gate's limits."""
    cycle = deployment.cycle
    faults = []
    if deployment.profile == "production" and gate.proof == "off":
        faults.append(_fault(gate_path, "proof", "'off'", "'inline' or 'deferred' in a production profile"))
    allowed = {"inline": ("inline",), "deferred": ("deferred", "inline"), "off": ("off", "inline")}[gate.proof]
    if cycle.proof not in allowed:
        wanted = f"{' or '.join(allowed)}: the gate file demands {gate.proof!r}"
        faults.append(_fault(path, "cycle.proof", repr(cycle.proof), wanted))
    elif cycle.proof == "deferred":
        for key in ("proof_deadline_ms", "proof_backlog_max"):
            if getattr(cycle, key) > getattr(gate, key):
                wanted = f"at most the gate's {getattr(gate, key)}"
                faults.append(_fault(path, f"cycle.{key}", str(getattr(cycle, key)), wanted))
    return faults


def _outputs(gate: GateFile, path: Path, inputs: Sequence[Signal], outputs: Sequence[Signal]) -> list[ConfigFault]:
    faults = []
    expected = [signal.name for signal in outputs]
    found = [item.name for item in gate.outputs]
    if sorted(found) != sorted(expected):
        faults.append(_fault(path, "outputs", ", ".join(found), f"the module's outputs {', '.join(expected)}"))
        return faults
    signals = {signal.name: signal for signal in outputs}
    for i, item in enumerate(gate.outputs):
        signal = signals[item.name]
        if item.unit != signal.unit:
            found_unit = f"{item.unit!r} for {item.name}"
            faults.append(_fault(path, f"outputs.{i}.unit", found_unit, f"the module's unit {signal.unit!r}"))
        if item.limits[0] > signal.range[1] or item.limits[1] < signal.range[0]:
            overlap = f"an overlap with the module's {list(signal.range)}"
            faults.append(_fault(path, f"outputs.{i}.limits", str(item.limits), overlap))
    names = {signal.name for signal in inputs}
    for i, bound in enumerate(gate.inputs):
        if bound.name not in names:
            faults.append(_fault(path, f"inputs.{i}.name", bound.name, f"one of {', '.join(sorted(names))}"))
    for i, relation in enumerate(gate.relations):
        for name, coefficient in relation.terms.items():
            if name not in signals:
                faults.append(_fault(path, f"relations.{i}.terms", name, f"one of {', '.join(expected)}"))
            elif not 0 < abs(coefficient) <= RELATION_COEFFICIENT_MAX:
                wanted = f"a coefficient of at most {RELATION_COEFFICIENT_MAX:g} and not zero"
                faults.append(_fault(path, f"relations.{i}.terms.{name}", str(coefficient), wanted))
    return faults
