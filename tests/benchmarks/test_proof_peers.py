"""``benchmarks/proof_peers.py`` where no peer is installed: our figures, and each missing peer with its reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from attest.proof.prover import kernels
from tests.support.snarkjs import find_snarkjs

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "proof_peers.py"


def run(*arguments: str, path: str = "/nowhere") -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--network", "2-3-1", "--count", "1", "--output", "json", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False, env={"PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


def test_missing_peers_are_named_with_the_reason() -> None:
    data = run()
    assert data["missing"] == {
        "snarkjs": "Node.js is not installed",
        "rapidsnark": "no program rapidsnark (--rapidsnark); no package registry carries it, it is built from source",
        "groth16py": f"{sys.executable} cannot import groth16py (--groth16py-python)",
        "ezkl": f"{sys.executable} cannot import ezkl (--ezkl-python)",
    }
    results = data["results"]
    assert isinstance(results, list)
    assert [result["name"] for result in results] == [f"sits ({name})" for name in kernels("bn254")]
    assert all(0 < result["cpu_ms_min"] <= result["cpu_ms_median"] for result in results)
    assert data["cpu_ratios"] == {}


def test_snarkjs_proves_the_same_constraint_system() -> None:
    snarkjs = find_snarkjs()
    modules = snarkjs.script.parents[2]
    data = run("--node-modules", str(modules), path=str(Path(snarkjs.node).parent))
    assert "snarkjs" not in data["missing"]  # type: ignore[operator]
    (result,) = [r for r in data["results"] if r["name"] == "snarkjs"]  # type: ignore[attr-defined]
    assert result["cpu_ms_median"] > 0
    assert set(data["cpu_ratios"]) == {"snarkjs"}  # type: ignore[call-overload]
