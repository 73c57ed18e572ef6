"""Approvals and the files of sealing: no TPM here."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pycddl
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

import attest.tpm
from attest.boot.policy import BootPolicy, BootState, make_policy
from attest.errors import AttestError
from attest.tpm import SealError
from attest.tpm.approval import (
    MAX_APPROVALS,
    MAX_FILE_BYTES,
    approve,
    approve_policy,
    encode_approvals,
    parse_approvals,
    parse_target,
)
from attest.tpm.secret import SealedSecret, parse_secret
from tests.attest.tpm.make_vectors import AUTHORITY, GOLDEN, PCRS, SECRET, SIGN, TARGET, UNSEAL, VECTORS, everything

SCHEMA = pycddl.Schema(Path(attest.tpm.__file__).with_name("seal-files.cddl").read_text())
PARSERS: dict[str, Callable[[bytes], object]] = {
    "target": parse_target,
    "approvals": parse_approvals,
    "secret": parse_secret,
}
FILES = sorted(path.stem for path in VECTORS.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    assert set(vector) == {"schema", "kind", "result", "data"}
    return vector


def test_the_files_are_what_the_program_makes() -> None:
    assert {name: load(name) for name in FILES} == everything()


@pytest.mark.parametrize("name", FILES)
def test_vector(name: str) -> None:
    vector = load(name)
    data, parse = bytes.fromhex(vector["data"]), PARSERS[vector["kind"]]
    if vector["result"] == "valid":
        SCHEMA.validate_cbor(data)
        assert parse(data) == {"target": TARGET, "approvals": (SIGN, UNSEAL), "secret": SECRET}[vector["kind"]]
    else:
        with pytest.raises(AttestError):
            parse(data)


def test_golden_signatures_hold_over_the_golden_digests() -> None:
    for approval in (SIGN, UNSEAL):
        r, s = (int.from_bytes(part, "big") for part in (approval.signature[:32], approval.signature[32:]))
        algorithm = ec.ECDSA(Prehashed(hashes.SHA256()))
        AUTHORITY.public_key().verify(encode_dss_signature(r, s), approval.signed_digest, algorithm)
    assert SIGN.policy_digest.hex() == "e1826323df97e018c572ba7fa04874859dfe8cb39e271810aa35f8745a831176"
    assert UNSEAL.policy_digest.hex() == "0bbd9a08c5acfe259c43e52bb4d0bcbd38f5600abd1b7d458af1ca90ac6bc34a"


@given(data=st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_typed_error(data: bytes) -> None:
    for parse in PARSERS.values():
        with pytest.raises(AttestError):
            parse(data)


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), kind=st.sampled_from(sorted(GOLDEN)))
def test_flipped_bits_never_give_the_same_value(at: int, bit: int, kind: str) -> None:
    data = bytearray(GOLDEN[kind][1])
    data[at % len(data)] ^= 1 << bit
    try:
        value = PARSERS[kind](bytes(data))
    except AttestError:
        return
    assert value != PARSERS[kind](GOLDEN[kind][1])


@given(
    label=st.text(min_size=1, max_size=128),
    generation=st.integers(0, (1 << 64) - 1),
    pcrs=st.dictionaries(st.integers(0, 23), st.binary(min_size=32, max_size=32), min_size=1),
    count=st.integers(1, 5),
)
def test_what_is_written_is_read_again(label: str, generation: int, pcrs: dict[int, bytes], count: int) -> None:
    label = label.encode("utf-8", "ignore").decode() or "x"
    approval = dataclasses.replace(SIGN, label=label, generation=generation, pcrs=pcrs)
    data = encode_approvals([approval] * count)
    assert parse_approvals(data) == (approval,) * count
    SCHEMA.validate_cbor(data)


@given(private=st.binary(min_size=1, max_size=512))
def test_secret_is_read_again(private: bytes) -> None:
    secret = SealedSecret(authority=SIGN.authority, unique=bytes(32), private=private)
    assert parse_secret(secret.encode()) == secret


def test_every_part_of_an_approval_is_under_the_signature() -> None:
    """All but the label and the authority, whose key name is in the sealed objects' policy."""
    other: dict[str, Any] = {
        "use": "unseal",
        "device": b"\x00\x0b" + bytes(32),
        "counter": b"\x00\x0b" + bytes(32),
        "generation": 5,
        "pcrs": PCRS | {0: bytes(32)},
    }
    digests = {dataclasses.replace(SIGN, **{key: value}).signed_digest for key, value in other.items()}
    assert len(digests | {SIGN.signed_digest}) == len(other) + 1
    assert dataclasses.replace(SIGN, pcrs=dict(list(PCRS.items())[:2])).signed_digest not in digests


def test_all_states_of_a_boot_policy_are_approved_for_both_uses() -> None:
    policy = _policy({"old": PCRS, "new": PCRS | {4: bytes(32)}})
    approvals = approve_policy(TARGET, policy, pcrs=[7, 4], authority=AUTHORITY, generation=5)
    assert [(a.label, a.use, a.generation) for a in approvals] == [
        ("old", "sign", 5),
        ("old", "unseal", 5),
        ("new", "sign", 5),
        ("new", "unseal", 5),
    ]
    assert [a.pcrs for a in approvals[::2]] == [{4: PCRS[4], 7: PCRS[7]}, {4: bytes(32), 7: PCRS[7]}]
    assert len(approvals) <= MAX_APPROVALS


def test_state_that_leaves_a_pcr_open_cannot_be_approved() -> None:
    with pytest.raises(SealError) as caught:
        approve_policy(TARGET, _policy({"old": PCRS}), pcrs=[4, 11], authority=AUTHORITY)
    assert caught.value.code == "seal-pcrs"
    assert "PCR 11 in state 'old'" in caught.value.found


@pytest.mark.parametrize("pcrs", [{}, {24: bytes(32)}, {-1: bytes(32)}, {0: bytes(31)}])
def test_approval_of_no_boot_state_is_refused(pcrs: dict[int, bytes]) -> None:
    with pytest.raises(SealError) as caught:
        approve(TARGET, label="x", use="sign", pcrs=pcrs, authority=AUTHORITY)
    assert caught.value.code == "seal-pcrs"


@pytest.mark.parametrize("generation", [TARGET.generation - 1, 1 << 64])
def test_generation_that_is_withdrawn_already_is_refused(generation: int) -> None:
    with pytest.raises(SealError) as caught:
        approve(TARGET, label="x", use="sign", pcrs=PCRS, authority=AUTHORITY, generation=generation)
    assert caught.value.code == "seal-stale"


def test_authority_on_another_curve_is_refused() -> None:
    with pytest.raises(SealError) as caught:
        approve(TARGET, label="x", use="sign", pcrs=PCRS, authority=ec.derive_private_key(7, ec.SECP384R1()))
    assert caught.value.code == "seal-authority"


def test_huge_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(AttestError) as caught:
        parse_approvals(bytes(MAX_FILE_BYTES + 1))
    assert caught.value.code == "cbor-limit"


def test_the_authority_needs_no_tpm_library() -> None:
    program = "import sys; sys.modules['tpm2_pytss'] = None; import attest.tpm.approval, attest.tpm.secret"
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)


def _policy(states: dict[str, dict[int, bytes]]) -> BootPolicy:
    return make_policy(
        name="mill",
        version=1,
        states=[BootState(label=label, pcrs=pcrs) for label, pcrs in states.items()],
        not_before_ns=0,
        not_after_ns=1,
        tpm_kinds=["swtpm"],
    )


def test_reference_of_a_device_is_its_own() -> None:
    assert SIGN.signed_digest != hashlib.sha256(SIGN.policy_digest).digest()
