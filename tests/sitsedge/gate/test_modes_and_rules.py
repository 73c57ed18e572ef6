"""Modes: down always works, up needs names. Rules: the module can only tighten what the gate allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.command import Mode
from sitsedge.config import ConfigError, load_deployment, load_gate_file
from sitsedge.config.consistency import check
from sitsedge.gate.modes import IncidentLatch, ModeKeeper, ModeRefused, parse_mode
from sitsedge.gate.rules import gate_rules
from sitsedge.modules import Bundle
from tests.sitsedge.conftest import replace


def keeper(ceiling: Mode = Mode.AUTO) -> ModeKeeper:
    return ModeKeeper(ceiling=ceiling, ceiling_reason="for the test")


@pytest.mark.parametrize(
    ("to", "names", "allowed"),
    [
        (Mode.AUTO, [], False),
        (Mode.AUTO, ["anna"], False),
        (Mode.AUTO, ["anna", "anna"], False),
        (Mode.AUTO, ["anna", " anna "], False),
        (Mode.AUTO, ["anna", ""], False),
        (Mode.AUTO, ["anna", "Anna"], False),
        (Mode.AUTO, ["anna", "anna\tb\x1b[2J"], False),
        (Mode.AUTO, ["anna", "x" * 65], False),
        (Mode.AUTO, ["anna", "boris"], True),
        (Mode.SUPERVISED, [], False),
        (Mode.SUPERVISED, ["anna"], True),
        (Mode.ADVISORY, [], False),
        (Mode.ADVISORY, ["anna"], True),
        (Mode.SHADOW, [], True),
    ],
)
def test_going_up_needs_different_names(to: Mode, names: list[str], allowed: bool) -> None:
    modes = keeper()
    if allowed:
        assert modes.change(to, names, "because").after is to
        return
    with pytest.raises(ModeRefused) as caught:
        modes.change(to, names, "because")
    assert caught.value.code == "mode-approval"
    assert modes.mode is Mode.OFF


@given(st.sampled_from(Mode), st.sampled_from(Mode))
def test_going_down_always_works(start: Mode, to: Mode) -> None:
    modes = keeper()
    modes.change(start, ["anna", "boris"], "up")
    if to < start:
        modes.change(to, [], "down")
        assert modes.mode is to
        assert modes.writes == (to in (Mode.SUPERVISED, Mode.AUTO))


def test_the_ceiling_holds_whoever_approves() -> None:
    modes = keeper(Mode.ADVISORY)
    with pytest.raises(ModeRefused) as caught:
        modes.change(Mode.AUTO, ["anna", "boris"], "please")
    assert caught.value.code == "mode-attestation"
    assert modes.change(Mode.ADVISORY, ["anna"], "then this").after is Mode.ADVISORY


def test_confirming_auto_takes_two_names_as_well() -> None:
    modes = keeper()
    modes.change(Mode.AUTO, ["anna", "boris"], "up")
    with pytest.raises(ModeRefused):
        modes.change(Mode.AUTO, ["anna"], "again")
    assert modes.change(Mode.AUTO, ["anna", "boris"], "again").after is Mode.AUTO


def test_an_incident_is_remembered_until_it_is_cleared(tmp_path: Path) -> None:
    latch = IncidentLatch(tmp_path / "incident")
    assert latch.read() is None
    latch.set("first")
    IncidentLatch(tmp_path / "incident").set("second")
    assert IncidentLatch(tmp_path / "incident").read() == "first"
    latch.clear()
    assert latch.read() is None


def test_unknown_mode_is_named() -> None:
    assert parse_mode("auto") is Mode.AUTO
    with pytest.raises(ModeRefused, match="SHADOW"):
        parse_mode("AUTOMATIC")


def test_limits_are_the_tighter_of_gate_and_module(mill: Path, mill_bundle: Bundle) -> None:
    rules = gate_rules(load_gate_file(mill.parent / "gate.yaml"), load_deployment(mill), mill_bundle.config)
    gap = mill_bundle.config.outputs[0]
    assert gap.range[1] > 0.33
    assert rules.outputs[0].high == round(0.33 / gap.scale)  # the gate's limit, not the module's
    assert rules.outputs[0].supervised == (round(-0.1 / gap.scale), round(0.1 / gap.scale))
    wide = replace_limits(mill, "[-0.33, 0.33]", "[-3.0, 3.0]")
    rules = gate_rules(load_gate_file(wide), load_deployment(mill), mill_bundle.config)
    assert rules.outputs[0].high == round(gap.range[1] / gap.scale)
    for rule, signal in zip(rules.inputs, mill_bundle.config.inputs, strict=True):
        assert signal.counts[0] <= rule.low < rule.high <= signal.counts[1]


def test_relations_never_allow_more_than_was_written(mill: Path, mill_bundle: Bundle) -> None:
    gate_path = mill.parent / "gate.yaml"
    gate_path.write_text(
        gate_path.read_text() + "relations:\n  - {terms: {gap_correction: 2.5, speed_trim: -0.1}, bound: 0.3}\n"
    )
    rules = gate_rules(load_gate_file(gate_path), load_deployment(mill), mill_bundle.config)
    gap, trim = (signal.scale for signal in mill_bundle.config.outputs)
    for y0 in range(-700, 701, 7):
        for y1 in (-400, -33, 0, 31, 400):
            allowed = rules.relations[0].left((0,) * 8, (y0, y1)) <= rules.relations[0].bound
            if allowed:
                assert 2.5 * y0 * gap - 0.1 * y1 * trim <= 0.3 + 1e-9


def replace_limits(mill: Path, old: str, new: str) -> Path:
    path = mill.parent / "gate.yaml"
    replace(path, old, new)
    return path


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("deployment.yaml", "roll_force_dev, unit: MN", "roll_force_dev, unit: kN", "module's unit 'MN'"),
        ("deployment.yaml", "name: roll_force_dev", "name: roll_force", "inputs in order"),
        ("gate.yaml", "unit: mm", "unit: um", "module's unit 'mm'"),
        ("gate.yaml", "name: speed_trim", "name: speed", "module's outputs"),
        ("gate.yaml", "[-0.33, 0.33]", "[0.5, 0.6]", "overlap"),
    ],
)  # fmt: skip
def test_units_and_names_must_agree_across_the_files(
    mill: Path, mill_bundle: Bundle, file: str, old: str, new: str, words: str
) -> None:
    replace(mill.parent / file, old, new)
    gate_path = mill.parent / "gate.yaml"
    with pytest.raises(ConfigError) as caught:
        check(
            load_deployment(mill), mill, load_gate_file(gate_path), gate_path,
            inputs=mill_bundle.config.inputs, outputs=mill_bundle.config.outputs,
        )  # fmt: skip
    fault = caught.value.faults[0]
    assert words in str(fault)
    assert fault.file.endswith(file)
    assert fault.line > 1


@pytest.mark.parametrize("to", list(Mode))
def test_who_may_only_step_down_cannot_confirm_or_go_up(to: Mode) -> None:
    modes = keeper()
    modes.mode = Mode.ADVISORY
    if to < Mode.ADVISORY:
        modes.require_down(to)
        return
    with pytest.raises(ModeRefused, match="mode-up"):
        modes.require_down(to)
