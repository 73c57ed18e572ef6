"""The vectors in files: complete, of their schema, and judged as they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pycddl
import pytest

import attest.command
from attest import cose
from attest.command import (
    CHECKS,
    Accepted,
    CommandError,
    GateRules,
    GateState,
    Mode,
    OpenEpoch,
    Refused,
    judge,
    parse_command,
    parse_record,
)
from tests.attest.command.make_vectors import VECTORS, everything

FORMATS = Path(attest.command.__file__).with_name("formats")
SCHEMAS = json.loads((VECTORS / "schema.json").read_text())
FILES = {str(path.relative_to(VECTORS)): path for path in sorted(VECTORS.glob("*/*.json"))}


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(FILES[name].read_text())
    schema = SCHEMAS[vector["schema"]]
    assert set(schema["required"]) <= set(vector)
    assert set(vector) <= set(schema["required"]) | set(schema["optional"]), "an unknown key"
    assert vector["result"] in schema["result"]
    return vector


def of(folder: str) -> list[str]:
    return [name for name in FILES if name.startswith(folder + "/")]


def test_the_files_are_what_the_program_makes() -> None:
    made = everything()
    assert set(FILES) == set(made)
    assert all(FILES[name].read_text() == text for name, text in made.items())


def test_every_code_has_a_vector() -> None:
    assert {load(name)["code"] for name in of("judge")} == set(CHECKS)


@pytest.mark.parametrize("name", of("golden"))
def test_golden(name: str) -> None:
    vector = load(name)
    data, public = bytes.fromhex(vector["bytes"]), bytes.fromhex(vector["public"])
    schema = pycddl.Schema((FORMATS / f"{vector['format']}.cddl").read_text())
    if vector["format"] == "gate-rules":
        rules = GateRules.decode(data)
        assert rules.encode() == data
        assert rules.digest().hex() == vector["digest"]
        schema.validate_cbor(data)
        return
    schema.validate_cbor(cose.parse_sign1(data).payload)
    if vector["format"] == "command":
        parsed = parse_command(data, None)
        parsed.verify(public)
        assert parsed.command.header.ctx().hex() == vector["ctx"]
    else:
        record = parse_record(data)
        record.verify(public)
        assert vector["format"] == record.record.KIND


# What CDDL cannot say (encodings), and one thing this checker does not see (a text of the size of a byte string).
_BEYOND_CDDL = {
    "key-twice",
    "keys-out-of-order",
    "integer-in-long-form",
    "map-of-indefinite-length",
    "deployment-digest-text",
}


@pytest.mark.parametrize("name", of("malformed"))
def test_malformed(name: str) -> None:
    vector = load(name)
    data = bytes.fromhex(vector["bytes"])
    with pytest.raises(CommandError) as caught:
        parse_command(data, vector["gate_id"])
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("name", of("malformed"))
def test_cddl_refuses_what_the_parser_refuses_in_the_payload(name: str) -> None:
    data = bytes.fromhex(load(name)["bytes"])
    try:
        payload = cose.parse_sign1(data).payload
    except attest.errors.AttestError:
        return  # the envelope is wrong, which the schema of the payload does not see
    envelope_only = cose.parse_sign1(data).content_type != "application/vnd.sits.command+cbor"
    if envelope_only or Path(name).stem in _BEYOND_CDDL:
        return
    schema = pycddl.Schema((FORMATS / "command.cddl").read_text())
    with pytest.raises((pycddl.ValidationError, ValueError)):
        schema.validate_cbor(payload)


class Verdict:
    """A verifier whose answer the vector fixes; the pairing itself has its own tests."""

    def __init__(self, failed: str | None) -> None:
        self.failed = failed

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes) -> str | None:
        return self.failed


@pytest.mark.parametrize("name", of("judge"))
def test_judge(name: str) -> None:
    vector = load(name)
    rules = GateRules.decode(bytes.fromhex(vector["rules"]))
    epoch = None
    if vector["epoch"] is not None:
        fields = vector["epoch"]
        octets = ("session_public", "module_digest", "deployment_digest", "vk_digest")
        epoch = OpenEpoch(**{k: bytes.fromhex(v) if k in octets else v for k, v in fields.items()})
    plant = vector["plant_outputs"]
    state = GateState(7, None if plant is None else tuple(plant))
    mode = Mode[vector["gate_mode"]]
    for data in vector["accepted_before"]:
        earlier = judge(
            bytes.fromhex(data), rules, state, epoch, vector["now_ns"], gate_mode=mode, verifier=Verdict(None)
        )
        assert isinstance(earlier, Accepted)
    before = repr(state)
    explained = vector["explained"]
    result = judge(
        bytes.fromhex(vector["bytes"]),
        rules,
        state,
        epoch,
        vector["now_ns"],
        gate_mode=mode,
        verifier=Verdict(vector["failed_check"]),
        explain=None if explained is None else lambda _: tuple(explained),
        withdrawn=vector.get("withdrawn"),
    )
    assert isinstance(result, Refused)
    assert result.code == vector["code"], (result.found, result.expected)
    assert result.check == CHECKS[result.code]
    assert result.found
    assert result.expected
    assert repr(state) == before, "a refusal changed the state"
    assert (result.parsed is None) == (result.code == "gate-id" or name == "judge/malformed-bytes.json")
