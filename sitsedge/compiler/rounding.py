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

SMALL_PRODUCT_MAX = 1 << 24
"""Multiplications up to which plain summation takes a few tens of milliseconds at most."""

SWEEPS_MAX = 60
"""Coordinate descent stops by itself within a few sweeps; the bound keeps it total."""


def moment(mean: Floats, variance: Floats) -> Floats:
    """Second moment of independent features with a constant 1 appended: (n + 1, n + 1)."""
    full = np.append(mean, 1.0)
    return np.outer(full, full) + np.diag(np.append(variance, 0.0))


def fit_rows(features: Floats, box: Floats, target: Floats, wanted: Floats, *, weight_max: int) -> Floats:
    """Integer weights and bias for every neuron of a layer.

    ``features`` (rows, n) are the integer inputs, ``box`` the (n + 1, n + 1) moment over the box, ``target``
    (rows, m) the float sums in accumulator units, ``wanted`` (m, n + 1) the unrounded weights and bias.
    Returns (m, n + 1) whole numbers, weights within ``±weight_max``.
    """
    rows = features.shape[0]
    full = np.column_stack([features, np.ones(rows)])
    prior = BOX_SHARE * box
    hessian = _products(full, full) / rows + prior
    right = _products(target, full) / rows + wanted @ prior
    centre = np.linalg.lstsq(hessian, right.T, rcond=None)[0].T
    bound = np.append(np.full(features.shape[1], float(weight_max)), np.inf)
    start = _sequential(hessian, centre, bound)
    plain = np.clip(np.rint(wanted), -bound, bound)
    candidates = [_descend(hessian, centre, guess, bound) for guess in (start, plain)]
    costs = [np.einsum("ij,jk,ik->i", c - centre, hessian, c - centre) for c in candidates]
    return np.where((costs[0] <= costs[1])[:, None], candidates[0], candidates[1])


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
    n = hessian.shape[0]
    damped = hessian + np.eye(n) * 1e-9 * np.trace(hessian) / n
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    current, result = centre.copy(), np.zeros_like(centre)
    for j in range(n):
        result[:, j] = np.clip(np.rint(current[:, j]), -bound[j], bound[j])
        error = (current[:, j] - result[:, j]) / upper[j, j]
        current[:, j:] -= np.outer(error, upper[j, j:])
    return result


def _descend(hessian: Floats, centre: Floats, start: Floats, bound: Floats) -> Floats:
    """Move single coordinates to their best whole number until none moves."""
    current = start.copy()
    for _ in range(SWEEPS_MAX):
        moved = False
        for j in range(hessian.shape[0]):
            gradient = (current - centre) @ hessian[:, j]
            best = np.clip(np.rint(current[:, j] - gradient / hessian[j, j]), -bound[j], bound[j])
            moved = moved or bool(np.any(best != current[:, j]))
            current[:, j] = best
        if not moved:
            break
    return current
