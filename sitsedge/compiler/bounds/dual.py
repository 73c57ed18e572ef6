"""Lagrangian bounds of a chain over many parts of its inputs at once.

A part is a box of inputs together with bounds of every hidden accumulator. Source of the bound: Dvijotham, Stanforth,
Gowal, Mann, Kohli, A Dual Approach to Scalable Verification of Deep Networks, UAI 2018. In units of a rounding step,
p = W·a' + b is a neuron's sum and a its activation; for any numbers μ, one a hidden neuron,

    max t·a_K + c  ≤  c + Σ_k [ μ_k·b_k + Σ_i max (r_ki·a − μ_ki·p) ] + max r_0·x,     r_K = t,  r_{k-1} = μ_k·W_k

where each inner maximum is over one neuron's own p and a alone. That neuron's a lies between clip(p + 1/2 - 1 + 2^-s)
and clip(p + 1/2), rounding included, so the largest value is at an end of p's range or where the clip bends: four
points, no relaxation. Bounds of accumulators that a branch adds are in the range and need no multipliers of their own.

Any μ gives a bound that holds; good ones are found by gradient steps on μ_k = slope_k · r_k + extra_k, which start from
CROWN's slopes. Xu et al., Fast and Complete, ICLR 2021 (slopes), and Wang et al., Beta-CROWN, NeurIPS 2021
(multipliers of branches), are the same dual in parts.

The steps are taken in float32. What was found is evaluated again in float64, where weights, biases and ends of ranges
are exact (whole numbers over powers of two), and ``certified`` adds a bound of the rounding errors, as ``crown`` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.bounds.crown import TINY, UNIT, activation, line_above
from sitsedge.compiler.bounds.crown import Floats as Doubles
from sitsedge.compiler.bounds.goal import Goal
from sitsedge.compiler.reference import IntegerLayer, Ints

Floats = NDArray[np.floating]
"""float64, or float32 where it only searches."""

SLOPE_RATE, EXTRA_RATE = 0.2, 0.3
"""First step sizes: of a slope, which is in 0 … 1, and of an extra in means of |r|. Chosen on trained networks."""

LAST_RATE = 0.05
"""The last step beside the first; steps shrink geometrically."""

MEAN_DECAY, SQUARE_DECAY = 0.8, 0.95
"""Of the running means of gradients and of their squares (Kingma and Ba, Adam, ICLR 2015)."""

ONE = np.ones(1)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A hidden layer in units of its rounding steps: p = weights @ a + bias; a in clip(p + down) … clip(p + up)."""

    layer: IntegerLayer
    first: int
    """Where its neurons begin among all hidden ones."""
    step: Doubles
    weights: Floats
    bias: Floats
    up: Doubles
    down: Doubles

    @classmethod
    def of(cls, layer: IntegerLayer, first: int) -> Scaled:
        """Exact: every number is a whole one over a power of two."""
        step = np.exp2(layer.shift.astype(np.float64))
        return cls(
            layer=layer,
            first=first,
            step=step,
            weights=layer.columns() / step[:, None],
            bias=layer.bias / step,
            up=layer.rounding / step,
            down=(layer.rounding - step + 1) / step,
        )

    @property
    def here(self) -> slice:
        """Its neurons among all hidden ones."""
        return slice(self.first, self.first + self.bias.size)

    def single(self) -> Scaled:
        """In float32, for searching."""
        return replace(self, weights=self.weights.astype(np.float32), bias=self.bias.astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of the inputs, (parts, …): box and accumulators in counts, hidden neurons of all layers in one row.

    ``slope`` and ``extra`` are where the search for multipliers starts.
    """

    box_low: Ints
    box_high: Ints
    low: Ints
    high: Ints
    slope: Floats
    extra: Floats

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: Ints) -> Parts:
        """The parts at ``rows``."""
        return Parts(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Per part and neuron of one layer: the four points of the inner maximum, for r ≥ 0 and for r < 0."""

    p_up: Floats
    a_up: Floats
    p_down: Floats
    a_down: Floats

    @classmethod
    def of(cls, scaled: Scaled, low: Ints, high: Ints) -> Terms:
        """``low`` and ``high`` (parts, outputs) bound the accumulators."""
        ends = low / scaled.step, high / scaled.step
        least, most = (activation(scaled.layer, acc).astype(np.float64) for acc in (low, high))
        points = []
        for shift in (scaled.up, scaled.down):
            p = np.stack([*ends, np.clip(least - shift, *ends), np.clip(most - shift, *ends)])
            points += [p, np.clip(p + shift, least, most)]
        return cls(*points)

    def single(self) -> Terms:
        """In float32, for searching."""
        return Terms(*(getattr(self, name).astype(np.float32) for name in self.__slots__))

    def best(self, r: Floats, mu: Floats) -> tuple[Floats, Floats, Floats]:
        """The largest r·a - μ·p, and its p and a; (parts, outputs)."""
        rises = r >= 0
        p, a = np.where(rises, self.p_up, self.p_down), np.where(rises, self.a_up, self.a_down)
        value = r * a
        value -= mu * p
        for i in range(1, len(value)):
            larger = value[i] > value[0]
            for array in (value, p, a):
                np.copyto(array[0], array[i], where=larger)
        return value[0], p[0], a[0]


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One evaluation, lists by hidden layer: the value (parts,), the inputs and points it is attained at, r and μ."""

    value: Floats
    inputs: Floats
    p: list[Floats]
    a: list[Floats]
    r: list[Floats]
    mu: list[Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Maximise ``target @ a + constant`` for the activations a of the last of ``layers``.

    ``target`` is (outputs,) and the same for all parts, or (parts, outputs); ``constant`` a number or (parts,).
    """

    layers: tuple[Scaled, ...]
    target: Floats
    constant: Floats

    @classmethod
    def of(cls, goal: Goal) -> Program:
        """The goal's excess: it holds where the largest value is below 1."""
        layers: list[Scaled] = []
        for layer in goal.model.layers[:-1]:
            layers.append(Scaled.of(layer, layers[-1].here.stop if layers else 0))
        last, k = goal.model.layers[-1], goal.output
        constant = np.array(goal.sign * int(last.bias[k]) - goal.threshold, dtype=np.float64)
        return cls(tuple(layers), goal.sign * last.columns()[k].astype(np.float64), constant)

    def single(self) -> Program:
        """In float32, for searching."""
        return Program(tuple(layer.single() for layer in self.layers), self.target.astype(np.float32), self.constant)

    def of_sums(self, k: int, rows: Ints) -> Program:
        """For layer ``k`` > 0 a part for each of ``rows``: there p_row, or -p_(row - outputs) behind the last."""
        layer = self.layers[k]
        size = layer.bias.size
        signs, of = np.where(rows < size, 1.0, -1.0), rows % size
        return Program(self.layers[:k], signs[:, None] * layer.weights[of], signs * layer.bias[of])

    def terms(self, parts: Parts) -> tuple[Terms, ...]:
        """Of every layer."""
        return tuple(Terms.of(layer, parts.low[:, layer.here], parts.high[:, layer.here]) for layer in self.layers)

    def _rows(self, parts: Parts) -> Floats:
        return np.broadcast_to(self.target, (len(parts), self.target.shape[-1]))

    def start(self, parts: Parts) -> Parts:
        """With the slopes that CROWN would take and no extras."""
        slope = np.zeros(parts.low.shape)
        r = self._rows(parts)
        for layer in reversed(self.layers):
            above, _, below, _ = lines(layer, parts)
            slope[:, layer.here] = np.where(r >= 0, above, below)
            r = (slope[:, layer.here] * r) @ layer.weights
        return replace(parts, slope=slope, extra=np.zeros(parts.low.shape))

    def evaluate(self, terms: tuple[Terms, ...], parts: Parts, slope: Floats, extra: Floats) -> Pass:
        """The bound at these multipliers, up to rounding errors; in the program's and the multipliers' precision."""
        r = self._rows(parts)
        value = np.zeros(len(parts)) + self.constant
        points: list[tuple[Floats, ...]] = []
        for layer, term in zip(reversed(self.layers), reversed(terms), strict=True):
            mu = slope[:, layer.here] * r + extra[:, layer.here]
            top, p, a = term.best(r, mu)
            value += top.sum(axis=1) + mu @ layer.bias
            points.append((p, a, r, mu))
            r = mu @ layer.weights
        inputs = np.where(r > 0, parts.box_high, parts.box_low).astype(r.dtype)
        value += (r * inputs).sum(axis=1)
        p_all, a_all, r_all, mu_all = (list(group) for group in zip(*reversed(points), strict=True))
        return Pass(value, inputs, p_all, a_all, r_all, mu_all)

    def ascend(self, parts: Parts, steps: int, terms: tuple[Terms, ...] | None = None) -> tuple[Parts, Doubles]:
        """The parts with the best multipliers met in ``steps`` steps, and their certified bounds (parts,).

        ``terms`` are those of the parts, unless neurons do something else than requantise.
        """
        terms = self.terms(parts) if terms is None else terms
        found = self.single()._search(tuple(term.single() for term in terms), parts, steps)
        return found, self.certified(terms, found)

    def _search(self, terms: tuple[Terms, ...], parts: Parts, steps: int) -> Parts:
        slope: Floats = parts.slope.astype(np.float32)
        extra: Floats = parts.extra.astype(np.float32)
        best, least = (slope.copy(), extra.copy()), np.full(len(parts), np.inf)
        descent = _Descent(slope.shape)
        for step in range(steps):
            now = self.evaluate(terms, parts, slope, extra)
            better = now.value < least
            least = np.where(better, now.value, least)
            for kept, tried in zip(best, (slope, extra), strict=True):
                kept[better] = tried[better]
            if step == 0:
                mean = np.concatenate([np.broadcast_to(np.abs(r).mean(1, keepdims=True), r.shape) for r in now.r], 1)
            if step < steps - 1:
                rate = np.float32(LAST_RATE ** (step / steps))
                by_slope, by_extra = descent.moves(*self._gradient(now, slope))
                slope = np.clip(slope - rate * np.float32(SLOPE_RATE) * by_slope, 0, 1)
                extra -= rate * np.float32(EXTRA_RATE) * mean * by_extra
        return replace(parts, slope=best[0].astype(np.float64), extra=best[1].astype(np.float64))

    def _gradient(self, now: Pass, slope: Floats) -> tuple[Floats, Floats]:
        """Of the bound by slopes and by extras, r's dependence on the layers behind included."""
        source = now.inputs
        by_slope, by_extra = np.empty_like(slope), np.empty_like(slope)
        for layer, p, a, r in zip(self.layers, now.p, now.a, now.r, strict=True):
            gap = source @ layer.weights.T + layer.bias - p
            by_extra[:, layer.here], by_slope[:, layer.here] = gap, r * gap
            source = a + slope[:, layer.here] * gap
        return by_slope, by_extra

    def certified(self, terms: tuple[Terms, ...], parts: Parts) -> Doubles:
        """The bounds (parts,) at the parts' multipliers: they hold in exact arithmetic."""
        now = self.evaluate(terms, parts, parts.slope, parts.extra)
        before = np.maximum(np.abs(parts.box_low), np.abs(parts.box_high)).astype(np.float64)
        magnitude = np.abs(self.constant) + np.abs(now.mu[0] @ self.layers[0].weights * before).sum(axis=1)
        for layer, term, r, mu in zip(self.layers, terms, now.r, now.mu, strict=True):
            largest_p = np.maximum(np.abs(term.p_up[0]), np.abs(term.p_up[1]))
            largest_a = np.maximum(np.abs(term.a_up).max(axis=0), np.abs(term.a_down).max(axis=0))
            reach = largest_p + np.abs(layer.bias) + before @ np.abs(layer.weights).T
            magnitude = magnitude + (np.abs(r) * largest_a).sum(axis=1) + (np.abs(mu) * reach).sum(axis=1)
            before = largest_a
        widest = max(max(layer.weights.shape) for layer in self.layers)
        bound: Doubles = now.value + (widest + 16 * len(self.layers) + 16) * 2 * UNIT * magnitude + TINY
        return bound


class _Descent:
    """Adam's moves for slopes and extras of many parts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._mean = np.zeros((2, *shape), np.float32)
        self._square = np.zeros((2, *shape), np.float32)
        self._steps = 0

    def moves(self, *gradients: Floats) -> Floats:
        """Directions of about unit size, (2, parts, neurons)."""
        self._steps += 1
        now = np.stack(gradients)
        self._mean += (1 - MEAN_DECAY) * (now - self._mean)
        self._square += (1 - SQUARE_DECAY) * (now * now - self._square)
        size = np.sqrt(self._square / (1 - SQUARE_DECAY**self._steps)) + np.float32(1e-12)
        move: Floats = self._mean / (1 - MEAN_DECAY**self._steps) / size
        return move


def lines(layer: Scaled, parts: Parts) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Slope and offset of a line above, then of one below, every activation over p; (parts, outputs)."""
    low, high = parts.low[:, layer.here], parts.high[:, layer.here]
    p_low, p_high = low / layer.step, high / layer.step
    least, most = (activation(layer.layer, acc).astype(np.float64) for acc in (low, high))
    above = line_above(p_low, p_high, layer.up, ONE, least, most)
    # clip(p, low, high) = -clip(-p, -high, -low): a line above the mirror image is one below.
    slope, offset = line_above(-p_high, -p_low, -layer.down, ONE, -most, -least)
    return *above, slope, -offset
