"""Integer weights of Dense, Conv and Affine: one treatment, a dense layer being a convolution over one position.

Small layers are rounded against their output error on the inputs they really see (``compiler.rounding``), larger ones
weight by weight. Both end with the bias that makes the mean error vanish, on inputs that carry the errors of the
layers before (bias correction; Nagel et al., "Data-free quantization", 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.float_graph import Affine, Conv, Dense, Floats
from sitsedge.compiler.graph.integer_values import Pads, Pair, planes
from sitsedge.compiler.reference import INT32_MAX, Ints
from sitsedge.compiler.rounding import fit_rows, importance

PATCHES_MAX = 4096
"""Windows looked at per layer; more do not change the fit."""

FIT_COLUMNS_MAX = 300
FIT_GROUPS_MAX = 64
FIT_WEIGHTS_MAX = 1 << 15
"""Largest layer rounded against its output: a second or two, and far beyond every control network."""

_SEED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A weighted node as a convolution; weights (out, in / groups, kh, kw), ``low`` and ``high`` physical."""

    weights: Floats
    bias: Floats
    strides: Pair
    pads: Pads
    dilations: Pair
    groups: int
    low: float
    high: float
    source: tuple[int, int, int]
    result: tuple[int, int, int]


def as_layer(node: Dense | Conv | Affine, source_shape: tuple[int, ...]) -> Layer:
    """The node for a source of ``source_shape``."""
    ones, none = (1, 1), (0, 0, 0, 0)
    source = (*source_shape, 1, 1) if len(source_shape) == 1 else planes(node.name, source_shape)
    result = (*node.shape, 1, 1) if len(node.shape) == 1 else planes(node.name, node.shape)
    if isinstance(node, Dense):
        weights = node.weights[:, :, None, None]
        return Layer(weights, node.bias, ones, none, ones, 1, node.low, node.high, source, result)
    if isinstance(node, Affine):
        weights, groups = node.factor[:, None, None, None], node.factor.size
        return Layer(weights, node.offset, ones, none, ones, groups, node.low, node.high, source, result)
    weights, strides, pads, dilations = node.weights, node.strides, node.pads, node.dilations
    if weights.ndim == 3:
        weights, strides, dilations = weights[:, :, None], (1, *strides), (1, *dilations)
        pads = (0, pads[0], 0, pads[1])
    return Layer(
        weights, node.bias, (strides[0], strides[1]), (pads[0], pads[1], pads[2], pads[3]),
        (dilations[0], dilations[1]), node.groups, node.low, node.high, source, result,
    )  # fmt: skip


def patches(layer: Layer, x: Ints, sums: Floats) -> tuple[Floats, Floats]:
    """Windows of ``x`` (rows, *source) as (patches, groups, columns), and the float ``sums`` there (patches, out)."""
    channels, height, width = layer.source
    down, across = layer.result[1:]
    rows = len(x)
    total = rows * down * across
    picked = np.arange(total)
    if total > PATCHES_MAX:
        picked = np.sort(np.random.default_rng(_SEED).choice(total, PATCHES_MAX, replace=False))
    row, y, column = np.unravel_index(picked, (rows, down, across))
    top, left, bottom, right = layer.pads
    padded = np.pad(x.reshape(rows, channels, height, width), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = layer.weights.shape[2:]
    at_y = y[:, None] * layer.strides[0] + np.arange(kh) * layer.dilations[0]
    at_x = column[:, None] * layer.strides[1] + np.arange(kw) * layer.dilations[1]
    windows = padded[row[:, None, None], :, at_y[:, :, None], at_x[:, None, :]]
    seen = windows.transpose(0, 3, 1, 2).reshape(len(picked), layer.groups, -1)
    targets = sums.reshape(rows, layer.result[0], down, across)[row, :, y, column]
    return seen.astype(np.float64), targets


def integer_weights(
    layer: Layer,
    wanted: Floats,
    gain: Floats,
    seen: tuple[Floats, Floats],
    *,
    box: tuple[Floats, Floats] | None,
    weight_max: int,
    fit: bool = True,
) -> tuple[Ints, Ints]:
    """Weights (shape of ``wanted``) and bias (out,) for accumulators that hold ``gain`` times the float sums.

    ``wanted`` are the unrounded weights per count of the source, ``seen`` what ``patches`` gives with counts already
    shifted up, ``box`` mean and variance of every column (groups, columns) or None for those of the data.
    Without ``fit`` every weight is rounded by itself. Raises ``QuantiseError`` where a bias leaves int32.
    """
    features, sums = seen
    outputs, per_group = wanted.shape[0], wanted.shape[0] // layer.groups
    flat = wanted.reshape(outputs, -1)
    target = sums * gain
    small = fit and flat.shape[1] <= FIT_COLUMNS_MAX and layer.groups <= FIT_GROUPS_MAX and flat.size <= FIT_WEIGHTS_MAX
    weights = np.clip(np.rint(flat), -weight_max, weight_max)
    bias = np.zeros(outputs)
    for group in range(layer.groups):
        own = slice(group * per_group, (group + 1) * per_group)
        x = features[:, group]
        if small:
            spread = (x.mean(axis=0), x.var(axis=0) + 1.0) if box is None else (box[0][group], box[1][group])
            full = np.column_stack([flat[own], (layer.bias * gain)[own]])
            shares = importance(sums[:, own], layer.low, layer.high)
            fitted = fit_rows(x, spread, target[:, own], full, weight_max=weight_max, weights=shares)
            weights[own], bias[own] = fitted[:, :-1], fitted[:, -1]
        else:
            bias[own] = np.rint((target[:, own] - x @ weights[own].T).mean(axis=0))
    if np.abs(bias).max() > INT32_MAX:
        raise QuantiseError(
            "accumulator-width",
            found=f"a bias of {np.abs(bias).max():.0f}",
            expected="int32",
            hint="choose coarser scales in the limits file",
        )
    return weights.reshape(wanted.shape).astype(np.int64), bias.astype(np.int64)
