"""Deployment, gate file and module must speak of the same signals in the same units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sitsedge.config.deployment import Deployment, RollingMillPlant, locate
from sitsedge.config.gatefile import GateFile
from sitsedge.config.source import ConfigError, ConfigFault
from sitsedge.modules.config import Signal

PLC_STEPS_MIN = 2.0  # steps of the block a count: rounding to the nearest is then within a quarter of a count
WHOLE = 1e-9
REAL_COUNTS_MAX = 1 << 22  # half a step of a REAL, 2^-24 of its value, is a quarter of a count there
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
    faults += _proofs(deployment, deployment_path, gate, gate_path) + _plc(deployment, gate, gate_path, outputs)
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


def _plc(deployment: Deployment, gate: GateFile, path: Path, outputs: Sequence[Signal]) -> list[ConfigFault]:
    """A vendor's block must hold every count that the gate lets through, to a quarter of a count."""
    if gate.plc is None or gate.plc.protocol == "opcua":
        return []
    faults = []
    if isinstance(deployment.simulation, RollingMillPlant):
        faults.append(
            _fault(path, "plc.protocol", repr(gate.plc.protocol), "'opcua': the simulated mill's PLC has no other")
        )
    scales = {signal.name: signal.scale for signal in outputs}
    for i, item in enumerate(gate.outputs):
        scale = scales.get(item.name)
        if scale is None:
            continue  # reported as such
        if item.plc_scale is not None:
            ratio = scale / item.plc_scale
            if ratio < PLC_STEPS_MIN and (ratio < 1 - WHOLE or abs(ratio - round(ratio)) > WHOLE):
                wanted = f"at most half the module's {scale:g} a count, or one that goes into it"
                faults.append(_fault(path, f"outputs.{i}.plc_scale", f"{item.plc_scale:g}", wanted))
        elif item.plc_type == "REAL" and max(map(abs, item.limits)) > scale * REAL_COUNTS_MAX:
            wanted = f"LREAL: a REAL does not tell counts of {scale:g} apart up to {item.limits}"
            faults.append(_fault(path, f"outputs.{i}.plc_type", "REAL", wanted))
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
