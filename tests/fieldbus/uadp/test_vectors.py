"""One file per rule of the decoder; an unknown key in a file fails, and so does a rule nobody has a file for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fieldbus.uadp
from fieldbus.uadp import UadpError, decode

FOLDER = Path(__file__).parent / "vectors"
FILES = sorted(path for path in FOLDER.glob("*.json") if path.name != "schema.json")
SCHEMA = json.loads((FOLDER / "schema.json").read_text())


def load(path: Path) -> dict[str, Any]:
    """The vector, checked against the part of JSON Schema that schema.json uses."""
    vector: dict[str, Any] = json.loads(path.read_text())
    assert set(vector) == set(SCHEMA["required"]), f"{path.name}: keys differ from the schema"
    assert SCHEMA["additionalProperties"] is False
    for key, rule in SCHEMA["properties"].items():
        assert isinstance(vector[key], str), f"{path.name}: {key}"
        assert re.fullmatch(rule["pattern"].strip("^$"), vector[key]), f"{path.name}: {key}"
    return vector


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector_is_refused_for_its_own_reason(path: Path) -> None:
    vector = load(path)
    assert vector["rule"] == path.stem
    with pytest.raises(UadpError) as caught:
        decode(bytes.fromhex(vector["hex"]))
    assert caught.value.code == vector["code"]


def codes(source: str) -> set[str]:
    return set(re.findall(r"UadpError\(\s*\"([a-z0-9-]+)\"", source))


def test_every_code_of_the_decoder_has_a_vector() -> None:
    package = Path(fieldbus.uadp.__file__).parent
    raised: set[str] = set()
    for name in ("decoder.py", "header.py", "cursor.py"):
        raised |= codes((package / name).read_text())
    for name in ("values.py", "identifiers.py", "diagnostics.py", "structures.py", "discovery.py"):
        for function in (package / name).read_text().split("\ndef "):
            if not function.startswith(("encode_", "_encode_", "write_", "_write(", "wrap_")):
                raised |= codes(function)
    raised.discard("message-too-long")  # 65,508 bytes: in test_codec.py instead of a file
    assert raised, "the codes were not found in the sources"
    assert raised == {load(path)["code"] for path in FILES}
