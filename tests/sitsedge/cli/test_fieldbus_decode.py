"""``sitsctl fieldbus decode``: one object a frame, exit codes, and what is no capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fieldbus.s7 import model as s7
from fieldbus.s7 import pdu
from sitsedge.cli.main import app

READ = pdu.encode(s7.Job(2, s7.ReadRequest((s7.Item(s7.Area.DATA_BLOCK, 0, 1, block=1),)))).hex()


def decode(path: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["fieldbus", "decode", "--protocol", "s7", str(path), *more])


def test_one_object_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_text(f'{{"hex": "{READ}", "t": 5, "conn": 3, "dir": "c2s"}}\n')
    done = decode(path, "--output", "json")
    assert done.exit_code == 0, done.output
    entry = json.loads(done.stdout)
    assert (entry["ok"], entry["frame"], entry["conn"], entry["t_ns"], entry["dir"]) == (True, 1, 3, 5, "c2s")
    assert entry["value"]["body"]["items"][0]["area"] == "data-block"
    assert decode(path).stdout.startswith("1 c2s {")


def test_a_refused_frame_has_the_code_of_its_rule_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_text(f'{{"hex": "0400"}}\n{{"hex": "{READ}"}}\n')
    done = decode(path, "--output", "json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert done.exit_code == 1
    assert (first["ok"], first["error"]) == (False, "tpkt-version")
    assert second["ok"]
    assert "1 - refused tpkt-version" in decode(path).stdout


@pytest.mark.parametrize(
    ("content", "more"),
    [(None, ()), ("no capture", ()), ("", ("--zone", "Nowhere")), ("", ("--keys", "/dev/null"))],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path, content: str | None, more: tuple[str, ...]) -> None:
    path = tmp_path / "frames.jsonl"
    if content is not None:
        path.write_text(content)
    done = decode(path, *more)
    assert done.exit_code == 2
    assert done.stderr.startswith("sitsctl: error:")
    assert "Traceback" not in done.output


def test_a_capture_without_frames_is_not_a_success(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert decode(path).exit_code == 1
