"""One file per rule of the vendor decoders: a telegram that breaks it, for replies with the request before.

An unknown key in a file fails, and so does a rule of a decoder that nobody has a file for.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fieldbus
from fieldbus.capture.dialogues import CipDialogue, Dialogue, S7Dialogue, SlmpDialogue
from fieldbus.cursor import WireError

FOLDER = Path(__file__).parent / "vendor_vectors"
FILES = sorted(FOLDER.glob("*/*.json"))
SCHEMA = json.loads((FOLDER / "schema.json").read_text())
DIALOGUES: dict[str, type[Dialogue]] = {"s7": S7Dialogue, "cip": CipDialogue, "slmp": SlmpDialogue}
DECODERS = {
    "s7": ("cotp", "pdu", "items", "userdata"),
    "cip": ("encapsulation", "path", "message", "services", "replies", "identity"),
    "slmp": ("frame", "commands", "wire", "devices"),
}
ELSEWHERE = {
    "s7": {"value-range", "data-length"},
    "cip": {"value-range", "tag-name", "symbol-count"},
    "slmp": {"value-range", "device-name", "device-unknown", "radix-unknown"},
}
"""Rules of encoders and names, and one that takes more bytes than a vector should have: tested beside their code."""


def load(path: Path) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(path.read_text())
    assert set(vector) == set(SCHEMA["required"]), f"{path.name}: keys differ from the schema"
    for key, rule in SCHEMA["properties"].items():
        assert isinstance(vector[key], str), f"{path.name}: {key}"
        assert re.fullmatch(rule["pattern"].strip("^$"), vector[key]), f"{path.name}: {key}"
    return vector


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_vector_is_refused_for_its_own_reason(path: Path) -> None:
    vector = load(path)
    assert vector["rule"] == path.stem == vector["code"]
    dialogue = DIALOGUES[path.parent.name]()
    if vector["before"]:
        dialogue.read(bytes.fromhex(vector["before"]))
    with pytest.raises(WireError) as caught:
        dialogue.read(bytes.fromhex(vector["hex"]))
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("name", DECODERS)
def test_every_rule_of_the_decoders_has_a_vector(name: str) -> None:
    package = Path(fieldbus.__file__).parent / name
    source = "".join((package / f"{module}.py").read_text() for module in DECODERS[name])
    raised = set(re.findall(r'Error\(\s*"([a-z0-9-]+)"', source))
    raised |= set(re.findall(r'expect\([^,]+, \d, "([a-z0-9-]+)"', source))
    assert len(raised) > 10
    assert raised - {path.stem for path in FILES if path.parent.name == name} == ELSEWHERE[name]
