"""The revocation list: strict, signed, ever newer."""

from __future__ import annotations

from pathlib import Path

import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor, cose
from attest.errors import AttestError
from attest.evidence.errors import EnrolError
from attest.evidence.revocation import CONTENT_TYPE, MAX_REVOKED, RevocationList, Revoked, parse_list
from tests.attest.evidence.forge import NOW_NS, POLICY_SIGNER, YEAR_NS, digest

CDDL = Path(__file__).resolve().parents[3] / "attest" / "evidence" / "revocation-list.cddl"
EMPTY = RevocationList(0, 0, 0)
LATER = NOW_NS + YEAR_NS


def revoked(*names: str) -> RevocationList:
    made = EMPTY
    for name in names:
        made = made.revoke(Revoked(digest(name), NOW_NS, f"{name} stolen"), issued_ns=NOW_NS, not_after_ns=LATER)
    return made


def test_a_list_comes_back_as_it_was() -> None:
    made = revoked("a", "b", "c")
    parsed, message = parse_list(made.sign(POLICY_SIGNER))
    cose.verify(message, public=POLICY_SIGNER.public)
    assert parsed == made
    assert (made.version, [entry.reason for entry in made.entries].count("b stolen")) == (3, 1)
    pycddl.Schema(CDDL.read_text()).validate_cbor(message.payload)


def test_a_record_counts_until_the_moment_of_its_revocation() -> None:
    made = revoked("a")
    assert made.find(digest("a"), NOW_NS - 1) is None
    assert made.find(digest("b"), NOW_NS) is None
    entry = made.find(digest("a"), NOW_NS)
    assert entry is not None
    assert entry.reason == "a stolen"
    assert made.current_at(LATER - 1)
    assert not made.current_at(LATER)


def test_revoking_again_keeps_the_earlier_moment() -> None:
    again = revoked("a").revoke(Revoked(digest("a"), NOW_NS + 5, "again"), issued_ns=NOW_NS, not_after_ns=LATER)
    assert [entry.at_ns for entry in again.entries] == [NOW_NS]
    earlier = revoked("a").revoke(Revoked(digest("a"), NOW_NS - 5, "before"), issued_ns=NOW_NS, not_after_ns=LATER)
    assert [(entry.at_ns, entry.reason) for entry in earlier.entries] == [(NOW_NS - 5, "before")]


def test_a_full_list_parses_and_takes_no_more() -> None:
    entries = tuple(Revoked(number.to_bytes(32, "big"), NOW_NS, "r" * 128) for number in range(MAX_REVOKED))
    full = RevocationList(1, NOW_NS, LATER, entries)
    assert parse_list(full.sign(POLICY_SIGNER))[0] == full
    with pytest.raises(EnrolError, match="4097 records"):
        full.revoke(Revoked(digest("one more"), NOW_NS, "r"), issued_ns=NOW_NS, not_after_ns=LATER)


@pytest.mark.parametrize(("record_id", "reason"), [(b"short", "why"), (digest("a"), ""), (digest("a"), "x" * 129)])
def test_an_entry_that_does_not_fit_is_refused_when_made(record_id: bytes, reason: str) -> None:
    with pytest.raises(EnrolError, match="characters"):
        EMPTY.revoke(Revoked(record_id, NOW_NS, reason), issued_ns=NOW_NS, not_after_ns=LATER)


A, B = sorted((digest("a"), digest("b")))


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "format-2": {1: 2},
        "version-zero": {2: 0},
        "no-issue": {3: None},
        "entries-not-an-array": {5: {}},
        "entry-not-an-array": {5: [A]},
        "entry-too-short": {5: [[A, 1]]},
        "entry-record-id-short": {5: [[A[1:], 1, "r"]]},
        "entry-moment-negative": {5: [[A, -1, "r"]]},
        "entry-moment-boolean": {5: [[A, True, "r"]]},
        "entry-reason-empty": {5: [[A, 1, ""]]},
        "entry-reason-long": {5: [[A, 1, "r" * 129]]},
        "entry-reason-bytes": {5: [[A, 1, b"r"]]},
        "entries-out-of-order": {5: [[B, 1, "r"], [A, 1, "r"]]},
        "entry-twice": {5: [[A, 1, "r"], [A, 2, "r"]]},
        "unknown-key": {6: 1},
    }.items(),
)
def test_malformed_lists_are_refused(name: str, change: dict[int, object]) -> None:
    payload = {1: 1, 2: 1, 3: 1, 4: 2, 5: [[A, 1, "r"], [B, 1, "r"]]}
    good = cose.sign1(cbor.dumps(payload), signer=POLICY_SIGNER, content_type=CONTENT_TYPE)
    assert len(parse_list(good)[0].entries) == 2
    changed = {key: value for key, value in (payload | change).items() if value is not None}
    with pytest.raises(AttestError):
        parse_list(cose.sign1(cbor.dumps(changed), signer=POLICY_SIGNER, content_type=CONTENT_TYPE))


@given(st.binary(max_size=200))
def test_any_bytes_are_one_typed_error(data: bytes) -> None:
    with pytest.raises(AttestError):
        parse_list(data)
