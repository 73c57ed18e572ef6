"""Recordings: what is a number, what is a bad cell, and what refuses the file with its name and line."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitsedge.replay.errors import RecordingError
from sitsedge.replay.pace import Pace
from sitsedge.replay.recording import LINE_BYTES_MAX, BadCell, read_cell, read_recording
from tests.sitsedge.replay.support import write_csv

GOOD = "2020-03-09 10:14:33;1.5;-2;0.0"


def read(path: Path, columns: tuple[str, ...] = ("P", "Q")) -> object:
    return read_recording(path, columns, time_column="datetime")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_chosen_columns_in_the_asked_order(tmp_path: Path, end: str) -> None:
    path = write_csv(tmp_path / "a.csv", GOOD, "2020-03-09 10:14:34;.5;3e2;1.0", end=end)
    recording = read_recording(path, ("Q", "P"), time_column="datetime")
    assert [row.cells for row in recording.rows] == [(-2.0, 1.5), (300.0, 0.5)]
    assert [row.line for row in recording.rows] == [2, 3]
    assert recording.rows[0].time == dt.datetime.fromisoformat("2020-03-09 10:14:33")


@pytest.mark.parametrize(
    "text", ["nan", "NaN", "inf", "-Infinity", "1_0", "0x10", "1,5", "abc", "1e999", "1 2", "--1", "٣"]
)
def test_text_never_becomes_a_number(text: str) -> None:
    assert read_cell(text) is BadCell.NOT_A_NUMBER


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_cell_is_missing(text: str) -> None:
    assert read_cell(text) is BadCell.MISSING


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_survives(value: float) -> None:
    assert read_cell(repr(value)) == value


@given(st.text())
def test_any_text_gives_a_finite_number_or_a_reason(text: str) -> None:
    cell = read_cell(text)
    assert isinstance(cell, BadCell) or (cell == cell and abs(cell) != float("inf"))


def test_a_bad_cell_does_not_refuse_the_row(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", "2020-03-09 10:14:33;;text;0.0")
    [row] = read_recording(path, ("P", "Q"), time_column="datetime").rows
    assert row.cells == (BadCell.MISSING, BadCell.NOT_A_NUMBER)
    assert not row.good


@pytest.mark.parametrize(
    ("rows", "header", "code", "line"),
    [
        ([GOOD, "2020-03-09 10:14:34;1;2"], None, "cells", 3),
        ([GOOD, "2020-03-09 10:14:34;1;2;0;9"], None, "cells", 3),
        ([GOOD, ""], None, "cells", 3),
        (["yesterday;1;2;0"], None, "time", 2),
        (["2020-03-09T10:14:33+01:00;1;2;0"], None, "time", 2),
        ([";1;2;0"], None, "time", 2),
        ([GOOD, "2020-03-09 10:14:32;1;2;0"], None, "time-order", 3),
        ([GOOD, '2020-03-09 10:14:34;"1";2;0'], None, "quote", 3),
        ([GOOD, "2020-03-09 10:14:34;1\0;2;0"], None, "quote", 3),
        ([GOOD, "2020-03-09 10:14:34;" + "1" * LINE_BYTES_MAX + ";2;0"], None, "line-too-long", 3),
        ([], None, "header", 1),
        ([GOOD], "datetime;P;X;label", "header", 1),
        ([GOOD], "datetime;P;Q;Q", "header", 1),
        ([GOOD], "time;P;Q;label", "header", 1),
        ([GOOD], "datetime,P,Q,label", "header", 1),
    ],
)
def test_an_unreadable_row_names_file_and_line(
    tmp_path: Path, rows: list[str], header: str | None, code: str, line: int
) -> None:
    path = write_csv(tmp_path / "a.csv", *rows, **({} if header is None else {"header": header}))
    with pytest.raises(RecordingError) as caught:
        read(path)
    assert (caught.value.code, caught.value.line, caught.value.file) == (code, line, str(path))
    assert str(caught.value).startswith(f"{path}:{line}: {code}: got ")


def test_a_file_that_is_no_text_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"datetime;P;Q;label\n2020-03-09 10:14:33;1;\xff;0\n")
    with pytest.raises(RecordingError) as caught:
        read(path)
    assert (caught.value.code, caught.value.line) == ("not-text", 2)


def test_a_missing_file_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as caught:
        read(tmp_path / "none.csv")
    assert caught.value.code == "file-unreadable"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_bytes_give_a_recording_or_one_typed_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"datetime;P;Q\n" + data)
    try:
        line = read_recording(path, ("P", "Q"), time_column="datetime").rows[0].line
    except RecordingError as error:
        line = error.line
    assert line >= 1


T = dt.datetime.fromisoformat("2020-01-01")


def test_pace_follows_the_recording_and_shortens_pauses() -> None:
    pace = Pace(10.0, gap_s_max=5.0)
    assert pace.due_s(T, 100.0) == 100.0
    assert pace.due_s(T + dt.timedelta(seconds=1), 999.0) == pytest.approx(100.1)
    assert pace.due_s(T + dt.timedelta(hours=1), 999.0) == pytest.approx(100.6)
    # The next recording was made earlier: no pause, and no going back.
    assert pace.due_s(T - dt.timedelta(days=9), 999.0) == pytest.approx(100.6)


def test_max_speed_is_always_due_now() -> None:
    pace = Pace("max", gap_s_max=5.0)
    assert [pace.due_s(T + dt.timedelta(seconds=k), float(k * k)) for k in range(4)] == [0.0, 1.0, 4.0, 9.0]
