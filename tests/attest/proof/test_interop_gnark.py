"""gnark's verifier accepts our proofs under our exported keys, refuses them altered, and encodes points as we do."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.proof import Groth16Prover, snarkjs
from attest.proof.signals import to_signals
from tests.attest.proof.bad_points import bad_proofs, negated
from tests.attest.proof.support import CTX, Toy, model
from tests.support.gnark import gnark_verdicts

X = (3, -5)
Y = (model(X),)


def write_command(folder: Path, toy: Toy, signals: list[int], proof: bytes, *, binary: bytes | None = None) -> Path:
    folder.mkdir()
    key = snarkjs.export_verification_key(toy.verification_key)
    (folder / "verification_key.json").write_text(key, encoding="utf-8")
    (folder / "public.json").write_text(snarkjs.export_public(signals, curve=toy.curve), encoding="utf-8")
    (folder / "proof.json").write_text(snarkjs.export_proof(proof, curve=toy.curve), encoding="utf-8")
    (folder / "proof.bin").write_bytes(proof if binary is None else binary)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_gnark_verifies_our_proofs_and_refuses_them_altered(toy: Toy, prover: Groth16Prover, tmp_path: Path) -> None:
    proof, other = (prover.prove(X, CTX).proof for _ in range(2))
    signals = to_signals(X, Y, CTX, n_public=4, curve=toy.curve)
    wrong = [*signals[:2], signals[2] + 1, signals[3]]
    c_at = toy.it.g1_bytes + toy.it.g2_bytes
    outside = bad_proofs(proof, toy.curve)["b-outside-subgroup"]
    said = gnark_verdicts(
        write_command(tmp_path / "honest", toy, signals, proof),
        write_command(tmp_path / "malleated", toy, signals, negated(proof, toy.curve)),
        write_command(tmp_path / "output", toy, wrong, proof),
        write_command(tmp_path / "count", toy, signals[:-1], proof),
        write_command(tmp_path / "mixed", toy, signals, proof[:c_at] + other[c_at:]),
        write_command(tmp_path / "subgroup", toy, signals, outside),
        write_command(tmp_path / "encoding", toy, signals, proof, binary=other),
    )
    assert [line.partition(":")[0] for line in said] == ["ok", "ok", *["refused"] * 5]
    assert said[-1] == "refused: proof.bin is another encoding"
