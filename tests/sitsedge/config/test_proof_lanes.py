"""Inline, deferred or off: what deployment and gate file may say together, one case for each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.command import ProofPolicy
from sitsedge.config import ConfigError, load_deployment, load_gate_file
from sitsedge.config.consistency import check
from sitsedge.gate.rules import gate_rules
from sitsedge.modules import Bundle
from tests.sitsedge.conftest import replace


def lane(mill: Path, *, loop: str, gate: str) -> None:
    replace(mill, "  proof: inline", f"  proof: {loop}")
    replace(mill.parent / "gate.yaml", "proof: inline", f"proof: {gate}")


def checked(mill: Path, bundle: Bundle) -> None:
    gate_path = mill.parent / "gate.yaml"
    module = bundle.config
    check(
        load_deployment(mill), mill, load_gate_file(gate_path), gate_path, inputs=module.inputs, outputs=module.outputs
    )


@pytest.mark.parametrize(
    ("loop", "gate"),
    [("inline", "inline"), ("inline", "deferred"), ("deferred", "deferred"), ("off", "off"), ("inline", "off")],
)
def test_lanes_that_go_together(mill: Path, mill_bundle: Bundle, loop: str, gate: str) -> None:
    lane(mill, loop=loop, gate=gate)
    checked(mill, mill_bundle)


@pytest.mark.parametrize(
    ("loop", "gate"), [("deferred", "inline"), ("off", "inline"), ("off", "deferred"), ("deferred", "off")]
)
def test_a_loop_that_does_not_make_what_the_gate_demands(mill: Path, mill_bundle: Bundle, loop: str, gate: str) -> None:
    lane(mill, loop=loop, gate=gate)
    with pytest.raises(ConfigError, match=f"cycle.proof.*'{loop}'.*demands '{gate}'"):
        checked(mill, mill_bundle)


@pytest.mark.parametrize("key", ["proof_deadline_ms", "proof_backlog_max"])
def test_limits_beyond_the_gate_s(mill: Path, mill_bundle: Bundle, key: str) -> None:
    lane(mill, loop=f"deferred\n  {key}: 501", gate=f"deferred\n{key}: 500")
    with pytest.raises(ConfigError, match=f"cycle.{key}.*501.*at most the gate's 500"):
        checked(mill, mill_bundle)


@pytest.mark.parametrize(
    "line", ["proof_deadline_ms: 0", "proof_deadline_ms: 86400001", "proof_backlog_max: 0", "proof_backlog_max: 1.5"]
)
def test_limits_out_of_range(mill: Path, line: str) -> None:
    replace(mill, "  proof: inline", f"  proof: deferred\n  {line}")
    replace(mill.parent / "gate.yaml", "proof: inline", f"proof: deferred\n{line}")
    with pytest.raises(ConfigError, match="proof_"):
        load_deployment(mill)
    with pytest.raises(ConfigError, match="proof_"):
        load_gate_file(mill.parent / "gate.yaml")


def test_production_takes_either_lane_and_never_none(mill: Path, mill_bundle: Bundle) -> None:
    text = mill.read_text(encoding="utf-8")
    text = text[: text.index("simulation:")].replace("allow_simulated: true", "allow_simulated: false")
    text = text.replace("  fields:", "  unsecured_because: a test has no network\n  fields:")
    mill.write_text(text.replace("profile: development", "profile: production"), encoding="utf-8")
    checked(mill, mill_bundle)
    lane(mill, loop="deferred", gate="deferred")
    checked(mill, mill_bundle)
    replace(mill, "proof: deferred", "proof: inline")
    replace(mill.parent / "gate.yaml", "proof: deferred", "proof: off")
    with pytest.raises(ConfigError, match="production"):
        checked(mill, mill_bundle)


def test_the_gate_s_rules_pin_its_own_limits(mill: Path, mill_bundle: Bundle) -> None:
    lane(mill, loop="deferred", gate="deferred\nproof_deadline_ms: 90000\nproof_backlog_max: 9000")
    rules = gate_rules(load_gate_file(mill.parent / "gate.yaml"), load_deployment(mill), mill_bundle.config)
    assert rules.proof_policy is ProofPolicy.DEFERRED
    assert (rules.proof_deadline_ms, rules.proof_backlog_max) == (90_000, 9_000)
