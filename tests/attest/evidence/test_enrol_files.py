"""Enrolment's messages as files: strict, named, and none is taken for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor
from attest.errors import AttestError
from attest.evidence import enrol_files
from attest.evidence.credential import Credential
from attest.evidence.ekcert import EkIdentity
from attest.evidence.enrol import Pending, Request
from attest.evidence.errors import EnrolError
from tests.attest.evidence.forge import digest

CDDL = Path(__file__).resolve().parents[3] / "attest" / "evidence" / "enrol.cddl"
REQUEST = Request(b"ek public", (b"leaf", b"issuer"), b"ak public")
CHALLENGE = Credential(b"blob", b"seed")
PENDING = Pending(REQUEST, EkIdentity("id:00001014", "swtpm", (b"leaf", b"root")), digest("secret"))
FILES: dict[str, tuple[bytes, Callable[[bytes], object], object]] = {
    "request": (enrol_files.encode_request(REQUEST), enrol_files.parse_request, REQUEST),
    "challenge": (enrol_files.encode_challenge(CHALLENGE), enrol_files.parse_challenge, CHALLENGE),
    "answer": (enrol_files.encode_answer(digest("s")), enrol_files.parse_answer, digest("s")),
    "pending": (enrol_files.encode_pending(PENDING), enrol_files.parse_pending, PENDING),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_comes_back_as_it_was(name: str) -> None:
    data, parse, value = FILES[name]
    assert parse(data) == value
    pycddl.Schema(CDDL.read_text()).validate_cbor(data)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("other", FILES)
def test_no_file_is_taken_for_another(name: str, other: str) -> None:
    if name == other:
        return
    with pytest.raises(EnrolError, match=f"sits-enrol-{name}-1") as caught:
        FILES[name][1](FILES[other][0])
    assert caught.value.code == "enrol-file"
    assert f"sits-enrol-{other}-1" in caught.value.found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "trailing", "extra-key", "other-type", "empty"])
def test_damaged_files_are_refused(name: str, damage: str) -> None:
    data, parse, _ = FILES[name]
    fields = cbor.loads(data, max_depth=4)
    assert isinstance(fields, dict)
    damaged = {
        "cut": data[:-1],
        "trailing": data + b"\0",
        "extra-key": cbor.dumps(fields | {9: 1}),
        "other-type": cbor.dumps(fields | {1: "text"}),
        "empty": b"",
    }[damage]
    with pytest.raises(AttestError):
        parse(damaged)


def test_certificates_have_limits() -> None:
    for certificates in (tuple([b"c"] * 9), (b"c" * 8193,), (b"",)):
        with pytest.raises(AttestError):
            enrol_files.parse_request(enrol_files.encode_request(replace(REQUEST, ek_certificates=certificates)))


def test_texts_have_limits() -> None:
    long = replace(PENDING, identity=replace(PENDING.identity, model="m" * 129))
    with pytest.raises(EnrolError, match="128"):
        enrol_files.parse_pending(enrol_files.encode_pending(long))


@given(st.binary(max_size=100))
def test_any_bytes_are_one_typed_error(data: bytes) -> None:
    for _, parse, _ in FILES.values():
        with pytest.raises(AttestError):
            parse(data)


def test_the_verifiers_file_holds_no_secret() -> None:
    """Whoever reads it cannot answer in the device's place."""
    assert digest("secret") in FILES["pending"][0]  # the hash is what the test calls digest; the secret is not there
    assert b"secret" not in FILES["pending"][0]
