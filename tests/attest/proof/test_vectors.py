"""The verifier's vectors in files: complete, of their schema, and judged by both engines as they say."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from attest.proof import CHECKS, NativeVerifier, ProofRefused, PyEccVerifier
from attest.proof.keys import VerificationKey
from tests.attest.proof.make_vectors import VECTORS, everything

FILES = {str(path.relative_to(VECTORS)): path for path in sorted(VECTORS.glob("*/*.json"))}
KEYS = {"schema", "comment", "result", "code", "curve", "key", "vk_sha256", "fixed_gamma", "signals", "proof"}
SLOW_IN_PYTHON = "pairing-"
"""Half a second each in py_ecc; the traps and the verifiers' tests make its pairing check on other false statements."""


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(FILES[name].read_text(encoding="utf-8"))
    assert set(vector) == KEYS, "a key missing or unknown"
    assert vector["schema"] == "sits-verify-1"
    assert (vector["result"], vector["code"] is None) in (("valid", True), ("invalid", False))
    return vector


def test_the_files_are_what_the_program_makes() -> None:
    made = everything()
    assert set(FILES) == set(made)
    assert all(FILES[name].read_text(encoding="utf-8") == text for name, text in made.items())


@pytest.mark.parametrize("curve", ["bn254", "bls12-381"])
def test_every_check_has_a_vector(curve: str) -> None:
    assert {load(name)["code"] for name in FILES if name.startswith(curve)} == {None, *CHECKS}


Engine = type[NativeVerifier] | type[PyEccVerifier]


@cache
def make(engine: Engine, key: str, pinned: str, fixed_gamma: bool) -> NativeVerifier | PyEccVerifier:
    """Most vectors share their key, and py_ecc takes long to check one."""
    return engine(bytes.fromhex(key), vk_sha256=bytes.fromhex(pinned), fixed_gamma=fixed_gamma)


def verdict(engine: Engine, vector: dict[str, Any]) -> str | None:
    try:
        verifier = make(engine, vector["key"], vector["vk_sha256"], vector["fixed_gamma"])
        verifier.verify_signals([int(signal) for signal in vector["signals"]], bytes.fromhex(vector["proof"]))
    except ProofRefused as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize("name", FILES)
def test_native_verdict(name: str) -> None:
    vector = load(name)
    assert verdict(NativeVerifier, vector) == vector["code"]


@pytest.mark.parametrize("name", [name for name in FILES if SLOW_IN_PYTHON not in name])
def test_py_ecc_verdict(name: str) -> None:
    vector = load(name)
    assert verdict(PyEccVerifier, vector) == vector["code"]


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("/valid.json")])
def test_the_key_encodes_back(name: str) -> None:
    vector = load(name)
    key = VerificationKey.decode(bytes.fromhex(vector["key"]))
    assert (key.curve.text, key.encode().hex()) == (vector["curve"], vector["key"])
