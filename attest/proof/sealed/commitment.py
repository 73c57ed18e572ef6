"""The salted commitment of a sealed statement: Poseidon2 as a sponge over the salt and the packed inputs.

    capacity = "sits-sealed-1" ‖ u32 number of inputs, as a big-endian integer
    elements = salt (31 bytes, big-endian), then 15 inputs each: Σ (x_i + 2^15) · 2^(16·i)

Two elements are added to the state before each permutation, an odd one with zero; the first word is the commitment. The
length stands in the capacity, so that padding is unambiguous. Inputs of a control loop are few and move little: without
a salt anybody could try them all, so none of the functions here takes a commitment's salt as optional.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from operator import index
from typing import Final

from attest.proof.circuit import SIGNALS_MAX, Curve
from attest.proof.poseidon2 import SCALAR_MODULUS, State, permute
from attest.proof.sealed.errors import SealedError

SALT_BYTES: Final = 31
"""248 bits: always below r, and more than the 128 bits that hide anything."""
INPUT_MIN: Final = -(1 << 15)
INPUT_MAX: Final = (1 << 15) - 1
"""Inputs are int16 (evidence rules §1); the compiler's models take nothing wider."""
INPUT_BITS: Final = 16
INPUTS_PER_ELEMENT: Final = 15
"""240 bits: below r on both curves, so that equal elements mean equal inputs."""
RATE: Final = 2
TAG: Final = b"sits-sealed-1"


class Salt:
    """31 bytes that hide one command's inputs; :meth:`take` gives them out once for proving.

    Kept in a buffer of its own that :meth:`erase` overwrites; never printed.
    """

    __slots__ = ("_bytes", "_taken")

    def __init__(self, data: bytes) -> None:
        """Raises :class:`SealedError`: ``unsalted`` for no or constant bytes, ``salt-length``."""
        if not data or len(set(data)) == 1:
            raise SealedError("unsalted", found="no salt or one repeated byte", expected=f"{SALT_BYTES} random bytes")
        if len(data) != SALT_BYTES:
            raise SealedError("salt-length", found=f"{len(data)} bytes", expected=f"{SALT_BYTES}")
        self._bytes = bytearray(data)
        self._taken = False

    @classmethod
    def generate(cls) -> Salt:
        """From the operating system's generator."""
        return cls(secrets.token_bytes(SALT_BYTES))

    def __repr__(self) -> str:
        return "Salt(…)"

    def take(self) -> bytes:
        """The bytes, for the one proof they may serve; raises :class:`SealedError` (``salt-reused``) the next time."""
        if self._taken:
            raise SealedError(
                "salt-reused", found="a salt that served a proof", expected="a fresh salt for every command"
            )
        self._taken = True
        return bytes(self._bytes)

    def reveal(self) -> bytes:
        """The bytes, for an opening."""
        return bytes(self._bytes)

    def erase(self) -> None:
        """Overwrites the buffer; the salt is then spent."""
        self._taken = True
        for i in range(len(self._bytes)):
            self._bytes[i] = 0


def capacity(n_inputs: int) -> int:
    """The sponge's start value for this many inputs."""
    return int.from_bytes(TAG + n_inputs.to_bytes(4, "big"), "big")


def pack(inputs: Sequence[int]) -> tuple[int, ...]:
    """Inputs as field elements, 15 in each. Raises :class:`SealedError` (``input-count``, ``input-range``)."""
    if not 1 <= len(inputs) <= SIGNALS_MAX:
        raise SealedError("input-count", found=f"{len(inputs)} inputs", expected=f"1 to {SIGNALS_MAX}")
    for i, value in enumerate(inputs):
        if not INPUT_MIN <= index(value) <= INPUT_MAX:
            raise SealedError("input-range", found=f"input {i} = {value}", expected=f"{INPUT_MIN} to {INPUT_MAX}")
    groups = (inputs[at : at + INPUTS_PER_ELEMENT] for at in range(0, len(inputs), INPUTS_PER_ELEMENT))
    return tuple(sum((x - INPUT_MIN) << (INPUT_BITS * i) for i, x in enumerate(group)) for group in groups)


def commit(inputs: Sequence[int], salt: Salt, curve: Curve) -> int:
    """The commitment, a field element of ``curve``. Raises :class:`SealedError`."""
    return sponge((int.from_bytes(salt.reveal(), "big"), *pack(inputs)), len(inputs), curve)


def sponge(elements: Sequence[int], n_inputs: int, curve: Curve) -> int:
    """The hash of salt and packed inputs, for :func:`commit` and the reference witness."""
    modulus = SCALAR_MODULUS[curve]
    state: State = (0, 0, capacity(n_inputs))
    for at in range(0, len(elements), RATE):
        block = (*elements[at : at + RATE], 0)
        state = permute(((state[0] + block[0]) % modulus, (state[1] + block[1]) % modulus, state[2]), curve)
    return state[0]
