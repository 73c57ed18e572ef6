"""``sits-prover``: proofs that do not fit the loop, made beside it from a queue on disk."""
