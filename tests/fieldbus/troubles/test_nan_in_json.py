"""Public trouble: one NaN of a broken sensor and the JSON of the whole appliance is unreadable elsewhere."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import jsontext
from fieldbus.capture import plain
from fieldbus.uadp import BuiltinType, DataSetMessage, NetworkMessage, Variant, encode
from sitsedge.cli.output import Output, emit
from sitsedge.modules import strict_json
from sitsedge.modules.errors import BundleError
from sitsedge.telemetry import read_snapshot, write_snapshot

ROOT = Path(__file__).resolve().parents[3]
FLOATS = (math.nan, math.inf, -math.inf)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


def strict(text: str) -> Any:
    """JSON as other languages read it."""

    def refuse(token: str) -> NoReturn:
        raise AssertionError(f"the token {token}")

    return json.loads(text, parse_constant=refuse)


@settings(max_examples=50, deadline=None)
@given(trees)
def test_no_tree_of_values_gives_a_token_that_json_has_not(tree: object) -> None:
    assert strict(jsontext.dumps(tree)) == jsontext.finite(tree)
    assert strict(jsontext.dumps({"a": (tree,)}, indent=1, sort_keys=True)) == {"a": [jsontext.finite(tree)]}


def test_what_is_no_number_is_a_text() -> None:
    assert strict(jsontext.dumps([*FLOATS, 1.5])) == ["NaN", "Infinity", "-Infinity", 1.5]
    assert strict(json.dumps(plain(list(FLOATS)))) == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '{"a": [Infinity]}', "1e999", "[-1e999]"])
def test_a_file_with_such_a_number_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON number"):
        jsontext.loads(text)


def test_a_snapshot_and_a_command_stay_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(tmp_path, "bridge", "running", {"revised_interval_ms": math.nan, "by": {"x": math.inf}})
    assert strict((tmp_path / "bridge.json").read_text())["revised_interval_ms"] == "NaN"
    found = read_snapshot(tmp_path, "bridge")
    assert found is not None
    assert found.data["by"] == {"x": "Infinity"}
    emit(Output.json, {"values": FLOATS}, lambda: None)
    assert strict(capsys.readouterr().out) == {"values": ["NaN", "Infinity", "-Infinity"]}


def test_a_captured_frame_with_nan_is_decoded_to_json_that_others_read() -> None:
    fields = tuple(Variant(kind, value) for value in FLOATS for kind in (BuiltinType.DOUBLE, BuiltinType.FLOAT))
    message = NetworkMessage(messages=(DataSetMessage(fields=fields),))
    assert encode(message)
    found = strict(json.dumps(plain(message)))["messages"][0]["fields"]
    assert [field["value"] for field in found] == [text for text in ("NaN", "Infinity", "-Infinity") for _ in range(2)]


def test_what_is_signed_holds_no_such_number_at_all() -> None:
    with pytest.raises(BundleError, match="bundle-json"):
        strict_json.encode({"scale": math.nan})


def test_no_part_of_the_product_writes_json_in_another_way() -> None:
    """``json.dumps`` writes NaN unless told otherwise, so whoever calls it tells it (or calls ``jsontext.dumps``)."""
    lenient: list[str] = []
    for package in ("attest", "fieldbus", "sitsedge"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            assert "from json import" not in text, path
            calls = re.finditer(r"(?<![\w`.])json\.(?:dumps?\(|JSONEncoder)", text)
            lenient += [str(path) for call in calls if "allow_nan=False" not in text[call.end() : call.end() + 400]]
    assert lenient == []
