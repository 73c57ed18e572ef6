"""The DataSet on the wire, the committed limits file, and the promise that normal running stays far inside it."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbus.uadp import LayoutReader, LayoutWriter
from sitsedge.config.units import UNITS
from sitsedge.modules.limits import Limits, load_model
from sitsedge.plant.arbiter import GAP_LIMIT_MM, GAP_RATE_MM_S, TRIM_LIMIT_PERCENT, TRIM_RATE_PERCENT_S
from sitsedge.plant.signals import INPUTS, OUTPUTS, Signal, dataset_layout
from sitsedge.plant.simulate import simulate
from sitsedge.plant.stand import Measured, MillStand
from tests.sitsedge.plant.support import EXAMPLE, OnnxController

MARGIN = 1.5


def test_inputs_are_the_measured_signals_in_order() -> None:
    assert tuple(signal.name for signal in INPUTS) == Measured._fields
    assert {signal.unit for signal in (*INPUTS, *OUTPUTS)} <= UNITS


def test_layout_round_trip() -> None:
    stand = MillStand(1)
    stand.step(0.1, 0.0)
    data = LayoutWriter(dataset_layout()).write(t_source_ns=1_700_000_000_123_456_700, values=stand.measured())
    sample = LayoutReader(dataset_layout()).read(data)
    assert sample.values == tuple(stand.measured())
    assert sample.t_source_ns == 1_700_000_000_123_456_700
    assert sample.good


def test_limits_file_says_what_the_signal_table_says() -> None:
    limits = load_model(EXAMPLE / "limits.yaml", Limits)
    found = [Signal(s.name, s.unit, s.scale, *s.range, s.max_rate or 0.0) for s in limits.inputs]
    assert tuple(found) == INPUTS
    outputs = [Signal(s.name, s.unit, s.scale, *s.limits, s.max_rate or 0.0) for s in limits.outputs]
    assert tuple(outputs) == OUTPUTS


def test_outputs_stay_inside_what_the_plc_allows() -> None:
    gap, trim = OUTPUTS
    assert gap.high == -gap.low < GAP_LIMIT_MM
    assert trim.high == -trim.low < TRIM_LIMIT_PERCENT
    assert gap.max_rate < GAP_RATE_MM_S
    assert trim.max_rate <= TRIM_RATE_PERCENT_S


def test_calibration_rows_are_inside_the_ranges() -> None:
    path = EXAMPLE / "calibration.csv"
    assert path.read_text(encoding="utf-8").splitlines()[0].split(",") == [s.name for s in INPUTS]
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    assert 1000 <= len(rows) <= 2000
    assert np.all(rows > [s.low for s in INPUTS])
    assert np.all(rows < [s.high for s in INPUTS])


@pytest.mark.parametrize("controlled", [False, True])
def test_normal_running_keeps_a_margin_to_every_range_and_rate(controlled: bool) -> None:
    controller = OnnxController(EXAMPLE / "model.onnx") if controlled else None
    trace = simulate(controller, 30.0, 77)
    reach = np.max(np.abs(trace.measured), axis=0)
    rate = np.max(np.abs(np.diff(trace.measured, axis=0)), axis=0) / 0.01
    for signal, high, fast in zip(INPUTS, reach, rate, strict=True):
        assert high * MARGIN < signal.high, signal.name
        assert fast * MARGIN < signal.max_rate, signal.name
    commands = np.stack([trace.gap_correction_mm, trace.speed_trim_percent])[:, 5:]
    for signal, values in zip(OUTPUTS, commands, strict=True):
        assert np.max(np.abs(np.diff(values))) / 0.01 * MARGIN < signal.max_rate, signal.name
