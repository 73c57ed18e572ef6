"""``sitsctl fieldbus keys``: key files made, changed and shown; a key itself is never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fieldbus.uadp import SecurityPolicy, read_key_file
from sitsedge.cli.main import app
from sitsedge.cli.output import Exit


def keys(*arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["fieldbus", "keys", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def data(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(keys(*arguments, "--output", "json"))
    return found


def test_a_key_file_is_made_changed_and_shown_without_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "mill.keys"
    made = data("new", file, "--group", "mill", "--lifetime", "1h", "--count", "3", "--first-token", "7")
    assert (made["group"], made["policy"], made["tokens"], made["current"]) == (
        "mill",
        "PubSub-Aes256-CTR",
        [7, 8, 9],
        7,
    )
    assert made["ends_ns"]["9"] - made["ends_ns"]["7"] == 2 * 3600 * 1_000_000_000
    before = read_key_file(file)
    after_data = data("next", file)
    after = read_key_file(file)
    assert (after_data["tokens"], after.first_token_id) == ([8, 9, 10], 8)
    assert after.keys[:2] == before.keys[1:]
    assert after.ends_ns(8) == before.ends_ns(8)
    shown = keys("show", file)
    assert "token 8: until" in shown
    assert not any(key.hex()[:16] in shown + json.dumps(after_data) for key in (*before.keys, *after.keys))


def test_keys_without_end_and_files_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "mill.keys"
    assert "token 1: no end, current" in keys("new", file, "--group", "mill", "--policy", "PubSub-Aes128-CTR")
    assert read_key_file(file).policy is SecurityPolicy.AES128_CTR
    keys("new", file, "--group", "mill", code=Exit.USAGE)
    file.chmod(0o644)
    keys("show", file, code=Exit.ENVIRONMENT)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--group", "a mill"), "key-group: got 'a mill', expected 1 to 128 printable ASCII"),
        (("--group", "x" * 5_000), "key-group: got 5000 characters, expected 1 to 128 printable ASCII"),
        (("--group", "mill", "--lifetime", "soon"), "--lifetime soon"),
    ],
)
def test_what_no_key_file_can_have_makes_none(tmp_path: Path, options: tuple[str, ...], named: str) -> None:
    done = CliRunner().invoke(app, ["fieldbus", "keys", "new", str(tmp_path / "mill.keys"), *options])
    assert done.exit_code == Exit.USAGE
    assert named in done.stderr
    assert list(tmp_path.iterdir()) == []
