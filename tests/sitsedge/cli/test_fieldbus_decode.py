"""``sitsctl fieldbus decode``: one object a frame, exit codes, and what is no capture."""

from __future__ import annotations

import json
from collections import Counter
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


KEYS = [
    {"policy": f"aes{bits}-ctr", "token": 7, "key": (bytes(range(32)) + bytes(range(64, 64 + size)) + tail).hex()}
    for bits, size in ((128, 16), (256, 32))
    for tail in (bytes.fromhex("a0a1a2a3"),)
]
FIXTURES = {
    "uadp/frames.jsonl": ("uadp", {"ok": 130, "delta-duplicate-index": 22}),
    "s7/s7_telegrams.jsonl": ("s7", {"ok": 70}),
    "cip/enip_cpppo.jsonl": ("cip", {"ok": 115}),
    "slmp/Q_Type3E_binary.jsonl": ("slmp", {"ok": 26}),
    "slmp/Q_Type4E_binary.jsonl": ("slmp", {"ok": 26}),
    "slmp/Q_Type3E_ascii.jsonl": ("slmp", {"ok": 27, "points": 1}),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_every_recording_through_the_command(fixtures_dir: Path, tmp_path: Path, name: str) -> None:
    """What is refused is refused by the recordings too: open62541's deltas that repeat an index (their independent
    decoding is the error "dup delta index"), and a device number that the recorded CPU answered with an end code."""
    protocol, expected = FIXTURES[name]
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    arguments = ["fieldbus", "decode", "--protocol", protocol, str(fixtures_dir / name), "--keys", str(keys)]
    done = CliRunner().invoke(app, [*arguments, "--output", "json"])
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert Counter("ok" if entry["ok"] else entry["error"] for entry in entries) == expected
    assert done.exit_code == (0 if set(expected) == {"ok"} else 1)
