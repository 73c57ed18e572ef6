"""Requantise fusion and activation fusion: limits join the layer that makes the value, products become functions.

Invariants: ``limit_fusion`` is bit-equal (clamps compose exactly and commute with gathers and maxima);
``function_fusion`` is equal up to rounding of the function itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.graph.float_graph import (
    Affine,
    Clamp,
    Clamped,
    FloatGraph,
    Function,
    MaxPool,
    Node,
    Product,
    Select,
)
from sitsedge.compiler.passes.rewrite import Rewrite

RELATIVE = 1e-6
"""Constants of exported decompositions are float32: 1/6 has an error of 2·10⁻⁸."""


def limit_fusion(graph: FloatGraph) -> FloatGraph:
    """Clamps (ReLU, ReLU6, saturation of a requantisation) become limits of the dense, conv, affine or sum before."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if not isinstance(node, Clamp):
            continue
        before = work.producer(node)
        if not work.once(before):
            continue
        if isinstance(before, Clamped):
            low, high = (min(max(bound, node.low), node.high) for bound in (before.low, before.high))
            work.put(replace(before, name=node.name, low=low, high=high))
        elif isinstance(before, Select | MaxPool):
            source = work.producer(before)
            if work.once(source) and isinstance(source, Clamped | Select | MaxPool):
                inner = replace(node, name=work.fresh(node.name), inputs=before.inputs, shape=source.shape)
                work.put(inner)
                work.put(replace(before, name=node.name, inputs=(inner.name,)))
    return work.finish()


def function_fusion(graph: FloatGraph) -> FloatGraph:
    """``x·sigmoid(x)`` is silu, ``x·clip(x/6 + 1/2, 0, 1)`` in any of its spellings hard-swish, with erf it is gelu."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if isinstance(node, Product):
            _fuse(work, node)
    return work.finish()


def _fuse(work: Rewrite, node: Product) -> None:
    for x, gate in (node.inputs, node.inputs[::-1]):
        found = _gate(work, x, work.nodes[gate])
        if found is None:
            continue
        function, scale = found
        inner = work.fresh(node.name) if scale != 1.0 else node.name
        made = Function(name=inner, inputs=(x,), shape=node.shape, origin=node.origin, function=function)
        work.put(made)
        if scale != 1.0:
            channels = node.shape[0]
            work.put(
                Affine(
                    name=node.name,
                    inputs=(inner,),
                    shape=node.shape,
                    origin=node.origin,
                    factor=np.full(channels, scale),
                    offset=np.zeros(channels),
                )
            )
        return


@dataclass(frozen=True, slots=True)
class _Ramp:
    """``scale·clip(a·x + b, 0, top)`` while walking from x to the gate."""

    a: float = 1.0
    b: float = 0.0
    top: float = math.inf
    scale: float = 1.0


def _gate(work: Rewrite, x: str, gate: Node) -> tuple[str, float] | None:
    """Function and factor such that ``x·gate = factor·function(x)``."""
    chain: list[Node] = []
    while gate.name != x:
        if len(gate.inputs) != 1 or len(chain) > 4 or not isinstance(gate, Affine | Clamp | Function):
            return None
        chain.append(gate)
        gate = work.producer(gate)
    if len(chain) == 1 and isinstance(chain[0], Function) and chain[0].function == "sigmoid":
        return "silu", 1.0
    doubled = _erf_gate(chain[::-1])
    if doubled is not None:
        return "gelu", 2.0 * doubled
    ramp: _Ramp | None = _Ramp()
    for step in reversed(chain):
        ramp = None if ramp is None else _step(ramp, step)
    if ramp is None or not math.isfinite(ramp.top):
        return None
    slope, level = ramp.a / ramp.top, ramp.b / ramp.top
    if not (math.isclose(slope, 1 / 6, rel_tol=RELATIVE) and math.isclose(level, 0.5, rel_tol=RELATIVE)):
        return None
    factor = ramp.scale * ramp.top
    return "hard-swish", 1.0 if math.isclose(factor, 1.0, rel_tol=RELATIVE) else factor


def _erf_gate(steps: list[Node]) -> float | None:
    """c where the steps from x make ``c·(1 + erf(x/√2))``, as frameworks write Gelu before opset 20."""
    if len(steps) < 3 or not (isinstance(steps[1], Function) and steps[1].function == "erf"):
        return None
    inner, scale = _uniform(steps[0]), 1.0
    outer = _uniform(steps[2])
    if inner is None or outer is None or inner[1] != 0.0 or not math.isclose(outer[0], outer[1], rel_tol=RELATIVE):
        return None
    for step in steps[3:]:
        more = _uniform(step)
        if more is None or more[1] != 0.0:
            return None
        scale *= more[0]
    return outer[0] * scale if math.isclose(inner[0], math.sqrt(0.5), rel_tol=RELATIVE) else None


def _uniform(node: Node) -> tuple[float, float] | None:
    """Factor and offset of an affine map that is the same for all channels and has no limits."""
    if not isinstance(node, Affine) or node.activation != "none":
        return None
    if np.any(node.factor != node.factor[0]) or np.any(node.offset != node.offset[0]):
        return None
    return float(node.factor[0]), float(node.offset[0])


def _step(ramp: _Ramp, node: Node) -> _Ramp | None:
    open_ = ramp.top == math.inf
    match node:
        case Function(function="hard-sigmoid") if open_:
            alpha, beta = node.parameters
            return _Ramp(alpha * ramp.a, alpha * ramp.b + beta, 1.0, 1.0)
        case Affine() if np.all(node.factor == node.factor[0]) and np.all(node.offset == node.offset[0]):
            factor, offset = float(node.factor[0]), float(node.offset[0])
            if open_:
                return _limited(_Ramp(factor * ramp.a, factor * ramp.b + offset), node)
            if offset == 0.0 and node.activation == "none":
                return replace(ramp, scale=ramp.scale * factor)
        case Clamp() if open_:
            return _limited(ramp, node)
    return None


def _limited(ramp: _Ramp, node: Clamped) -> _Ramp | None:
    if node.activation == "none":
        return ramp
    return replace(ramp, top=node.high) if node.low == 0.0 and 0.0 < node.high < math.inf else None
