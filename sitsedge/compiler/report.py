"""The build report: what the integer model is worth beside the float one, and what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from attest.proof.ceremony import CeremonyKeys, Contributor
from sitsedge.compiler.artefacts import Artefacts
from sitsedge.compiler.bounds.crown import crown
from sitsedge.compiler.calibration import Calibration
from sitsedge.compiler.graph.intervals import graph_bounds
from sitsedge.compiler.graph.model import Executable
from sitsedge.compiler.imported import ImportedNetwork
from sitsedge.compiler.network import FloatNetwork, Floats
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.reference import Ints
from sitsedge.compiler.report_figures import figures
from sitsedge.compiler.report_layers import describe_layers
from sitsedge.compiler.report_warnings import warnings
from sitsedge.compiler.selftest import SelfTest
from sitsedge.modules.limits import Limits


def _accuracy(network: ImportedNetwork, model: Executable, limits: Limits, raw: Floats, counts: Ints) -> Any:
    """Per output, physical units: largest, mean and root-mean-square difference from the float network."""
    if not len(raw):
        return {"rows": 0, "outputs": {}}
    wanted = network.run(raw)
    got = model.run(counts) * np.array([signal.scale for signal in limits.outputs])
    error = got - wanted
    outputs = {}
    for k, signal in enumerate(limits.outputs):
        span = float(np.ptp(wanted[:, k]))
        outputs[signal.name] = {
            "unit": signal.unit,
            "span": span,
            "max_error": float(np.abs(error[:, k]).max()),
            "mean_error": float(np.abs(error[:, k]).mean()),
            "rms_error": float(np.sqrt((error[:, k] ** 2).mean())),
            "max_error_of_span": float(np.abs(error[:, k]).max() / span) if span > 0 else None,
        }
    return {"rows": len(raw), "outputs": outputs}


def _bounds(quantised: QuantisedGraph, limits: Limits) -> Any:
    """Proven bounds of each output over the whole input box, physical units."""
    if quantised.chain is not None:
        last = crown(quantised.chain.model).ranges[-1]
        lows, highs = last.out_low, last.out_high
    else:
        bound = graph_bounds(quantised.graph)[quantised.graph.output]
        lows, highs = bound.low.reshape(-1), bound.high.reshape(-1)
    outputs = {}
    for k, signal in enumerate(limits.outputs):
        low, high = int(lows[k]), int(highs[k])
        outputs[signal.name] = {
            "unit": signal.unit,
            "counts": [low, high],
            "physical": [low * signal.scale, high * signal.scale],
            "limits": list(signal.limits),
            "proven_inside_limits": signal.counts[0] <= low and high <= signal.counts[1],
        }
    return outputs


def _passes(network: ImportedNetwork, graph: bytes) -> Any:
    """Node counts of the file, after each pass, of the chain where the network is one, and of the integer graph."""
    integer: dict[str, int] = {}
    for node in onnx.load_from_string(graph).graph.node:
        integer[node.op_type] = integer.get(node.op_type, 0) + 1
    folded = [("fold affine maps", _chain(network.chain))] if network.chain is not None else []
    return [
        {"pass": name, "nodes": dict(sorted(nodes.items())), "total": sum(nodes.values())}
        for name, nodes in (
            ("import", dict(network.node_counts)),
            *((name, dict(nodes)) for name, nodes in network.passes),
            *folded,
            ("integer graph", integer),
        )
    ]


def _chain(chain: FloatNetwork) -> dict[str, int]:
    folded: dict[str, int] = {}
    for layer in chain.layers:
        folded["Dense"] = folded.get("Dense", 0) + 1
        if layer.activation != "none":
            name = {"relu": "Relu", "clamp": "Clip"}[layer.activation]
            folded[name] = folded.get(name, 0) + 1
    return folded


def _quantisation(quantised: QuantisedGraph, goal: Goal) -> dict[str, Any]:
    """What was chosen: for a chain its bits, for any network the format and error of every value."""
    chain = quantised.chain
    chosen = (
        {}
        if chain is None
        else {
            "activation_bits": chain.choice.activation_bits,
            "first_weight_bits": chain.choice.first_weight_bits,
            "weight_bits": chain.choice.weight_bits,
            "input_alignment": chain.choice.align,
        }
    )
    return chosen | {
        "formats": {
            name: {"bits": f.bits, "saturates": f.saturate, "range": f.rule, "weight_bits": f.weight_bits}
            for name, f in quantised.formats.items()
        },
        "layer_rms_of_spread": dict(quantised.layers),
        "wide_layers": quantised.wide,
        "goal": {"rms_of_span": goal.rms, "max_of_span": goal.peak},
        "goal_met": quantised.meets_goal,
        "rms_of_span": quantised.rms,
        "max_of_span": quantised.peak,
    }


def _figures(network: Any, model: Any, limits: Limits, raw: Floats, counts: Ints) -> Any:
    """Histograms of inputs, outputs and errors on held-out rows."""
    scale = np.array([signal.scale for signal in limits.outputs])
    shape = (len(raw), len(scale))
    return figures(limits, raw, network.run(raw).reshape(shape), model.run(counts).reshape(shape) * scale)


def _lane(proof_ms: float) -> dict[str, Any]:
    """Median of a few proofs on this machine, and the shortest cycle that leaves them room inline.

    Half of a cycle is for the proof; the rest is for reception, inference, signature, the gate and what varies.
    """
    return {"measured_ms": round(proof_ms, 3), "inline_from_cycle_ms": math.ceil(2 * proof_ms)}


def _setup(ceremony: CeremonyKeys | None) -> dict[str, Any]:
    """Whose secrets are in the keys; the hashes are the ones the contributors published."""
    if ceremony is None:
        return {"development_key": True, "contributors": 0}
    phase1 = ceremony.phase1
    return {
        "development_key": False,
        "contributors": ceremony.contributions,
        "contributions": _contributions(ceremony.contributors),
        "phase1": {
            "sha256": phase1.sha256.hex(),
            "power": phase1.power,
            "contributions": _contributions(phase1.contributors),
        },
    }


def _contributions(contributors: tuple[Contributor, ...]) -> list[dict[str, Any]]:
    return [{"name": c.name, "beacon": c.beacon, "hash": c.hash.hex()} for c in contributors]


def make_report(
    *,
    name: str,
    network: ImportedNetwork,
    limits: Limits,
    calibration: Calibration,
    quantised: QuantisedGraph,
    artefacts: Artefacts,
    goal: Goal,
    selftest: SelfTest,
    digests: dict[str, str],
    sizes: dict[str, int],
    ceremony: CeremonyKeys | None = None,
    properties: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """JSON-ready report."""
    model = quantised.model
    return {
        "report_version": 1,
        "name": name,
        "warnings": warnings(network, limits, calibration, quantised, goal),
        "network": list(network.sizes),
        "class_output": network.is_class,
        "passes": _passes(network, artefacts.integer_onnx),
        "quantisation": _quantisation(quantised, goal),
        "layers": describe_layers(quantised, calibration, artefacts.rows),
        "calibration": {"rows": calibration.rows_total, "rows_outside_ranges": calibration.rows_outside},
        "accuracy": {
            "calibration": _accuracy(network, model, limits, calibration.fit_raw, calibration.fit_counts),
            "held_out": _accuracy(network, model, limits, calibration.held_raw, calibration.held_counts),
        },
        "figures": _figures(network, model, limits, calibration.held_raw, calibration.held_counts),
        "output_bounds": _bounds(quantised, limits),
        "properties": properties or [],
        "constraints": {
            "layers": list(artefacts.rows.values()),
            "nodes": list(artefacts.rows),
            "fixed": artefacts.fixed,
            "total": selftest.constraints,
            "domain_size": selftest.domain_size,
        },
        "proof": _lane(selftest.proof_ms) | _setup(ceremony),
        "selftest": {
            "rows": selftest.rows,
            "box_corners": selftest.corners,
            "circuit_rows": selftest.circuit_rows,
            "fuel_per_call": selftest.fuel_per_call,
            "fuel_per_call_relaxed": selftest.fuel_per_call_relaxed,
            "relaxed": selftest.relaxed,
        },
        "kernel": {"relaxed_layers": list(artefacts.relaxed_nodes)},
        "digests": digests,
        "sizes": sizes,
        "not_shown": "that the model is right for the plant, or that a sensor tells the truth",
    }
