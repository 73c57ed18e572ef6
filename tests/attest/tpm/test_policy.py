"""Policy digests computed without a TPM equal those of a trial session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_CC, TPM2_SE
from tpm2_pytss.types import TPM2B_OPERAND

from attest import policies as policy
from attest.policies import authority_name, policy_reference, sealing_policy
from attest.structures import EK_POLICY, RH_ENDORSEMENT, composite_digest, u32
from attest.tpm import TpmDevice, authorization, counters
from attest.tpm.approval import approve, authority_point
from attest.tpm.counters import Counter
from attest.tpm.device import selection
from attest.tpm.sealing import Sealing
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm

AUTHORITY = ec.derive_private_key(7, ec.SECP256R1())
CHEAP = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    with (
        fresh_swtpm(tmp_path_factory.mktemp("policy") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        yield device


@contextlib.contextmanager
def trial(device: TpmDevice) -> Iterator[tuple[Any, Any]]:
    with device.connection.call() as esapi:
        session = esapi.start_auth_session(ESYS_TR.NONE, ESYS_TR.NONE, TPM2_SE.TRIAL, None, TPM2_ALG.SHA256)
        try:
            yield esapi, session
        finally:
            esapi.flush_context(session)


@CHEAP
@given(values=st.dictionaries(st.integers(0, 23), st.binary(min_size=32, max_size=32), min_size=1))
def test_pcr_policy_equals_the_trial_sessions(shared: TpmDevice, values: dict[int, bytes]) -> None:
    with trial(shared) as (esapi, session):
        esapi.policy_pcr(session, composite_digest(values), selection(values))
        assert bytes(esapi.policy_get_digest(session)) == policy.policy_pcr(policy.START, values)


@CHEAP
@given(generation=st.integers(0, (1 << 64) - 1))
def test_counter_policy_equals_the_trial_sessions(shared: TpmDevice, generation: int) -> None:
    operand = generation.to_bytes(8, "big")
    shared.ledger_counter.create()
    with trial(shared) as (esapi, session):
        handle, name = counters.handle_and_name(esapi, Counter.LEDGER)
        esapi.policy_nv(handle, handle, session, TPM2B_OPERAND(operand), policy.EO_UNSIGNED_LE)
        expected = policy.policy_nv(policy.START, name=name, operand=operand, operation=policy.EO_UNSIGNED_LE)
        assert bytes(esapi.policy_get_digest(session)) == expected


@pytest.mark.parametrize(
    ("code", "ours"), [(TPM2_CC.Sign, policy.CC_SIGN), (TPM2_CC.Unseal, policy.CC_UNSEAL)], ids=["sign", "unseal"]
)
def test_command_policy_equals_the_trial_sessions(shared: TpmDevice, code: TPM2_CC, ours: int) -> None:
    with trial(shared) as (esapi, session):
        esapi.policy_command_code(session, code)
        assert bytes(esapi.policy_get_digest(session)) == policy.policy_command_code(policy.START, ours)


def test_secret_policy_is_the_ek_templates(shared: TpmDevice) -> None:
    assert policy.policy_secret(policy.START, name=u32(RH_ENDORSEMENT)) == EK_POLICY
    with trial(shared) as (esapi, session):
        esapi.policy_secret(ESYS_TR.ENDORSEMENT, session, expiration=0, policy_ref=b"ref")
        expected = policy.policy_secret(policy.START, name=u32(RH_ENDORSEMENT), reference=b"ref")
        assert bytes(esapi.policy_get_digest(session)) == expected


def test_whole_approval_equals_the_sessions(shared: TpmDevice) -> None:
    """PCRs, counter and command give the approved digest; PolicyAuthorize gives the sealed objects' policy."""
    target = Sealing(shared, authority_point(AUTHORITY.public_key())).target()
    approval = approve(target, label="x", use="sign", pcrs=shared.read_pcrs([0, 7, 23]), authority=AUTHORITY)
    with trial(shared) as (esapi, session):
        counter = authorization.CounterIndex(*counters.handle_and_name(esapi, Counter.APPROVALS))
        authorization.authorize(esapi, session, approval, authorization.ticket(esapi, approval), counter=counter)
        assert bytes(esapi.policy_get_digest(session)) == sealing_policy(approval.authority, target.device)


def test_authorize_policy_depends_on_key_and_reference() -> None:
    point, device = authority_point(AUTHORITY.public_key()), os.urandom(34)
    digests = {
        sealing_policy(point, device),
        sealing_policy(point, bytes(34)),
        sealing_policy(bytes(64), device),
        policy.policy_authorize(key_name=authority_name(point), reference=b""),
    }
    assert len(digests) == 4
    assert len(policy_reference(device)) == 32
