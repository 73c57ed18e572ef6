"""The permutation Poseidon2 with t = 3 and x^5 over the scalar fields of both proof curves.

Source: L. Grassi, D. Khovratovich, M. Schofnegger, "Poseidon2: A Faster Version of the Poseidon Hash Function",
AFRICACRYPT 2023 (IACR 2023/323), with its matrices for t = 3. Round constants come from the Grain LFSR in
self-shrinking mode as in the Poseidon paper (USENIX Security 2021, IACR 2019/458), with one constant a partial round.
:func:`secure_rounds` is the papers' bound on the rounds; those below are the cheapest that meet it with their margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from attest.proof.circuit import Curve

WIDTH: Final = 3
ALPHA: Final = 5
"""The least exponent prime to r - 1 on both curves, so that x^5 is a permutation."""
FULL_ROUNDS: Final = 8
PARTIAL_ROUNDS: Final = 56
SECURITY_BITS: Final = 128

SCALAR_MODULUS: Final = {curve: curve.parameters.r for curve in Curve}

State = tuple[int, int, int]

_GRAIN_BITS: Final = 80
_GRAIN_TAPS: Final = (62, 51, 38, 23, 13, 0)
_GRAIN_WARM_UP: Final = 160


@dataclass(frozen=True, slots=True)
class Parameters:
    """One field's instance. ``full`` has three constants a full round (the first half of them before the partial
    rounds), ``partial`` one a partial round."""

    modulus: int
    full: tuple[State, ...]
    partial: tuple[int, ...]


@cache
def parameters(curve: Curve) -> Parameters:
    """The instance over the curve's scalar field."""
    modulus = SCALAR_MODULUS[curve]
    constants = _constants(modulus)
    half = FULL_ROUNDS // 2
    first = [_triple(constants) for _ in range(half)]
    partial = tuple(next(constants) for _ in range(PARTIAL_ROUNDS))
    last = [_triple(constants) for _ in range(half)]
    return Parameters(modulus, (*first, *last), partial)


def permute(state: State, curve: Curve) -> State:
    """The permutation of three field elements in [0, r)."""
    p = parameters(curve)
    half = FULL_ROUNDS // 2
    current = external(state, p.modulus)
    for constants in p.full[:half]:
        current = _full_round(current, constants, p.modulus)
    for constant in p.partial:
        head = pow(current[0] + constant, ALPHA, p.modulus)
        current = internal((head, current[1], current[2]), p.modulus)
    for constants in p.full[half:]:
        current = _full_round(current, constants, p.modulus)
    return current


def external(state: State, modulus: int) -> State:
    """The matrix circ(2, 1, 1)."""
    total = sum(state)
    return _reduced([total + x for x in state], modulus)


def internal(state: State, modulus: int) -> State:
    """The matrix of ones plus diag(1, 1, 2)."""
    total = sum(state)
    return _reduced([total + state[0], total + state[1], total + 2 * state[2]], modulus)


def _full_round(state: State, constants: State, modulus: int) -> State:
    boxes = [pow(x + c, ALPHA, modulus) for x, c in zip(state, constants, strict=True)]
    return external(_reduced(boxes, modulus), modulus)


def _reduced(values: Sequence[int], modulus: int) -> State:
    a, b, c = values
    return a % modulus, b % modulus, c % modulus


def _triple(constants: Iterator[int]) -> State:
    return next(constants), next(constants), next(constants)


def _constants(modulus: int) -> Iterator[int]:
    """Field elements by rejection from the LFSR, most significant bit first."""
    bits = _grain(modulus.bit_length())
    while True:
        value = 0
        for _ in range(modulus.bit_length()):
            value = value << 1 | next(bits)
        if value < modulus:
            yield value


def _grain(field_bits: int) -> Iterator[int]:
    """The self-shrinking LFSR, seeded by what the instance is: prime field, x^α, bits, width, rounds, thirty ones."""
    seed = 0
    for value, width in ((1, 2), (0, 4), (field_bits, 12), (WIDTH, 12), (FULL_ROUNDS, 10), (PARTIAL_ROUNDS, 10)):
        seed = seed << width | value
    register = seed << 30 | (1 << 30) - 1

    def step() -> int:
        nonlocal register
        # Bit 0 of the sequence is the register's most significant one.
        new = sum(register >> (_GRAIN_BITS - 1 - tap) for tap in _GRAIN_TAPS) & 1
        register = (register << 1 | new) & ((1 << _GRAIN_BITS) - 1)
        return new

    for _ in range(_GRAIN_WARM_UP):
        step()
    while True:
        keep, bit = step(), step()
        if keep:
            yield bit


def secure_rounds(modulus: int, full: int, partial: int) -> bool:
    """Whether the rounds resist the known attacks at 128 bits, without any margin.

    Statistical, interpolation and three Gröbner-basis bounds of the Poseidon papers, and the one of T. Ashur,
    T. Buschman, M. Mahzoun, "Algebraic cryptanalysis of Hades design strategy" (IACR 2023/537), with exponent 2
    where that paper takes 2.37. The margin is two full rounds and 7.5 % more partial ones.
    """
    bits, log_alpha = math.log2(modulus), math.log2(ALPHA)
    m, t = SECURITY_BITS, WIDTH
    needed = max(
        6 if m <= (math.floor(bits - (ALPHA - 1) / 2)) * (t + 1) else 10,
        1 + math.ceil(min(m, modulus.bit_length()) / log_alpha) + math.ceil(math.log(t, ALPHA)) - partial,
        min(m, bits) / log_alpha - partial,
        t - 1 + min(m / (t + 1), bits / 2) / log_alpha - partial,
        (t - 2 + m / (2 * log_alpha) - partial) / (t - 1),
    )
    chosen = t // 3 * (full // 2) + partial + ALPHA
    variables = (full - 1) * t + partial + t // 3 + chosen
    return full >= needed and 2 * math.log2(math.comb(variables, chosen)) >= m
