"""``sitsctl module delta|import|remove|list`` from the publisher's bundles to the device's store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner, Result

from sitsedge.cli.main import app
from sitsedge.cli.output import Exit
from sitsedge.config import load_deployment
from sitsedge.supervisor.prepare import ensure_module
from sitsedge.supervisor.state import StateDir
from tests.sitsedge.conftest import replace
from tests.sitsedge.modules import deltas


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    """A folder with ``old``, ``new``, the publisher's key ``pub.pem`` and a device's state folder ``state``."""
    deltas.make_pair(tmp_path)
    public = deltas.SIGNER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    state = StateDir(tmp_path / "state")
    state.create()
    for path in (tmp_path / "pub.pem", state.trust / "publisher.pub"):
        path.write_bytes(public)
    return tmp_path


def sitsctl(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in ("module", *arguments)])


def delta(plant: Path, *more: str, base: str = "old") -> Result:
    places = ("--base", plant / base, "--new", plant / "new", "--out", plant / "delta.sits")
    return sitsctl("delta", *places, "--trust", plant / "pub.pem", *more)


def test_from_two_bundles_to_the_device_s_store(plant: Path) -> None:
    state = ("--state-dir", plant / "state")
    made = delta(plant, "--output", "json")
    assert made.exit_code == Exit.OK, made.output
    data = json.loads(made.stdout)
    assert data["bytes"] == (plant / "delta.sits").stat().st_size
    assert list(data["patched"]) == ["wasm", "circuit", "report"]
    assert sitsctl("import", plant / "old", *state).exit_code == Exit.OK
    imported = sitsctl("import", plant / "delta.sits", *state)
    assert imported.stdout == f"module {data['digest']} is in the store\n"
    listed = json.loads(sitsctl("list", *state, "--output", "json").stdout)
    assert set(listed["modules"]) == {data["base"], data["digest"]}
    assert sitsctl("remove", data["base"], *state).exit_code == Exit.OK
    assert data["digest"] in sitsctl("list", *state).stdout
    assert sitsctl("remove", data["base"], *state).exit_code == Exit.USAGE


def test_the_text_names_every_layer_with_its_bytes(plant: Path) -> None:
    lines = delta(plant).stdout.splitlines()
    words = [line.split()[:2] for line in lines[2:-1]]
    assert words == [
        ["wasm_relaxed", "kept"],
        ["integer_onnx", "kept"],
        ["proving_key", "kept"],
        ["verification_key", "kept"],
        ["limits", "kept"],
        ["report_html", "kept"],
        ["wasm", "patched"],
        ["circuit", "patched"],
        ["report", "patched"],
    ]
    assert "bytes instead of" in lines[-1]


@pytest.mark.parametrize(
    ("case", "code", "word"),
    [
        ("same", Exit.USAGE, "delta-same"),
        ("taken", Exit.ENVIRONMENT, "output-exists"),
        ("no-base", Exit.ENVIRONMENT, "import the base first"),
        ("not-a-digest", Exit.USAGE, "64 lower-case hex digits"),
        ("inspect", Exit.ENVIRONMENT, "sitsctl module import"),
    ],
)
def test_what_cannot_be_done_says_why(plant: Path, case: str, code: Exit, word: str) -> None:
    if case == "same":
        done = delta(plant, base="new")
    elif case == "not-a-digest":
        done = sitsctl("remove", "../old", "--state-dir", plant / "state")
    else:
        assert delta(plant).exit_code == Exit.OK
        if case == "taken":
            done = delta(plant)
        elif case == "no-base":
            done = sitsctl("import", plant / "delta.sits", "--state-dir", plant / "state")
        else:
            sitsctl("delta", "--base", plant / "old", "--new", plant / "new", "--out", plant / "d",
                    "--trust", plant / "pub.pem")  # fmt: skip
            done = sitsctl("inspect", plant / "d", "--trust", plant / "pub.pem")
    assert done.exit_code == code, done.output
    assert word in done.stderr


def test_a_deployment_may_name_a_delta_as_its_bundle(plant: Path, mill: Path) -> None:
    """At the first start the base comes from the store, at the next the module itself does."""
    assert delta(plant).exit_code == Exit.OK
    state = StateDir(plant / "state")
    assert sitsctl("import", plant / "old", "--state-dir", state.root).exit_code == Exit.OK
    model = "  onnx: model.onnx\n  calibration: calibration.csv\n  limits: limits.yaml\n"
    replace(mill, model, f"  bundle: {plant / 'delta.sits'}\n")
    deployment = load_deployment(mill)
    first = ensure_module(deployment, mill, state, say=lambda _: None)
    listed = json.loads(sitsctl("list", "--state-dir", state.root, "--output", "json").stdout)
    assert listed["active"] == first.digest.hex()
    base = next(digest for digest in listed["modules"] if digest != listed["active"])
    assert sitsctl("remove", base, "--state-dir", state.root).exit_code == Exit.OK
    assert ensure_module(deployment, mill, state, say=lambda _: None) == first
