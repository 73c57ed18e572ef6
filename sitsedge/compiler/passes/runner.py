"""Runs the passes until nothing changes, checks each on random inputs and counts nodes.

Every pass states an invariant: bit-equal outputs, or outputs equal up to rounding. A pass that breaks its invariant
stops the build. What is left must be what the back ends have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.errors import CompileError, OnnxImportError
from sitsedge.compiler.graph.float_graph import (
    ArgMax,
    Conv,
    Dense,
    FloatGraph,
    Floats,
    MaxPool,
    Node,
    Select,
    Softmax,
)
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.passes.activation import function_fusion, limit_fusion
from sitsedge.compiler.passes.clean import dead_code, no_ops, shape_chains
from sitsedge.compiler.passes.linear import affine_folding, pad_folding
from sitsedge.compiler.passes.motion import element_motion

ROUNDS_MAX = 16
"""Passes enable each other a few times; each shortens the graph or moves a node one way, so this is never reached."""

ROWS, ROWS_LARGE = 8, 1
"""Random inputs a pass is checked on; one where an inference costs more than ``LARGE`` in time or memory."""

LARGE = 1 << 23
"""Multiplications, elements of values and of windows together."""

EXACT = 0.0
"""Outputs stay bit-equal."""

ROUNDING = 1e-9
"""Largest difference after reordered float64 arithmetic, relative to the largest output; rounding is 10⁻¹⁶ a step."""

CONSTANTS = 1e-5
"""The same where a decomposed activation is recognised: its exported constants (1/6) are float32."""

RANK_MAX = 3
"""Back ends take (C), (C, L) and (C, H, W)."""


class PassError(CompileError):
    """A pass changed what the network computes: a defect of the compiler, not of the model."""


@dataclass(frozen=True, slots=True)
class Pass:
    """``apply`` keeps what the graph computes: bit for bit where ``tolerance`` is ``EXACT``, else that closely."""

    name: str
    apply: Callable[[FloatGraph], FloatGraph]
    tolerance: float


@dataclass(frozen=True, slots=True)
class PassCount:
    """Nodes before and after one pass of one round, and how many of each kind there are after it."""

    name: str
    before: int
    after: int
    nodes: tuple[tuple[str, int], ...]


PASSES = (
    Pass("dead code", dead_code, EXACT),
    Pass("no-op removal", no_ops, EXACT),
    Pass("shape-chain removal", shape_chains, ROUNDING),
    Pass("element motion", element_motion, EXACT),
    Pass("batch-norm folding", affine_folding, ROUNDING),
    Pass("padding folding", pad_folding, ROUNDING),
    Pass("requantise fusion", limit_fusion, EXACT),
    Pass("activation fusion", function_fusion, CONSTANTS),
)
"""In this order, round after round. Reordered weights and merged paddings keep every product, but not the order in
which a matrix multiplication adds them up, so those two passes are not bit-equal in float64."""


def simplify(graph: FloatGraph, *, seed: int = 0, check: bool = True) -> tuple[FloatGraph, tuple[PassCount, ...]]:
    """The graph after all passes and node counts of every pass that changed it.

    ``check`` compares outputs on random inputs from ``seed`` after every pass. Raises ``PassError`` where they
    differ and ``OnnxImportError`` where something is left that no back end has.
    """
    with np.errstate(all="ignore"):
        return _simplify(graph, seed=seed, check=check)


def _simplify(graph: FloatGraph, *, seed: int, check: bool) -> tuple[FloatGraph, tuple[PassCount, ...]]:
    x = _samples(graph, seed)
    expected = run(_comparable(graph), x) if check else x
    counts: list[PassCount] = []
    for _ in range(ROUNDS_MAX):
        start = graph
        for step in PASSES:
            made = step.apply(graph)
            if made is graph:
                continue
            if check:
                found = run(_comparable(made), x)
                _compare(step, expected, found)
                expected = found
            counts.append(PassCount(step.name, graph.n_nodes, made.n_nodes, made.counts()))
            graph = made
        if graph is start:
            break
    require_known(graph)
    return graph, tuple(counts)


def multiplications(graph: FloatGraph) -> int:
    """Multiply-accumulates of one inference in dense and convolution layers."""
    return sum(
        node.weights.size * (node.size // len(node.weights)) for node in graph.nodes if isinstance(node, Dense | Conv)
    )


def _window(node: Node) -> int:
    """Elements looked at for one element of the result, beside the products themselves."""
    if isinstance(node, Conv):
        return math.prod(node.weights.shape[1:])
    return math.prod(node.kernel) if isinstance(node, MaxPool) else 1


def _samples(graph: FloatGraph, seed: int) -> Floats:
    """Standard normal rows; every other one eight times larger, so that limits are reached."""
    touched = sum(node.size * _window(node) for node in graph.nodes)
    rows = ROWS if multiplications(graph) + touched <= LARGE else ROWS_LARGE
    x = np.random.default_rng(seed).normal(size=(rows, *graph.input.shape))
    x[1::2] *= 8.0
    return np.asarray(x, np.float64)


def _comparable(graph: FloatGraph) -> FloatGraph:
    """Without a final arg-max, which turns a difference of rounding into another class."""
    last = graph.by_name()[graph.output]
    return replace(graph, output=last.inputs[0]) if isinstance(last, ArgMax) else graph


def _compare(step: Pass, expected: Floats, found: Floats) -> None:
    if step.tolerance == EXACT:
        equal = np.array_equal(expected, found, equal_nan=True)
    else:
        finite = np.abs(expected[np.isfinite(expected)])
        near = step.tolerance * (1.0 + float(finite.max(initial=0.0)))
        equal = found.shape == expected.shape and np.allclose(found, expected, rtol=0.0, atol=near, equal_nan=True)
    if not equal:
        raise PassError(
            "pass-invariant",
            found=f"other outputs after {step.name}",
            expected="bit-equal outputs" if step.tolerance == EXACT else f"outputs equal to {step.tolerance:g}",
            hint="the weights may be so large that float64 loses them; otherwise report this model",
        )


def require_known(graph: FloatGraph) -> None:
    """Refuse what no back end has: a softmax inside, more than three dimensions."""
    for node in graph.nodes:
        trouble = None
        if isinstance(node, Softmax | ArgMax) and node.name != graph.output:
            trouble = f"{node.kind} inside the network", "as the last step only"
            hint = "leave attention and inner normalisation out of the network"
        elif len(node.shape) > RANK_MAX and not isinstance(node, Select):
            trouble = (
                f"a value of shape {list(node.shape)}",
                "(channels), (channels, length) or (channels, height, width)",
            )
            hint = "reshape to at most three dimensions beside the batch"
        if trouble is not None:
            name, _, operator = node.origin.rpartition(" (")
            raise OnnxImportError(
                "unsupported-operator",
                found=trouble[0],
                expected=trouble[1],
                hint=hint,
                node=name,
                operator=operator.rstrip(")"),
            )
