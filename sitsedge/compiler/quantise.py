"""Float network → integer model: gains, shifts and weights chosen on calibration data.

ReLU and clamp commute with positive factors, so every hidden neuron has a free gain. It is chosen so that
the largest weight of the row uses all weight bits; the shift then brings the activation to the wanted number
of bits. Only the last layer has a fixed scale: its output counts are the limits file's counts, so its shift is
a power of two away from the weights' real size. The search tries widths for weights and activations and takes
the smallest circuit that meets the error goal.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from sitsedge.compiler.circuit_plan import count_constraints
from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.intervals import layer_bounds, prove
from sitsedge.compiler.network import FloatLayer, FloatNetwork, Floats
from sitsedge.compiler.reference import (
    IN_SHIFT_MAX,
    INT16_MAX,
    INT32_MAX,
    INT32_MIN,
    SHIFT_MAX,
    WEIGHT_MAX,
    IntegerLayer,
    IntegerModel,
    Ints,
)
from sitsedge.compiler.rounding import fit_rows, importance

ACTIVATION_BITS = (6, 7, 8, 9, 10, 11, 12)
FIRST_WEIGHT_BITS = (8, 7, 6)
WEIGHT_BITS = (8, 7, 6)
ALIGNMENTS = ("box", "data")

NEARLY_BEST = 1.1
"""Where nothing meets the goal, a tenth more error is worth a smaller circuit."""

BIAS_MAX = float(1 << 29)
"""A gain is kept so small that no bias or sum passes it: weight decay leaves neurons whose weights are a millionth of
their bias, and a gain that filled eight bits with such weights would leave no room for the bias in int32."""

CONSTANT_COUNTS = float((1 << ACTIVATION_BITS[-1]) - 1)
"""Counts of a neuron that is a constant: as fine as the widest activation."""

SEARCH_WEIGHTS_MAX = 8192
"""Above this size one trial takes too long for the whole grid; only full weights are tried."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Wanted accuracy against the float network, relative to each output's span on the calibration rows."""

    rms: float = 0.002
    peak: float = 0.01


@dataclass(frozen=True, slots=True)
class Choice:
    """Bits chosen: activations, weights of the first layer, weights of the others; how inputs are aligned."""

    activation_bits: int
    first_weight_bits: int
    weight_bits: int
    align: str = "box"


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """The model with what was chosen and how good it is on the rows it was fitted to.

    ``reals`` gives the physical value of a count of every neuron, layer by layer.
    """

    model: IntegerModel
    reals: tuple[Floats, ...]
    choice: Choice
    rms: float
    peak: float
    constraints: int
    meets_goal: bool


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """Physical units per count of the inputs (n,) and outputs (m,), and the box in counts."""

    inputs: Floats
    outputs: Floats
    box_low: Ints
    box_high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Everything one trial needs that does not depend on the bits."""

    network: FloatNetwork
    scales: Scales
    counts: Ints
    sums: list[Floats]
    outputs: Floats
    span: Floats
    first_fits: dict[tuple[int, str], tuple[Ints, Ints]] = field(default_factory=dict)
    """Weights and bias of a hidden first layer by weight bits and alignment, the only things they depend on."""


def quantise(network: FloatNetwork, scales: Scales, counts: Ints, raw: Floats, *, goal: Goal) -> Quantised:
    """Choose the integer model; ``counts`` (rows, n) are the quantised and ``raw`` the physical inputs.

    Raises ``QuantiseError`` when no choice of bits keeps every number in its format.
    """
    sums = network.activations(raw)
    outputs = network.run(raw)
    spread = outputs.max(axis=0) - outputs.min(axis=0)
    trial = _Trial(network, scales, counts, sums, outputs, np.maximum(spread, scales.outputs))
    found: list[Quantised] = []
    failure: QuantiseError | None = None
    for choice in _choices(network):
        try:
            found.append(_try(trial, choice, goal))
        except QuantiseError as error:
            failure = error
    if not found:
        assert failure is not None, "at least one choice was tried"
        raise failure
    return _select(found)


def _select(found: list[Quantised]) -> Quantised:
    """The smallest circuit among those that meet the goal, else among those nearly as accurate as the best."""
    good = [q for q in found if q.meets_goal]
    if not good:
        best = min(q.rms for q in found)
        good = [q for q in found if q.rms <= NEARLY_BEST * best]
    return min(good, key=lambda q: (q.constraints, q.rms))


def _choices(network: FloatNetwork) -> list[Choice]:
    if sum(layer.weights.size for layer in network.layers) > SEARCH_WEIGHTS_MAX:
        return [Choice(bits, 8, 8) for bits in ACTIVATION_BITS]
    one_layer = len(network.layers) == 1
    activations = ACTIVATION_BITS[:1] if one_layer else ACTIVATION_BITS
    others = WEIGHT_BITS[:1] if one_layer else WEIGHT_BITS
    return list(itertools.starmap(Choice, itertools.product(activations, FIRST_WEIGHT_BITS, others, ALIGNMENTS)))


def _try(trial: _Trial, choice: Choice, goal: Goal) -> Quantised:
    real = trial.scales.inputs
    low, high = trial.scales.box_low, trial.scales.box_high
    values = trial.counts
    layers: list[IntegerLayer] = []
    reals: list[Floats] = []
    last = len(trial.network.layers) - 1
    for index, layer in enumerate(trial.network.layers):
        widths = _Inputs(values, low, high, real, first=index == 0)
        live = _without_dead_inputs(layer, widths)
        if index == last:
            made = _output_layer(live, widths, trial.sums[index], trial.scales.outputs, choice.align)
            real = trial.scales.outputs
        else:
            fits = trial.first_fits if index == 0 else {}
            made, real = _hidden_layer(live, widths, trial.sums[index], choice, fits)
        bound = layer_bounds(made, low, high)
        low, high, values = bound.out_low, bound.out_high, made.run(values)
        layers.append(made)
        reals.append(real)
    model = IntegerModel.make(tuple(layers), trial.scales.box_low, trial.scales.box_high)
    prove(model)
    error = (values * trial.scales.outputs - trial.outputs) / trial.span
    rms = float(np.sqrt((error**2).mean(axis=0)).max())
    peak = float(np.abs(error).max())
    meets = rms <= goal.rms and peak <= goal.peak
    return Quantised(model, tuple(reals), choice, rms, peak, sum(count_constraints(model)), meets)


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """Integer inputs of a layer: values on the calibration rows, proven bounds, real value per count."""

    values: Ints
    low: Ints
    high: Ints
    real: Floats
    first: bool

    def box(self, in_shift: Ints) -> tuple[Floats, Floats]:
        """Mean and variance over the box for real inputs; for activations, those of the data."""
        factor = np.exp2(in_shift)
        if self.first:
            low, high = self.low * factor, self.high * factor
            return (low + high) / 2, np.maximum((high - low) ** 2 / 12, 1.0)
        values = self.values * factor
        return values.mean(axis=0), values.var(axis=0) + factor**2


def _without_dead_inputs(layer: FloatLayer, inputs: _Inputs) -> FloatLayer:
    """Weight 0 where an input is proven to be 0: its float weight must not decide how fine the others can be."""
    dead = (inputs.low == 0) & (inputs.high == 0)
    return replace(layer, weights=np.where(dead, 0.0, layer.weights)) if dead.any() else layer


def _column_shifts(inputs: _Inputs, align: str) -> Ints:
    """Exponents that bring narrow inputs nearer to the widest, so that one int8 row serves all of them.

    By the width of the box the sums stay shortest; by the spread of the data the weights are used best.
    """
    if not inputs.first:
        return np.zeros(inputs.real.size, np.int64)
    width = inputs.high - inputs.low if align == "box" else inputs.values.std(axis=0)
    width = np.maximum(width, 1).astype(np.float64)
    shifts: Ints = np.clip(np.floor(np.log2(width.max() / width)), 0, IN_SHIFT_MAX).astype(np.int64)
    return shifts


def _fit(
    layer: FloatLayer, inputs: _Inputs, in_shift: Ints, gain: Floats, sums: Floats, weight_max: int
) -> tuple[Ints, Ints]:
    """Integer weights and bias for accumulators that hold ``gain`` times the float sums."""
    per_column = inputs.real * np.exp2(-in_shift)
    wanted = np.column_stack([layer.weights * per_column * gain[:, None], layer.bias * gain])
    features = (inputs.values << in_shift).astype(np.float64)
    box = inputs.box(in_shift)
    weights = importance(sums, layer.low, layer.high)
    fitted = fit_rows(features, box, sums * gain, wanted, weight_max=weight_max, weights=weights)
    bias = fitted[:, -1]
    if np.abs(bias).max() > INT32_MAX:
        raise QuantiseError(
            "accumulator-width",
            found=f"a bias of {np.abs(bias).max():.0f}",
            expected="int32",
            hint="choose coarser scales in the limits file",
        )
    return fitted[:, :-1].astype(np.int64), bias.astype(np.int64)


def _seen(layer: FloatLayer, sums: Floats) -> Floats:
    """Largest bias or sum of every output, above 0."""
    most = np.maximum(np.abs(sums).max(axis=0), np.abs(layer.bias))
    return np.where(most > 0, most, 1.0)


def _hidden_layer(
    layer: FloatLayer,
    inputs: _Inputs,
    sums: Floats,
    choice: Choice,
    fits: dict[tuple[int, str], tuple[Ints, Ints]],
) -> tuple[IntegerLayer, Floats]:
    """The layer and the real value of one count of each of its activations."""
    weight_bits = choice.first_weight_bits if inputs.first else choice.weight_bits
    weight_max = (1 << (weight_bits - 1)) - 1
    in_shift = _column_shifts(inputs, choice.align)
    largest = np.abs(layer.weights * inputs.real * np.exp2(-in_shift)).max(axis=1)
    seen = _seen(layer, sums)
    # Where no weight is left, a count is a step of the constant.
    free = np.where(largest > 0, weight_max / np.where(largest > 0, largest, 1.0), CONSTANT_COUNTS / seen)
    gain = np.minimum(free, BIAS_MAX / seen)
    key = (weight_bits, choice.align)
    if key not in fits:
        fits[key] = _fit(layer, inputs, in_shift, gain, sums, weight_max)
    weights, bias = fits[key]
    reach = np.abs(np.clip(sums, layer.low, layer.high)).max(axis=0)
    reach = np.where(reach > 0, reach, np.abs(sums).max(axis=0)) * gain
    wanted = np.ceil(np.log2(np.maximum(reach, 1.0) / ((1 << choice.activation_bits) - 1)))
    shift = np.clip(wanted, 0, SHIFT_MAX).astype(np.int64)

    def make() -> IntegerLayer:
        scale = gain * np.exp2(-shift)
        low = np.clip(np.rint(layer.low * scale), INT32_MIN, INT32_MAX)
        high = np.clip(np.rint(layer.high * scale), INT32_MIN, INT32_MAX)
        return IntegerLayer.make(
            weights=weights, bias=bias, in_shift=in_shift, shift=shift,
            activation=layer.activation, low=low, high=high,
        )  # fmt: skip

    made = make()
    bound = layer_bounds(made, inputs.low, inputs.high)
    excess = np.maximum(np.abs(bound.out_low), np.abs(bound.out_high)) / INT16_MAX
    if excess.max() > 1:
        # The proven bound, not the data, decides what an int16 must hold.
        more = np.ceil(np.log2(np.maximum(excess, 1.0))).astype(np.int64) + (excess > 1)
        shift = np.minimum(shift + more, SHIFT_MAX)
        made = make()
    return made, np.exp2(shift) / gain


def _output_layer(layer: FloatLayer, inputs: _Inputs, sums: Floats, scale: Floats, align: str) -> IntegerLayer:
    """The last layer: counts times ``scale`` are physical units, exactly."""
    in_shift = _column_shifts(inputs, align)
    largest = np.abs(layer.weights * inputs.real * np.exp2(-in_shift)).max(axis=1) / scale
    room = np.floor(np.log2(WEIGHT_MAX / np.where(largest > 0, largest, WEIGHT_MAX)))
    room = np.minimum(room, np.floor(np.log2(np.maximum(BIAS_MAX * scale / _seen(layer, sums), 1.0))))
    if room.min() < 0:
        # Counts finer than one weight step: multiply the inputs up, exactly, by a power of two.
        in_shift = in_shift + int(-room.min())
        room = room - room.min()
        if in_shift.max() > IN_SHIFT_MAX:
            raise QuantiseError(
                "output-scale",
                found=f"output scale {scale[int(np.argmax(largest))]:g}",
                expected=f"at most 2^{IN_SHIFT_MAX} counts per step of the last hidden layer",
                hint="choose a coarser scale for this output in the limits file",
            )
    shift = np.clip(room, 0, SHIFT_MAX).astype(np.int64)
    gain = np.exp2(shift) / scale
    weights, bias = _fit(layer, inputs, in_shift, gain, sums, WEIGHT_MAX)
    low = np.clip(np.rint(layer.low / scale), INT32_MIN, INT32_MAX)
    high = np.clip(np.rint(layer.high / scale), INT32_MIN, INT32_MAX)
    return IntegerLayer.make(
        weights=weights, bias=bias, in_shift=in_shift, shift=shift,
        activation=layer.activation, low=low, high=high,
    )  # fmt: skip
