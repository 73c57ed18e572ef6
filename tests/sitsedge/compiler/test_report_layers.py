"""The report's layers: errors as an independent calculation gives them, formats with the reason for them, pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pycddl
import pytest

from sitsedge.compiler import report_layers
from sitsedge.compiler.calibration import Calibration
from sitsedge.compiler.graph.float_run import run_all
from sitsedge.compiler.graph.reference import values
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.quantiser.reasons import FIXED, TABLE_ARGUMENT
from sitsedge.compiler.quantiser.search import Prefer, quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.report_figures import SHOWN_MAX, layer_pictures
from sitsedge.compiler.report_layers import describe_layers
from sitsedge.modules import strict_json
from tests.sitsedge.compiler.quantiser.float_nets import Case, classifier, mlp_tanh
from tests.sitsedge.compiler.quantiser.test_quantise_graph import FIT_ROWS, mlp, relu_cnn

SCHEMA = pycddl.Schema(Path(report_layers.__file__).with_name("report-layers.cddl").read_text())
LOOSE = Goal(0.05, 0.3)


@cache
def found(name: str, goal: Goal = LOOSE, prefer: Prefer = "rows") -> tuple[Case, QuantisedGraph]:
    made = {"cnn": relu_cnn, "chain": mlp, "tables": mlp_tanh, "classifier": classifier}[name](3)
    rows = made.counts[:FIT_ROWS], made.raw[:FIT_ROWS]
    return made, quantise_graph(
        made.graph, made.scales, *rows, goal=goal, prefer=prefer, class_output=name == "classifier"
    )


def layers(made: Case, quantised: QuantisedGraph, held: int | None = None) -> list[dict[str, Any]]:
    end = None if held is None else FIT_ROWS + held
    parts = made.raw[:FIT_ROWS], made.counts[:FIT_ROWS], made.raw[FIT_ROWS:end], made.counts[FIT_ROWS:end]
    return describe_layers(quantised, Calibration(*parts, len(made.raw), 0), {"t2": 12, "l0": 12})


def test_errors_are_counts_times_their_unit_less_the_float_value_in_units_of_the_range() -> None:
    made, quantised = found("cnn")
    described = {entry["name"]: entry for entry in layers(made, quantised)}
    rows = made.raw[FIT_ROWS:].reshape(-1, *made.graph.input.shape)
    wanted = run_all(made.graph, rows)["t2"]
    span = float(np.ptp(run_all(made.graph, made.raw[:FIT_ROWS].reshape(-1, *made.graph.input.shape))["t2"]))
    error = (values(quantised.graph, made.counts[FIT_ROWS:])["t2"] * quantised.real["t2"] - wanted) / span
    entry = described["t2"]["error"]["held_out"]
    assert entry["rows"] == len(made.raw) - FIT_ROWS
    assert entry["rms"] == pytest.approx(np.sqrt((error**2).mean()))
    assert entry["max"] == pytest.approx(np.abs(error).max())
    assert sum(entry["figure"]["error"]) == error.size
    assert 0 < entry["rms"] <= entry["max"] < 0.2


@pytest.mark.parametrize("name", ["cnn", "chain", "tables", "classifier"])
def test_every_value_of_the_float_network_has_an_entry_in_order(name: str) -> None:
    made, quantised = found(name)
    described = layers(made, quantised)
    order = [node.name for node in quantised.graph.nodes]
    assert [order.index(entry["name"]) for entry in described] == sorted(
        order.index(entry["name"]) for entry in described
    )
    assert {entry["name"] for entry in described} >= set(quantised.formats) - {quantised.graph.output}
    assert all(entry["why"] for entry in described)
    assert all(entry["range"][0] <= entry["range"][1] for entry in described)
    assert {entry["kind"] for entry in described} <= {"Dense", "Conv", "MaxPool", "Table", "Select"}
    SCHEMA.validate_cbor(cbor2.dumps(json.loads(strict_json.encode(described))))


@pytest.mark.parametrize("key", ["why", "error", "bits", "remembered"])
def test_an_entry_without_a_key_does_not_fit_the_schema(key: str) -> None:
    made, quantised = found("chain")
    described = layers(made, quantised)
    del described[1][key]
    with pytest.raises(pycddl.ValidationError):
        SCHEMA.validate_cbor(cbor2.dumps(described))


def test_a_chain_has_an_entry_for_every_layer() -> None:
    made, quantised = found("chain")
    described = layers(made, quantised)
    assert [entry["name"] for entry in described] == ["l0", "l1", "l2"]
    assert described[0]["constraints"] == 12
    assert described[-1]["why"] == "the output: counts of the limits file"
    assert described[0]["bits"] == quantised.chain.choice.activation_bits  # type: ignore[union-attr]
    assert described[0]["operands"] == "int16"
    # The last layer's counts are the limits file's units, so its error is the report's accuracy.
    wanted = quantised.chain.rms  # type: ignore[union-attr]
    assert described[-1]["error"]["calibration"]["rms"] < 3 * wanted


def test_without_held_out_rows_there_is_no_error_but_an_entry() -> None:
    made, quantised = found("chain")
    for entry in layers(made, quantised, held=0):
        assert entry["error"]["held_out"]["rows"] == entry["error"]["held_out"]["rms"] == 0


def test_reasons_say_what_a_table_and_the_output_fix() -> None:
    _, quantised = found("tables", Goal(0.0001, 0.001))
    assert TABLE_ARGUMENT in quantised.reasons.values()
    assert FIXED in quantised.reasons.values()


def test_reasons_name_what_was_widened_and_what_the_operands_are() -> None:
    made, quantised = found("cnn", Goal(0.005, 0.03), "speed")
    widened = {name for name, why in quantised.reasons.items() if why.startswith("widened from 7 bits")}
    assert widened
    assert all(quantised.formats[name].bits > 7 for name in widened)
    described = {entry["name"]: entry for entry in layers(made, quantised)}
    assert sum(entry["operands"] == "int16" for entry in described.values()) == quantised.wide
    others = [why for name, why in quantised.reasons.items() if name not in widened and why != FIXED]
    assert all("fast kernel" in why for why in others)


def test_reasons_say_where_no_format_meets_the_goal() -> None:
    _, quantised = found("cnn", Goal(1e-9, 1e-9))
    assert any("no format meets the goal" in why for why in quantised.reasons.values())


def test_reasons_name_what_was_narrowed() -> None:
    _, quantised = found("cnn")
    narrowed = {name for name, why in quantised.reasons.items() if why.startswith("narrowed")}
    assert all(quantised.formats[name].bits < 12 for name in narrowed)
    assert narrowed


@pytest.mark.parametrize("count", [0, 1, SHOWN_MAX + 3])
def test_pictures_are_well_formed_and_cut(count: int) -> None:
    made, quantised = found("cnn")
    entry = layers(made, quantised)[0]
    root = ET.fromstring(f"<body>{layer_pictures([entry] * count)}</body>")  # our own text
    assert len(root.findall(".//figure")) == (count and 1) + min(count, SHOWN_MAX)
    assert ("more in the JSON" in "".join(root.itertext())) == (count > SHOWN_MAX)
    assert not any("nan" in path.attrib["d"] for path in root.findall(".//path"))
