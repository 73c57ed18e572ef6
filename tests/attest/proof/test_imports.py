"""An auditor imports the verifiers without the native extension and without anything that talks to a device."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = ("attest._native", "tpm2_pytss", "asyncua", "wasmtime", "py_ecc", "attest.tpm", "sitsedge", "fieldbus")


def test_import_loads_nothing_it_must_not() -> None:
    code = f"import sys, attest.proof, attest.proof.snarkjs; print([m for m in {FORBIDDEN!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pyecc_verifier_works_without_the_native_extension() -> None:
    code = (
        "import sys; sys.modules['attest._native'] = None\n"
        "from attest.proof import NativeVerifier, ProofRefused, PyEccVerifier\n"
        "for engine in (PyEccVerifier, NativeVerifier):\n"
        "    try:\n"
        "        engine(b'', vk_sha256=bytes(32))\n"
        "    except ProofRefused as refusal:\n"
        "        print(refusal.code)\n"
        "    except ImportError:\n"
        "        print('no extension')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["key-hash", "no extension"]


def test_loading_py_ecc_leaves_the_recursion_limit_alone() -> None:
    """py_ecc raises it to 100,000; nested JSON from a stranger then overflows the C stack."""
    code = (
        "import sys; before = sys.getrecursionlimit(); import attest.proof.pyecc\n"
        "print(sys.getrecursionlimit() == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
