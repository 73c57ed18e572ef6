"""Models that are quantised already: the graph keeps real values, their saturation and their scales.

A QuantizeLinear/DequantizeLinear pair rounds and saturates; what stays of it is the saturation (a clamp, often the
model's ReLU) and the scale, which the quantiser may take up. Integer weights become their real values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitsedge.compiler.importer.builder import Data, Quantised
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import refuse
from sitsedge.compiler.importer.operators.linear import convolution, product
from sitsedge.compiler.importer.tensors import TYPES, Array


def quantize_linear(call: Call) -> Data:
    call.arity(2, 3)
    call.ignore("saturate", "axis")
    _no_blocks(call)
    dtype = call.constant(2).dtype if call.has(2) else TYPES.get(call.integer("output_dtype", 2), np.dtype("u1"))
    call.ignore("output_dtype", "precision")
    return _saturated(call, call.data(), _scale(call, 1, 2), dtype)


def dequantize_linear(call: Call) -> Data:
    call.arity(2, 3)
    call.ignore("axis", "output_dtype")
    _no_blocks(call)
    return _real(call, 0, _scale(call, 1, 2))


def _real(call: Call, index: int, scale: Quantised) -> Data:
    """The real value of quantised input ``index``, whose scale must be the one it was made with."""
    x = call.data(index)
    if x.quantised != scale:
        raise refuse(
            "quantised",
            f"scale {scale.scale:g} and zero point {scale.zero_point} for a value made with "
            + ("none" if x.quantised is None else f"{x.quantised.scale:g} and {x.quantised.zero_point}"),
            "the scale the value was quantised with",
            "feed real numbers: a model whose inputs are integers is not imported",
        )
    return Data(x.name, x.shape)


def _saturated(call: Call, x: Data, scale: Quantised, dtype: np.dtype[Any]) -> Data:
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        raise refuse("quantised", f"quantised type {dtype}", "8 or 16 bits")
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    if not low <= scale.zero_point <= high:
        raise refuse("quantised", f"zero point {scale.zero_point}", f"{low} to {high}")
    bounds = (scale.scale * (low - scale.zero_point), scale.scale * (high - scale.zero_point))
    return call.builder.remember(call.builder.clamp(x, *bounds), scale, low, high)


def _scale(call: Call, scale: int, zero_point: int) -> Quantised:
    scales = call.real(scale)
    zero = call.optional(zero_point)
    if scales.size != 1 or (zero is not None and zero.size != 1):
        raise refuse(
            "quantised", f"{scales.size} scales of one value", "one scale a value", "quantise activations per tensor"
        )
    number = float(scales.reshape(-1)[0])
    if not 0.0 < number < float(np.finfo(np.float32).max):
        raise refuse("quantised", f"scale {number:g}", "a positive scale")
    return Quantised(number, 0 if zero is None else int(zero.reshape(-1)[0]))


def _no_blocks(call: Call) -> None:
    if call.integer("block_size", 0):
        raise refuse("quantised", "blocked quantisation", "one scale a tensor or a channel")


def real_weights(weights: Array, scales: Array, zeros: Array | None, axis: int) -> Array:
    """``scale·(w − zero point)`` with one scale in all or one along ``axis``."""
    if scales.size == 1:
        shape: tuple[int, ...] = ()
    elif scales.ndim == 1 and -weights.ndim <= axis < weights.ndim and scales.size == weights.shape[axis]:
        shape = tuple(-1 if i == axis % weights.ndim else 1 for i in range(weights.ndim))
    else:
        raise refuse("quantised", f"scales {list(scales.shape)}", "one scale a tensor or a channel")
    if weights.dtype.kind not in "iu" or (zeros is not None and zeros.size not in (1, scales.size)):
        raise refuse("quantised", f"weights of {weights.dtype}", "integers and as many zero points as scales")
    offset = np.zeros(()) if zeros is None else zeros.astype(np.float64)
    offset = offset.reshape(shape) if offset.size > 1 or not shape else offset.reshape(-1)[0]
    return np.asarray((weights.astype(np.float64) - offset) * scales.astype(np.float64).reshape(shape), np.float64)


def qlinear_conv(call: Call) -> Data:
    call.arity(8, 9)
    scale = _scale(call, 1, 2)
    x = _real(call, 0, scale)
    scales = call.real(4)
    weights = real_weights(call.constant(3), scales, call.optional(5), 0)
    bias = np.zeros(len(weights) if weights.ndim else 0)
    if call.has(8):
        bias = call.real(8) * (scale.scale * scales.reshape(-1))
    return _saturated(call, convolution(call, x, weights, bias), _scale(call, 6, 7), call.constant(7).dtype)


def qlinear_matmul(call: Call) -> Data:
    call.arity(8, 8)
    x = _real(call, 0, _scale(call, 1, 2))
    weights = real_weights(call.constant(3), call.real(4), call.optional(5), -1)
    return _saturated(call, product(call, x, weights), _scale(call, 6, 7), call.constant(7).dtype)
