"""Limits and calibration files: accepted forms, and one refusal per rule with its position."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.calibration import read_calibration
from sitsedge.compiler.errors import CalibrationError
from sitsedge.config.source import ConfigError
from sitsedge.modules.limits import Limits, read_limits
from sitsedge.modules.numbers import to_counts

GOOD = """version: 1
inputs:
  - {name: force, unit: MN, scale: 0.001, range: [-2, 2], max_rate: 40}
  - {name: speed, unit: m/s, scale: 0.01, range: [0, 20]}
outputs:
  - {name: gap, unit: mm, scale: 0.0005, limits: [-0.4, 0.4]}
"""

BAD_LIMITS = {
    "unknown-key": ("max_rate: 40", "max_rat: 40", 3),
    "unknown-top-key": ("version: 1", "version: 1\nextra: 2", 2),
    "wrong-type": ("scale: 0.01", "scale: fine", 4),
    "boolean-scale": ("scale: 0.01", "scale: [1]", 4),
    "empty-range": ("[-2, 2]", "[2, 2]", 3),
    "range-upside-down": ("[-2, 2]", "[2, -2]", 3),
    "range-of-three": ("[-2, 2]", "[-2, 0, 2]", 3),
    "infinite-range": ("[0, 20]", "[0, .inf]", 4),
    "nan-range": ("[0, 20]", "[.nan, 20]", 4),
    "zero-scale": ("scale: 0.001", "scale: 0", 3),
    "negative-scale": ("scale: 0.001", "scale: -1", 3),
    "wider-than-int16": ("[0, 20]", "[0, 400]", 4),
    "output-wider-than-int32": ("limits: [-0.4, 0.4]", "limits: [-0.4, 9000000]", 6),
    "less-than-one-count": ("[-2, 2]", "[0, 0.0004]", 3),
    "zero-rate": ("max_rate: 40", "max_rate: 0", 3),
    "unknown-unit": ("unit: MN", "unit: furlong", 3),
    "bad-name": ("name: force", "name: 'for ce'", 3),
    "missing-scale": ("scale: 0.01, ", "", 4),
    "missing-outputs": ("outputs:\n  - {name: gap, unit: mm, scale: 0.0005, limits: [-0.4, 0.4]}\n", "", 1),
    "no-inputs": (GOOD[GOOD.index("  - {name: force") : GOOD.index("outputs")], "  []\n", 3),
    "other-version": ("version: 1", "version: 2", 1),
    "same-name-twice": ("name: speed", "name: force", 1),
    "duplicate-key": ("unit: MN", "unit: MN, unit: mm", 3),
    "limits-on-an-input": ("range: [0, 20]", "limits: [0, 20]", 4),
    "not-yaml": ("version: 1", "version: [1", 2),
}


def test_good_limits_give_counts(tmp_path: Path) -> None:
    limits = read_limits(write(tmp_path, GOOD))
    assert [signal.counts for signal in limits.inputs] == [(-2000, 2000), (0, 2000)]
    assert limits.outputs[0].counts == (-800, 800)
    assert limits.inputs[1].max_rate is None


@pytest.mark.parametrize("rule", BAD_LIMITS)
def test_limits_refuse(rule: str, tmp_path: Path) -> None:
    old, new, line = BAD_LIMITS[rule]
    assert old in GOOD
    with pytest.raises(ConfigError) as refused:
        read_limits(write(tmp_path, GOOD.replace(old, new, 1)))
    assert refused.value.faults[0].line == line
    assert refused.value.faults[0].column >= 1
    assert "limits.yaml" in str(refused.value)


def write(folder: Path, text: str, name: str = "limits.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@given(st.integers(-30000, 30000), st.sampled_from([0.5, 0.25, 2.0]))
def test_counts_round_half_to_even(count: int, scale: float) -> None:
    assert to_counts(count * scale, scale) == count
    half = to_counts((count + 0.5) * scale, scale)
    assert half % 2 == 0
    assert abs(half - count - 0.5) == 0.5


def limits() -> Limits:
    return Limits.model_validate(
        {
            "version": 1,
            "inputs": [
                {"name": "a", "unit": "mm", "scale": 0.1, "range": [-10, 10]},
                {"name": "b", "unit": "1", "scale": 1, "range": [0, 100]},
            ],
            "outputs": [{"name": "y", "unit": "mm", "scale": 0.1, "limits": [-1, 1]}],
        }
    )


def rows(count: int = 50, *, header: str = "a,b") -> list[str]:
    return [header, *(f"{i * 0.1 - 2:.2f},{i}" for i in range(count))]


def test_columns_may_come_in_any_order_and_the_rest_is_held_out(tmp_path: Path) -> None:
    text = "\r\n".join(["b,a", *(f"{i},{i * 0.1 - 2:.2f}" for i in range(50))]) + "\r\n"
    read = read_calibration(write(tmp_path, text, "c.csv"), limits())
    assert (len(read.fit_counts), len(read.held_counts)) == (40, 10)
    assert read.fit_counts[0].tolist() == [-20, 0]
    assert np.allclose(read.fit_raw[1], [-1.9, 1.0])
    held = {tuple(row) for row in read.held_counts.tolist()}
    assert held.isdisjoint(tuple(row) for row in read.fit_counts.tolist())


def test_few_rows_outside_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = rows()
    lines[10] = "10.6,5"
    read = read_calibration(write(tmp_path, "\n".join(lines), "c.csv"), limits())
    assert (read.rows_total, read.rows_outside) == (50, 1)
    assert len(read.fit_counts) + len(read.held_counts) == 49


def changed(line: int, text: str) -> str:
    lines = rows()
    lines[line - 1] = text
    return "\n".join(lines)


BAD_CALIBRATION = {
    "empty": ("", 1, 1),
    "missing-column": ("\n".join(rows(header="a,c")), 1, 1),
    "extra-column": ("\n".join(rows(header="a,b,c")), 1, 1),
    "column-twice": ("\n".join(rows(header="a,a")), 1, 1),
    "not-a-number": (changed(7, "1.0,abc"), 7, 5),
    "nan": (changed(7, "nan,1"), 7, 1),
    "infinity": (changed(7, "1,inf"), 7, 3),
    "digit-groups": (changed(7, "1,1_0"), 7, 3),
    "empty-cell": (changed(7, "1,"), 7, 3),
    "short-row": (changed(7, "1"), 7, 1),
    "long-row": (changed(7, "1,2,3"), 7, 1),
    "blank-line": (changed(7, ""), 7, 1),
    "too-few-rows": ("\n".join(rows(5)), 7, 1),
    "most-rows-outside": ("\n".join(["a,b", *["50,5"] * 30]), 2, 1),
}


@pytest.mark.parametrize("rule", BAD_CALIBRATION)
def test_calibration_refuses(rule: str, tmp_path: Path) -> None:
    text, line, column = BAD_CALIBRATION[rule]
    with pytest.raises(CalibrationError) as refused:
        read_calibration(write(tmp_path, text, "c.csv"), limits())
    assert (refused.value.line, refused.value.column) == (line, column)
    assert "c.csv:" in str(refused.value)


def test_calibration_refuses_other_bytes_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    with pytest.raises(CalibrationError):
        read_calibration(path, limits())
    path.write_bytes(b"a,b\n\xff\xfe")
    with pytest.raises(CalibrationError) as refused:
        read_calibration(path, limits())
    assert "UTF-8" in refused.value.found


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_rows_or_a_typed_refusal(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with contextlib.suppress(CalibrationError):
        assert read_calibration(path, limits()).rows_total >= 20


def refused_calibration(tmp_path: Path, text: str) -> CalibrationError:
    with pytest.raises(CalibrationError) as refused:
        read_calibration(write(tmp_path, text, "c.csv"), limits())
    return refused.value


def test_a_byte_order_mark_of_a_spreadsheet_is_taken(tmp_path: Path) -> None:
    assert read_calibration(write(tmp_path, "\ufeff" + "\n".join(rows()), "c.csv"), limits()).rows_total == 50


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("a;b", "export with commas"),
        ('"a","b"', "without quotation marks"),
        (",a,b", "index=False"),
        ("1.5,2", "name the inputs"),
        ("time,a,b", "times and labels"),
    ],
)
def test_a_header_that_does_not_fit_says_what_is_mostly_behind_it(tmp_path: Path, header: str, hint: str) -> None:
    assert hint in refused_calibration(tmp_path, "\n".join(rows(header=header))).hint


def test_a_header_that_names_a_column_twice_says_which(tmp_path: Path) -> None:
    assert "naming twice 'a'" in refused_calibration(tmp_path, "\n".join(rows(header="a,a"))).found


def test_a_value_that_is_no_number_is_named_with_its_column(tmp_path: Path) -> None:
    lines = ["b,a", *rows()[1:]]
    lines[6] = "5,nan"
    refused = refused_calibration(tmp_path, "\n".join(lines))
    assert refused.found == "a = 'nan'"
    assert (refused.line, refused.column) == (7, 3)


def test_files_without_an_end_are_refused_unread() -> None:
    with pytest.raises(CalibrationError):
        read_calibration(Path("/dev/zero"), limits())
    with pytest.raises(ConfigError):
        read_limits(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("old", "new", "found", "expected"),
    [
        ("[-2, 2]", "[2, -2]", "[2, -2]", "low below high"),
        ("[-2, 2]", "[-2, 0, 2]", "3 entries", "at most 2"),
        ("name: speed", "name: force", "", "force is there twice"),
    ],
)
def test_faults_of_the_limits_file_show_what_was_found(
    tmp_path: Path, old: str, new: str, found: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read_limits(write(tmp_path, GOOD.replace(old, new)))
    (fault,) = refused.value.faults
    assert found in fault.found
    assert expected in fault.expected


def test_an_unknown_kind_of_property_is_named_where_it_stands(tmp_path: Path) -> None:
    text = GOOD + "properties:\n  - {kind: rang, output: gap, inside: [0, 1]}\n"
    with pytest.raises(ConfigError) as refused:
        read_limits(write(tmp_path, text))
    (fault,) = refused.value.faults
    assert (fault.found, fault.where) == ("'rang'", "properties[0].kind")
    assert "'range', 'monotone', 'robust'" in fault.expected
