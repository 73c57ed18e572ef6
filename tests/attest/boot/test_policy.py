"""Boot policies: what is allowed, what differs, and what a policy may look like."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor, cose
from attest.boot.errors import PolicyError
from attest.boot.eventlog import EventLog, text_event
from attest.boot.policy import (
    BootPolicy,
    BootState,
    Mismatch,
    make_policy,
    parse_payload,
    parse_policy,
    reference_state,
)
from attest.errors import AttestError

CDDL = Path(__file__).resolve().parents[3] / "attest" / "boot" / "boot-policy.cddl"
LOG = EventLog((text_event(11, "kernel 6.1"), text_event(13, "component a"), text_event(13, "component b")))
VALUES = {pcr: LOG.value(pcr) for pcr in (0, 11, 13)}
REFERENCE = reference_state("reference", log=LOG, values=VALUES, pcrs=VALUES)


def policy(*states: BootState, **changes: object) -> BootPolicy:
    made = make_policy(
        name="mill",
        version=3,
        states=states or (REFERENCE,),
        not_before_ns=10,
        not_after_ns=20,
        tpm_kinds=("swtpm", "hardware"),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_reference_boot_is_allowed() -> None:
    assert policy().match(VALUES, LOG) == REFERENCE
    assert policy().pcrs == (0, 11, 13)


def test_one_of_several_states_is_enough() -> None:
    other = dataclasses.replace(REFERENCE, label="old", pcrs=dict.fromkeys(VALUES, b"\x01" * 32), reference={})
    assert policy(other, REFERENCE).match(VALUES, LOG) == REFERENCE


@pytest.mark.parametrize(
    ("events", "pcr", "word"),
    [
        (("kernel 6.2", "component a", "component b"), 11, "event 1 is EV_IPL 'kernel 6.2', not EV_IPL 'kernel 6.1'"),
        (("kernel 6.1", "component a", "component X"), 13, "event 2 is EV_IPL 'component X'"),
        (("kernel 6.1", "component a"), 13, "event 2 is missing: EV_IPL 'component b'"),
        (("kernel 6.1", "component a", "component b", "component c"), 13, "event 3 is one too many"),
    ],
)
def test_mismatch_names_pcr_and_event(events: tuple[str, ...], pcr: int, word: str) -> None:
    log = EventLog(tuple(text_event(11 if text.startswith("kernel") else 13, text) for text in events))
    match = policy().match({p: log.value(p) for p in VALUES}, log)
    assert isinstance(match, Mismatch)
    assert (match.pcr, match.state) == (pcr, "reference")
    assert word in match.event


def test_nearest_state_is_named() -> None:
    far = dataclasses.replace(REFERENCE, label="far", pcrs=dict.fromkeys(VALUES, b"\x01" * 32), reference={})
    log = EventLog((*LOG.events[:2],))
    for states in ((far, REFERENCE), (REFERENCE, far)):
        match = policy(*states).match({pcr: log.value(pcr) for pcr in VALUES}, log)
        assert isinstance(match, Mismatch)
        assert match.state == "reference"


def test_unexplained_difference_says_so() -> None:
    match = policy().match(VALUES | {13: bytes(32)}, LOG)
    assert isinstance(match, Mismatch)
    assert match.event == "the logged events are those of the reference"


def test_unquoted_pcr_does_not_match() -> None:
    match = policy().match({0: VALUES[0]}, LOG)
    assert isinstance(match, Mismatch)
    assert match.found == "not quoted"


def test_pcr_by_allowed_events() -> None:
    digests = frozenset(event.digest for event in LOG.of(13))
    state = BootState("set", {11: VALUES[11]}, {13: digests})
    swapped = EventLog((LOG.events[0], LOG.events[2], LOG.events[1]))
    allowed = policy(state)
    assert allowed.match({p: swapped.value(p) for p in VALUES}, swapped) == state
    strange = EventLog((*LOG.events, text_event(13, "strange")))
    match = allowed.match({p: strange.value(p) for p in VALUES}, strange)
    assert isinstance(match, Mismatch)
    assert "strange" in match.event
    bare = EventLog(LOG.events[:1])
    match = allowed.match({p: bare.value(p) for p in VALUES}, bare)
    assert isinstance(match, Mismatch)
    assert match.found == "no event"


def test_validity_is_half_open() -> None:
    assert [policy().valid_at(now) for now in (9, 10, 19, 20)] == [False, True, True, False]


def test_reference_must_replay() -> None:
    with pytest.raises(PolicyError) as caught:
        reference_state("x", log=LOG, values=VALUES | {13: bytes(32)}, pcrs=(13,))
    assert "PCR 13" in caught.value.found
    with pytest.raises(PolicyError):
        reference_state("x", log=LOG, values=VALUES, pcrs=(12,))


def test_signed_policy_reads_back() -> None:
    signer = cose.Ed25519Signer.generate()
    parsed, message = parse_policy(policy().sign(signer))
    cose.verify(message, public=signer.public)
    assert parsed == policy()


def test_payload_follows_its_cddl() -> None:
    digests = frozenset(event.digest for event in LOG.of(13))
    schema = pycddl.Schema(CDDL.read_text())
    for state in (REFERENCE, BootState("set", {11: VALUES[11]}, {13: digests})):
        schema.validate_cbor(policy(state).encode())


def _payload(**changes: object) -> dict[int, object]:
    payload = cbor.loads(policy().encode())
    assert isinstance(payload, dict)
    return {int(key): value for key, value in payload.items()} | {int(k[1:]): v for k, v in changes.items()}


STATE = {1: "s", 2: {13: bytes(32)}}
REFUSED = {
    "format": {"k1": 2},
    "name-empty": {"k2": ""},
    "version-zero": {"k3": 0},
    "validity-empty": {"k4": 20, "k5": 20},
    "validity-negative": {"k4": -1},
    "kinds-none": {"k6": []},
    "kinds-unknown": {"k6": ["vtpm"]},
    "kinds-order": {"k6": ["swtpm", "hardware"]},
    "kinds-twice": {"k6": ["swtpm", "swtpm"]},
    "states-none": {"k7": []},
    "states-too-many": {"k7": [STATE] * 33},
    "states-other-pcrs": {"k7": [STATE, {1: "t", 2: {12: bytes(32)}}]},
    "state-no-map": {"k7": [1]},
    "state-empty": {"k7": [{1: "s", 2: {}}]},
    "state-unknown-key": {"k7": [STATE | {9: 1}]},
    "state-pcrs-no-map": {"k7": [{1: "s", 2: [1]}]},
    "state-pcr-range": {"k7": [{1: "s", 2: {24: bytes(32)}}]},
    "state-pcr-text": {"k7": [{1: "s", 2: {"13": bytes(32)}}]},
    "state-digest-size": {"k7": [{1: "s", 2: {13: bytes(31)}}]},
    "state-twice-judged": {"k7": [STATE | {3: {13: [bytes(32)]}}]},
    "state-events-empty": {"k7": [{1: "s", 2: {}, 3: {13: []}}]},
    "state-events-order": {"k7": [{1: "s", 2: {}, 3: {13: [b"\1" * 32, bytes(32)]}}]},
    "reference-other-pcr": {"k7": [STATE | {4: {12: []}}]},
    "reference-no-list": {"k7": [STATE | {4: {13: 1}}]},
    "reference-shape": {"k7": [STATE | {4: {13: [[bytes(32)]]}}]},
    "reference-text-too-long": {"k7": [STATE | {4: {13: [[bytes(32), "x" * 257]]}}]},
    "unknown-key": {"k8": 1},
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(rule: str) -> None:
    with pytest.raises(AttestError):
        parse_payload(cbor.dumps(_payload(**REFUSED[rule])))


def test_maker_has_the_parsers_rules() -> None:
    with pytest.raises(AttestError):
        make_policy(name="", version=1, states=[REFERENCE], not_before_ns=0, not_after_ns=1, tpm_kinds=["swtpm"])
    with pytest.raises(PolicyError):
        make_policy(name="x", version=1, states=[REFERENCE], not_before_ns=1, not_after_ns=1, tpm_kinds=["swtpm"])


@given(st.data())
def test_mutated_policy_gives_a_policy_or_a_typed_error(data: st.DataObject) -> None:
    mutated = bytearray(policy().encode())
    mutated[data.draw(st.integers(0, len(mutated) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        parsed = parse_payload(bytes(mutated))
    except AttestError:
        return
    assert parsed.encode() == bytes(mutated)
