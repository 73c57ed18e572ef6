"""Two independent Groth16 verifiers with one interface.

Both make the checks of evidence §3 in this order and name the one that failed:

1. ``key-hash``       the key is the one the bundle pins
2. ``key-lint``       decodable, γ ≠ ±δ, nothing at infinity or equal to a generator, IC distinct, all in the subgroup
3. ``signal-count``   as many public signals as the key has
4. ``signal-range``   every signal canonical
5. ``proof-point``    canonical points on the curve, in the subgroup, none at infinity
6. ``proof-pairing``  e(A, B) = e(α, β) · e(IC(x), γ) · e(C, δ)

1 and 2 are made once, by the constructor. A proof can be altered without becoming invalid (Groth16 is malleable by
design): what makes a command unique is its signature and sequence number, never the proof's bytes.

The curve (BN254 or BLS12-381) is a property of the key. ``fixed_gamma`` relaxes one rule of the lint, for keys of other
tools' ceremonies: γ may be the generator. No product path sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from attest.proof import signals as sig
from attest.proof.circuit import Curve
from attest.proof.errors import KEY_LINT, PROOF_PAIRING, PROOF_POINT, ProofRefused
from attest.proof.keys import Proof, VerificationKey, key_hash, require_key_hash

if TYPE_CHECKING:
    from attest.proof.pyecc import PreparedKey

Statement = tuple[Sequence[int], Sequence[int], bytes, bytes]
"""(inputs, outputs, ctx, proof), as :meth:`ProofVerifier.verify` takes them."""

_EXPECTED = {
    "signal-count": "as many public signals as the key has",
    "signal-range": "canonical signals: 64-bit values, a ctx of 31 bytes, field elements below r",
    PROOF_POINT: "canonical points on the key's curve, in the subgroup, none at infinity",
    PROOF_PAIRING: "a proof of this statement under this key",
}


class ProofVerifier(Protocol):
    """What the gate, the audit and the command line use."""

    @property
    def vk_sha256(self) -> bytes: ...

    @property
    def curve(self) -> Curve: ...

    @property
    def n_public(self) -> int: ...

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes) -> None:
        """Returns if ``proof`` shows y = M(x) for this command; raises :class:`ProofRefused` otherwise.

        ``inputs`` and ``outputs`` are signed 64-bit integers, ``ctx`` 31 bytes, ``proof`` 128 bytes on BN254, 192 on
        BLS12-381.
        """

    def verify_signals(self, signals: Sequence[int], proof: bytes) -> None:
        """The same on raw public signals, field elements in [0, r)."""

    def verify_batch(self, statements: Sequence[Statement]) -> list[str | None]:
        """Per statement the name of the check that refuses it, ``None`` where it verifies.

        All pairing equations are joined by a random linear combination; only where that fails are they made one by one.
        """


class NativeVerifier:
    """The Rust core: about a millisecond per proof.

    Raises :class:`ProofRefused` (``key-hash``, ``key-lint``). The extension module is loaded on construction, so
    that an auditor without it can still import this package.
    """

    def __init__(self, verification_key: bytes, *, vk_sha256: bytes, fixed_gamma: bool = False) -> None:
        from attest import _native

        require_key_hash(verification_key, vk_sha256)
        self.vk_sha256 = vk_sha256
        try:
            self._native = _native.Verifier(verification_key, fixed_gamma=fixed_gamma)
        except _native.NativeError as error:
            _, detail = error.args
            raise ProofRefused(KEY_LINT, found=detail, expected="a key from an honest setup") from error
        self.curve = VerificationKey.curve_of(verification_key)

    @property
    def n_public(self) -> int:
        return self._native.n_public

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes) -> None:
        self._judge(self._native.verify(inputs, outputs, ctx, proof))

    def verify_signals(self, signals: Sequence[int], proof: bytes) -> None:
        self._judge(self._native.verify_signals(signals, proof))

    def verify_batch(self, statements: Sequence[Statement]) -> list[str | None]:
        return self._native.verify_batch(list(statements))

    @staticmethod
    def _judge(failed: str | None) -> None:
        if failed is not None:
            raise ProofRefused(failed, found="a command that fails this check", expected=_EXPECTED[failed])


class PyEccVerifier:
    """Pure Python (py_ecc): about half a second per proof, and shares no code with the Rust core.

    Raises :class:`ProofRefused` (``key-hash``, ``key-lint``).
    """

    def __init__(self, verification_key: bytes, *, vk_sha256: bytes, fixed_gamma: bool = False) -> None:
        from attest.proof import pyecc

        require_key_hash(verification_key, vk_sha256)
        self.vk_sha256 = vk_sha256
        self._pyecc = pyecc
        self._key: PreparedKey = pyecc.prepare(VerificationKey.decode(verification_key, fixed_gamma=fixed_gamma))

    @property
    def curve(self) -> Curve:
        return self._key.curve

    @property
    def n_public(self) -> int:
        return self._key.n_public

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes) -> None:
        self._check(*self._read(inputs, outputs, ctx, proof))

    def verify_signals(self, signals: Sequence[int], proof: bytes) -> None:
        sig.require_count(len(signals), self.n_public)
        sig.require_canonical(signals, curve=self.curve)
        self._check(signals, self._point(proof))

    def verify_batch(self, statements: Sequence[Statement]) -> list[str | None]:
        failed: list[str | None] = []
        readable: list[tuple[int, Sequence[int], Proof]] = []
        for i, statement in enumerate(statements):
            try:
                readable.append((i, *self._read(*statement)))
            except ProofRefused as refusal:
                failed.append(refusal.code)
            else:
                failed.append(None)
        if readable and not self._pyecc.batch_holds(self._key, [(signals, proof) for _, signals, proof in readable]):
            for i, signals, proof in readable:
                if not self._pyecc.pairing_holds(self._key, signals, proof):
                    failed[i] = PROOF_PAIRING
        return failed

    def _read(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes) -> tuple[list[int], Proof]:
        """Checks 3 to 5."""
        signals = sig.to_signals(inputs, outputs, ctx, n_public=self.n_public, curve=self.curve)
        return signals, self._point(proof)

    def _point(self, proof: bytes) -> Proof:
        decoded = Proof.decode(proof, self.curve)
        self._pyecc.require_subgroup(self.curve, decoded)
        return decoded

    def _check(self, signals: Sequence[int], proof: Proof) -> None:
        if not self._pyecc.pairing_holds(self._key, signals, proof):
            raise ProofRefused(
                PROOF_PAIRING, found="a pairing equation that does not hold", expected=_EXPECTED[PROOF_PAIRING]
            )


def failed_check(
    verifier: ProofVerifier, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes
) -> str | None:
    """The name of the check that refuses, ``None`` if the proof verifies."""
    try:
        verifier.verify(inputs, outputs, ctx, proof)
    except ProofRefused as refusal:
        return refusal.code
    return None


__all__ = ["NativeVerifier", "ProofVerifier", "PyEccVerifier", "failed_check", "key_hash"]
