"""The verifier: every lie is refused by its named check, all checks are listed, nothing crashes it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.evidence import verify
from attest.evidence.claims import Evidence, parse_evidence
from attest.evidence.seen import Seen
from attest.evidence.verdict import NOT_MADE
from attest.evidence.verify import CHECKS, verify_evidence
from tests.attest.evidence.cases import CASES, HONEST
from tests.attest.evidence.forge import Case
from tests.attest.evidence.make_vectors import SCHEMA, VECTORS

HONEST_BYTES = HONEST.evidence()
KEYS = {"schema", "comment", "result", "flags", "evidence", "arguments"}


@pytest.mark.parametrize("name", CASES)
def test_case_fails_exactly_its_checks(name: str) -> None:
    case, expected = CASES[name]
    verdict = case.verdict()
    assert tuple(check.name for check in verdict.checks if not check.ok) == expected
    assert verdict.ok is not bool(expected)
    assert (verdict.failed.name if verdict.failed else None) == (expected[0] if expected else None)


@pytest.mark.parametrize("name", CASES)
def test_golden_vector(name: str) -> None:
    vector = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert set(vector) == KEYS
    assert vector["schema"] == SCHEMA
    arguments = {
        key: bytes.fromhex(value) if isinstance(value, str) else Seen(**value) if key == "seen" else value
        for key, value in vector["arguments"].items()
    }
    verdict = verify_evidence(bytes.fromhex(vector["evidence"]), **arguments)
    assert [check.name for check in verdict.checks if not check.ok] == vector["flags"]
    assert ("valid" if verdict.ok else "invalid") == vector["result"]


def test_every_vector_has_its_case_and_every_check_a_vector() -> None:
    assert {path.stem for path in VECTORS.glob("*.json")} == set(CASES)
    assert {failed for _, flags in CASES.values() for failed in flags} == set(CHECKS)
    assert {flags[0] for _, flags in CASES.values() if flags} == set(CHECKS)


@pytest.mark.parametrize("name", CASES)
def test_all_checks_are_listed_in_order(name: str) -> None:
    verdict = CASES[name][0].verdict()
    assert tuple(check.name for check in verdict.checks) == CHECKS
    assert [check.number for check in verdict.checks] == list(range(1, len(CHECKS) + 1))
    assert all(check.found and check.expected for check in verdict.checks)
    assert all(f"{check.number}." in (verify.__doc__ or "") for check in verdict.checks)


def test_docstring_numbers_are_the_codes_numbers() -> None:
    lines = [line.split("``")[1] for line in (verify.__doc__ or "").splitlines() if line.lstrip()[:1].isdigit()]
    assert tuple(lines) == CHECKS


def test_check_that_could_not_be_made_is_a_failure() -> None:
    verdict = Case(raw=b"").verdict()
    assert {check.found for check in verdict.checks if check.name == "nonce"} == {NOT_MADE}
    assert not verdict.ok


def test_verdict_of_refused_evidence_names_no_key() -> None:
    verdict = Case(seen=Seen(reset_count=8)).verdict()
    assert (verdict.session_public, verdict.device_id, verdict.policy_name) == (b"", "", "")


def test_verdict_of_honest_evidence() -> None:
    verdict = HONEST.verdict()
    assert verdict.failed is None
    assert verdict.session_public == HONEST.session.public
    assert (verdict.reset_count, verdict.restart_count, verdict.tpm_kind) == (7, 1, "swtpm")
    assert (verdict.policy_name, verdict.policy_version, verdict.boot_state) == ("mill", 1, "reference")
    assert verdict.device_id == "mill-1"
    assert len(verdict.ak_name) == 34
    assert "ok" in str(verdict.checks[0])


def test_boot_policy_failure_names_pcr_and_event() -> None:
    check = CASES["boot-policy-unapproved-component"][0].verdict().failed
    assert check is not None
    assert "PCR 13" in check.found
    assert "sits:component attest 2" in check.found
    assert "sits:component attest 1" in check.found


def test_verifier_needs_no_device() -> None:
    assert "attest.tpm" not in _imports_of_verifier()
    assert "tpm2_pytss" not in _imports_of_verifier()


def _imports_of_verifier() -> set[str]:
    program = "import sys, attest.evidence.verify, attest.evidence.none; print(*sys.modules)"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@settings(max_examples=200)
@given(position=st.integers(0, len(HONEST_BYTES) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused(position: int, bit: int) -> None:
    mutated = bytearray(HONEST_BYTES)
    mutated[position] ^= 1 << bit
    assert not Case(raw=bytes(mutated)).verdict().ok


@settings(max_examples=100)
@given(data=st.data())
def test_resigned_mutations_never_crash_and_never_pass(data: st.DataObject) -> None:
    """An attacker who holds the session key can sign any claims; the quote does not follow."""
    name = data.draw(
        st.sampled_from(["quote_attest", "quote_signature", "ak_public", "event_log", "record_id", "module_digest"])
    )
    original = getattr(_honest_claims(), name)
    mutated = bytearray(original)
    mutated[data.draw(st.integers(0, len(mutated) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(1, len(mutated))) if not name.endswith(("_id", "_digest")) else len(mutated)
    verdict = Case(claims={name: bytes(mutated[:cut])}).verdict()
    assert not verdict.ok
    assert len(verdict.checks) == len(CHECKS)


@settings(max_examples=100)
@given(evidence=st.binary(max_size=200), record=st.binary(max_size=200), policy=st.binary(max_size=200))
def test_any_bytes_give_a_verdict(evidence: bytes, record: bytes, policy: bytes) -> None:
    verdict = dataclasses.replace(HONEST, raw=evidence, record=record, policy=policy).verdict()
    assert not verdict.ok
    assert len(verdict.checks) == len(CHECKS)


def _honest_claims() -> Evidence:
    return parse_evidence(HONEST_BYTES)[0]
