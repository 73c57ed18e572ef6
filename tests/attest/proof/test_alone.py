"""A third party's machine: every package but cryptography and py_ecc (with what they need) cannot be imported there.

The Rust core, the device libraries and the appliance are among the missing. Both command lines of a verifier then do
real work in a process of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest

from attest.proof import Curve, key_hash, snarkjs
from attest.proof.__main__ import main
from tests.attest.ledger.scenario import whole
from tests.attest.proof.trapdoor import Trapdoor

ALONE = r"""
import importlib.abc, json, runpy, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if name == "attest._native" or not (top in sys.stdlib_module_names or top in ALLOWED or top == "attest"):
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

ALLOWED = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Nothing())
for name in sys.argv[2].split():
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{name} can be imported, so this shows nothing")
sys.argv[:] = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
MISSING = "attest._native numpy pydantic_settings asyncua tpm2_pytss wasmtime onnx onnxruntime typer sitsedge fieldbus"
EXTRA = ("cryptography", "py-ecc")


def importable() -> list[str]:
    """Top-level modules of the extra ``verify`` and all that it requires."""
    wanted, todo = set(), list(EXTRA)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in wanted:
            continue
        wanted.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # for another Python or system
            continue
        todo += [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in lines if "extra ==" not in line]
    owners = packages_distributions().items()
    return [top for top, names in owners if any(re.sub(r"[-_.]+", "-", n).lower() in wanted for n in names)]


def alone(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps(importable()), MISSING, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@cache
def command(curve: Curve, gamma: int) -> tuple[Trapdoor, str, str, str]:
    """A key with its secrets; key, public signals and proof of one true statement in the snarkjs layout."""
    trapdoor = Trapdoor.make(curve, 2)
    trapdoor = replace(trapdoor, gamma=gamma or trapdoor.gamma)
    key = snarkjs.export_verification_key(trapdoor.key().encode(), fixed_gamma=True)
    proof = snarkjs.export_proof(trapdoor.prove([5, 7]), curve=curve)
    return trapdoor, key, snarkjs.export_public([5, 7], curve=curve), proof


def write_command(folder: Path, curve: Curve, *, gamma: int = 0) -> tuple[Path, Path, Path, Trapdoor]:
    paths = folder / "verification_key.json", folder / "public.json", folder / "proof.json"
    trapdoor, *texts = command(curve, gamma)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return *paths, trapdoor


@pytest.mark.parametrize("curve", list(Curve), ids=[curve.text for curve in Curve])
def test_a_proof_is_verified_with_files_alone(tmp_path: Path, curve: Curve) -> None:
    key, public, proof, trapdoor = write_command(tmp_path, curve)
    files = ("--key", key, "--public", public, "--proof", proof)
    digest = key_hash(trapdoor.key().encode()).hex()
    code, said = alone("attest.proof", "verify", *files, "--key-sha256", digest)
    assert (code, said["ok"], said["curve"], said["signals"], said["pinned"]) == (0, True, curve.text, 2, True)
    assert said["vk_sha256"] == digest


def test_an_audit_runs_with_files_alone(tmp_path: Path) -> None:
    whole(tmp_path, commands=2)
    code, said = alone("attest.ledger", tmp_path, "--proofs", "1")
    assert (code, said["ok"], said["proofs_checked"], said["engine"]) == (0, True, 1, "py-ecc")


class Verify:
    """The command in this process, with everything installed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
        try:
            code = main(["verify", *map(str, arguments)])
        except SystemExit as usage:
            return (usage.code if isinstance(usage.code, int) else -1), {}
        return code, json.loads(self._capsys.readouterr().out)


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    return Verify(capsys)


def test_binary_files_and_the_native_engine(verify: Verify, tmp_path: Path) -> None:
    _, public, _, trapdoor = write_command(tmp_path, Curve.BN254)
    key, proof = tmp_path / "key.bin", tmp_path / "proof.bin"
    key.write_bytes(trapdoor.key().encode())
    proof.write_bytes(trapdoor.prove([5, 7]))
    code, said = verify("--key", key, "--public", public, "--proof", proof, "--unpinned", "--engine", "native")
    assert (code, said["ok"], said["pinned"]) == (0, True, False)
    proof.write_bytes(trapdoor.prove([5, 8]))
    code, said = verify("--key", key, "--public", public, "--proof", proof, "--unpinned", "--engine", "native")
    assert (code, said["failed"]) == (1, "proof-pairing")


@pytest.mark.parametrize(
    ("name", "content", "failed"),
    [
        ("verification_key.json", "{}", "snarkjs-layout"),
        ("verification_key.json", "", "key-lint"),
        ("verification_key.json", "[" * 300_000, "snarkjs-layout"),
        ("public.json", "[1]", "snarkjs-layout"),
        ("public.json", '["5", "7", "0"]', "signal-count"),
        ("public.json", "\xff", "snarkjs-layout"),
        ("proof.json", "{}", "snarkjs-layout"),
        ("proof.json", "", "proof-point"),
        ("proof.json", " " * 2_000_000, "proof-point"),
    ],
)
def test_what_is_wrong_is_named(verify: Verify, tmp_path: Path, name: str, content: str, failed: str) -> None:
    key, public, proof, _ = write_command(tmp_path, Curve.BN254)
    (tmp_path / name).write_text(content, encoding="latin-1")
    code, said = verify("--key", key, "--public", public, "--proof", proof, "--unpinned")
    assert (code, said["ok"], said["failed"]) == (1, False, failed)


def test_another_key_than_the_pinned_one(verify: Verify, tmp_path: Path) -> None:
    key, public, proof, _ = write_command(tmp_path, Curve.BN254)
    code, said = verify("--key", key, "--public", public, "--proof", proof, "--key-sha256", "00" * 32)
    assert (code, said["failed"]) == (1, "key-hash")


def test_the_hash_is_checked_before_the_lint(verify: Verify, tmp_path: Path) -> None:
    key, public, proof, trapdoor = write_command(tmp_path, Curve.BN254, gamma=1)
    files = ("--key", key, "--public", public, "--proof", proof)
    assert verify(*files, "--key-sha256", "00" * 32)[1]["failed"] == "key-hash"
    assert verify(*files, "--key-sha256", key_hash(trapdoor.key().encode()).hex())[1]["failed"] == "key-lint"


def test_a_proof_on_the_other_curve(verify: Verify, tmp_path: Path) -> None:
    key, public, _, _ = write_command(tmp_path, Curve.BN254)
    other = tmp_path / "other"
    other.mkdir()
    _, _, proof, _ = write_command(other, Curve.BLS12_381)
    code, said = verify("--key", key, "--public", public, "--proof", proof, "--unpinned")
    assert (code, said["failed"]) == (1, "proof-point")


def test_the_generator_as_gamma_only_when_asked(verify: Verify, tmp_path: Path) -> None:
    key, public, proof, _ = write_command(tmp_path, Curve.BN254, gamma=1)
    files = ("--key", key, "--public", public, "--proof", proof, "--unpinned")
    assert verify(*files)[1]["failed"] == "key-lint"
    assert verify(*files, "--fixed-gamma")[0] == 0


@pytest.mark.parametrize(
    "arguments", [[], ["--unpinned", "--key-sha256", "00" * 32], ["--key-sha256", "00"], ["--key-sha256", "zz" * 32]]
)
def test_a_key_is_pinned_or_said_not_to_be(verify: Verify, tmp_path: Path, arguments: list[str]) -> None:
    key, public, proof, _ = write_command(tmp_path, Curve.BN254)
    assert verify("--key", key, "--public", public, "--proof", proof, *arguments)[0] == 2


def test_a_missing_file_is_a_usage_error(verify: Verify, tmp_path: Path) -> None:
    key, public, _, _ = write_command(tmp_path, Curve.BN254)
    code, said = verify("--key", key, "--public", public, "--proof", tmp_path / "none", "--unpinned")
    assert (code, said["failed"]) == (2, "file-missing")
