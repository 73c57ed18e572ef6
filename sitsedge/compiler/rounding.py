"""Rounds the weights of a layer to integers so that the layer's output error is smallest, not each weight's.

The error of a neuron with weight error d is the quadratic form dᵀHd, where H is the second moment of the
inputs it really sees, plus a small share of the second moment over the whole box so that directions the
calibration data never shows stay near the trained weights. Sequential rounding against this form is the
idea of Hassibi & Stork, "Optimal Brain Surgeon" (1993) and Frantar et al., "GPTQ" (2022); coordinate
descent afterwards removes what order-dependence is left. Constant errors vanish into the bias, which is
the last coordinate.
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.network import Floats

BOX_SHARE = 0.02
"""Weight of the box against the data: large enough to keep unseen directions, small enough to fit the seen."""

MARGIN_OF_SPREAD = 0.3
HIDDEN_WEIGHT = 0.3
"""Rows within this share of the spread beyond a bound count fully; the others less, but enough to stay there."""

DAMPING = 1e-9
"""Relative; keeps directions that neither data nor box move invertible."""

WEIGHTED_PRODUCT_MAX = 1 << 26
"""Above this many products one second moment serves all neurons of the layer instead of one each."""

SMALL_PRODUCT_MAX = 1 << 24
"""Multiplications up to which plain summation takes a few tens of milliseconds at most."""

SWEEPS_MAX = 60
"""Coordinate descent stops by itself within a few sweeps; the bound keeps it total."""


def moment(mean: Floats, variance: Floats) -> Floats:
    """Second moment of independent features with a constant 1 appended: (n + 1, n + 1)."""
    full = np.append(mean, 1.0)
    return np.outer(full, full) + np.diag(np.append(variance, 0.0))


def importance(sums: Floats, low: float, high: float) -> Floats:
    """Weight of every calibration row for every neuron, from its float sums (rows, m).

    Where a clamp or ReLU hides the sum, its error does not reach the output; such rows keep a small weight so
    that they stay hidden.
    """
    margin = MARGIN_OF_SPREAD * sums.std(axis=0)
    seen = (sums > low - margin) & (sums < high + margin)
    return np.where(seen, 1.0, HIDDEN_WEIGHT)


def fit_rows(
    features: Floats,
    box: tuple[Floats, Floats],
    target: Floats,
    wanted: Floats,
    *,
    weight_max: int,
    weights: Floats | None = None,
) -> Floats:
    """Integer weights and bias for every neuron of a layer.

    ``features`` (rows, n) are the integer inputs, ``box`` their mean and variance over the box (each (n,)),
    ``target`` (rows, m) the float sums in accumulator units, ``wanted`` (m, n + 1) the unrounded weights and bias,
    ``weights`` (rows, m) the importance of each row for each neuron.
    Returns (m, n + 1) whole numbers, weights within ``±weight_max``.
    """
    rows = features.shape[0]
    # Counted from whole-numbered means, a weight's move leaves the mean sum alone; the bias turns back exactly.
    centre_of_data = np.rint(features.mean(axis=0))
    full = np.column_stack([features - centre_of_data, np.ones(rows)])
    prior = BOX_SHARE * moment(box[0] - centre_of_data, box[1])
    wanted = wanted.copy()
    wanted[:, -1] += wanted[:, :-1] @ centre_of_data
    if weights is not None and rows * weights.shape[1] * full.shape[1] ** 2 <= WEIGHTED_PRODUCT_MAX:
        hessian = np.einsum("rm,ri,rj->mij", weights, full, full, optimize=True) / rows + prior
        right = _products(target * weights, full) / rows + wanted @ prior
    else:
        hessian = (_products(full, full) / rows + prior)[None]
        right = _products(target, full) / rows + wanted @ prior
    size = full.shape[1]
    hessian = hessian * (1 + DAMPING * np.eye(size))
    centre = np.linalg.solve(hessian, right[..., None])[..., 0]
    bound = np.append(np.full(features.shape[1], float(weight_max)), np.inf)
    start = _sequential(hessian, centre, bound)
    plain = np.clip(np.rint(wanted), -bound, bound)
    candidates = [_descend(hessian, centre, guess, bound) for guess in (start, plain)]
    costs = [_cost(hessian, candidate - centre) for candidate in candidates]
    chosen = np.where((costs[0] <= costs[1])[:, None], candidates[0], candidates[1])
    chosen[:, -1] -= chosen[:, :-1] @ centre_of_data
    return chosen


def _cost(hessian: Floats, error: Floats) -> Floats:
    """dᵀHd per neuron; ``hessian`` (m or 1, n, n), ``error`` (m, n)."""
    moved = (hessian @ error[..., None])[..., 0]
    return np.asarray((error * moved).sum(axis=1))


def _products(a: Floats, b: Floats) -> Floats:
    """aᵀ·b for rows of features.

    Small ones are summed without BLAS: its threads cost more than the work on a busy machine, and the order of
    summation then does not depend on the number of cores, so equal files give equal models there.
    """
    if a.shape[0] * a.shape[1] * b.shape[1] <= SMALL_PRODUCT_MAX:
        return np.asarray(np.einsum("ri,rj->ij", a, b))
    return a.T @ b


def _sequential(hessian: Floats, centre: Floats, bound: Floats) -> Floats:
    """Round one coordinate after another, moving the rest to make up for each rounding error."""
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).transpose(0, 2, 1)
    current, result = centre.copy(), np.zeros_like(centre)
    for j in range(hessian.shape[1]):
        result[:, j] = np.clip(np.rint(current[:, j]), -bound[j], bound[j])
        error = (current[:, j] - result[:, j]) / upper[:, j, j]
        current[:, j:] -= error[:, None] * upper[:, j, j:]
    return result


def _descend(hessian: Floats, centre: Floats, start: Floats, bound: Floats) -> Floats:
    """Move single coordinates to their best whole number until none moves."""
    current = start.copy()
    for _ in range(SWEEPS_MAX):
        moved = False
        for j in range(hessian.shape[1]):
            gradient = ((current - centre) * hessian[:, :, j]).sum(axis=1)
            best = np.clip(np.rint(current[:, j] - gradient / hessian[:, j, j]), -bound[j], bound[j])
            moved = moved or bool(np.any(best != current[:, j]))
            current[:, j] = best
        if not moved:
            break
    return current
