"""``python -m attest.proof verify``: one proof checked with files alone, without the appliance or the Rust core.

Takes the snarkjs layout (``verification_key.json``, ``public.json``, ``proof.json``) or the binary key and proof.
Prints one JSON object. Exit codes: 0 verifies, 1 refused, 2 wrong usage or an unreadable file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from attest import jsontext
from attest.errors import AttestError
from attest.files import FileError, named, wrong_use
from attest.proof import snarkjs
from attest.proof.errors import PROOF_POINT, ProofRefused
from attest.proof.keys import VerificationKey, key_hash
from attest.proof.verifier import NativeVerifier, PyEccVerifier

FILE_BYTES_MAX: Final = snarkjs.TEXT_CHARS_MAX
_HASH_CHARS: Final = 64


def main(argv: list[str] | None = None) -> int:
    """Verify one proof; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        key_file, public_file, proof_file = (_read(path) for path in (arguments.key, arguments.public, arguments.proof))
    except FileError as error:
        print(jsontext.dumps(wrong_use(error), ensure_ascii=False))
        return 2
    result: dict[str, Any] = {"ok": False, "failed": None, "engine": arguments.engine, "pinned": not arguments.unpinned}
    try:
        result |= _verify(arguments, key_file, public_file, proof_file)
    except AttestError as error:
        result |= {"failed": error.code, "found": error.found, "expected": error.expected}
    print(jsontext.dumps(result, ensure_ascii=False))
    return 0 if result["ok"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attest.proof", description="check one Groth16 proof")
    verify = parser.add_subparsers(required=True).add_parser("verify", help="key, public signals and proof from files")
    verify.add_argument("--key", type=Path, required=True, help="verification_key.json, or the binary key")
    verify.add_argument("--public", type=Path, required=True, help="public.json")
    verify.add_argument("--proof", type=Path, required=True, help="proof.json, or the binary proof")
    pin = verify.add_mutually_exclusive_group(required=True)
    pin.add_argument("--key-sha256", type=_digest, help="what the bundle pins: SHA-256 of the binary key, hex")
    pin.add_argument("--unpinned", action="store_true", help="trust the key file as it is; the result says so")
    verify.add_argument("--engine", choices=("py-ecc", "native"), default="py-ecc", help="py-ecc needs no Rust core")
    verify.add_argument(
        "--fixed-gamma", action="store_true", help="accept a key of another tool whose gamma is the generator"
    )
    return parser


def _digest(text: str) -> bytes:
    if len(text) != _HASH_CHARS:
        raise argparse.ArgumentTypeError(f"{len(text)} characters, expected {_HASH_CHARS} of hex")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise argparse.ArgumentTypeError("not hex") from None


def _read(path: Path) -> bytes:
    with named(path), path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _verify(arguments: argparse.Namespace, key_file: bytes, public_file: bytes, proof_file: bytes) -> dict[str, Any]:
    fixed_gamma = bool(arguments.fixed_gamma)
    key = key_file
    if _is_json(key_file):
        key = snarkjs.read_verification_key(_text(key_file)).encode()  # linted after its hash, by the verifier
    found = key_hash(key)
    make = PyEccVerifier if arguments.engine == "py-ecc" else NativeVerifier
    pinned = found if arguments.unpinned else arguments.key_sha256
    verifier = make(key, vk_sha256=pinned, fixed_gamma=fixed_gamma)
    curve = VerificationKey.curve_of(key)
    signals = snarkjs.import_public(_text(public_file), curve=curve)
    proof = proof_file
    if _is_json(proof_file):
        stated, proof = snarkjs.import_proof(_text(proof_file))
        if stated is not curve:
            raise ProofRefused(PROOF_POINT, found=f"a proof on {stated.text}", expected=f"the key's curve {curve.text}")
    verifier.verify_signals(signals, proof)
    return {"ok": True, "curve": curve.text, "signals": len(signals), "vk_sha256": found.hex()}


def _is_json(data: bytes) -> bool:
    return data[:1] in (b"{", b"[")


def _text(data: bytes) -> str:
    """ASCII or nothing: the layout is made of digits and known names."""
    return data.decode("ascii", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
