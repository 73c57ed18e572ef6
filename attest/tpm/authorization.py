"""From an approval to a policy session that sealed objects accept.

The TPM decides: every condition is in the policy. What is looked at before only names the condition that fails, which
a TPM tells by a number at best.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_CC, TPM2_EO
from tpm2_pytss.types import (
    TPM2B_ECC_PARAMETER,
    TPM2B_OPERAND,
    TPM2B_PUBLIC,
    TPMS_SIGNATURE_ECC,
    TPMT_SIGNATURE,
    TPMU_SIGNATURE,
)

from attest.policies import POINT_BYTES, authority_name, authority_public, policy_reference
from attest.structures import composite_digest
from attest.tpm import counters, keys
from attest.tpm.approval import Approval, Use
from attest.tpm.counters import Counter
from attest.tpm.device import read_pcrs, selection
from attest.tpm.errors import SealError
from attest.tpm.responses import RC_POLICY, RC_SIGNATURE, RC_VALUE, base_code

_CODES: Final[dict[Use, Any]] = {"sign": TPM2_CC.Sign, "unseal": TPM2_CC.Unseal}


@dataclass(frozen=True, slots=True)
class CounterIndex:
    """The approval counter in one ESAPI context: its ``ESYS_TR``, and its name."""

    handle: Any
    name: bytes


def choose(
    esapi: Any, approvals: Sequence[Approval], *, use: Use, authority: bytes, device: bytes, counter: CounterIndex
) -> Approval:
    """The first approval that should hold; else the refusal of the one that came furthest."""
    generation = counters.read(esapi, Counter.APPROVALS)
    values = read_pcrs(esapi, {pcr for approval in approvals for pcr in approval.pcrs}) if approvals else {}
    nearest = (-1, refused("seal-approvals", "no approval", "one for this device, state and use"))
    for approval in approvals:
        wrong = [pcr for pcr, value in sorted(approval.pcrs.items()) if values[pcr] != value]
        state = f"PCR {wrong[0]} = {values[wrong[0]].hex()}" if wrong else ""
        expected = f"{approval.pcrs[wrong[0]].hex()} (state {approval.label!r})" if wrong else ""
        checks = (
            (approval.authority == authority, "seal-authority", approval.authority.hex(), "our authority"),
            (approval.device == device, "seal-device", f"AK {approval.device.hex()}", device.hex()),
            (approval.use == use, "seal-use", f"an approval to {approval.use}", f"one to {use}"),
            (approval.counter == counter.name, "seal-counter", approval.counter.hex(), counter.name.hex()),
            (
                approval.generation >= generation,
                "seal-stale",
                f"generation {approval.generation}",
                f"{generation} or more",
            ),
            (not wrong, "seal-state", state, expected),
        )
        failed = next((step for step, check in enumerate(checks) if not check[0]), None)
        if failed is None:
            return approval
        if failed > nearest[0]:
            nearest = (failed, refused(*checks[failed][1:]))
    raise nearest[1]


def authorize(esapi: Any, session: Any, approval: Approval, ticket: Any, *, counter: CounterIndex) -> None:
    """Bring a policy session to the state that sealed objects demand. Raises ``SealError`` with what is not so."""
    pcrs, digest = selection(approval.pcrs), composite_digest(approval.pcrs)
    with naming("seal-state", RC_VALUE, "other PCR values", f"those of state {approval.label!r}"):
        esapi.policy_pcr(session, digest, pcrs)
    with naming("seal-stale", RC_POLICY, f"generation {approval.generation}", "one that was not withdrawn"):
        operand = TPM2B_OPERAND(approval.generation.to_bytes(8, "big"))
        esapi.policy_nv(counter.handle, counter.handle, session, operand, TPM2_EO.UNSIGNED_LE)
    esapi.policy_command_code(session, _CODES[approval.use])
    with naming("seal-signature", RC_VALUE, "another policy than the one signed", "the approval as it was made"):
        esapi.policy_authorize(
            session,
            approval.policy_digest,
            authority_name(approval.authority),
            ticket,
            policy_ref=policy_reference(approval.device),
        )


def ticket(esapi: Any, approval: Approval) -> Any:
    """TPM2_VerifySignature: the TPM's own word that the authority signed this policy."""
    half = POINT_BYTES // 2
    signature = approval.signature
    area = keys.unmarshal_public(authority_public(approval.authority))
    signed = TPMT_SIGNATURE(
        sigAlg=TPM2_ALG.ECDSA,
        signature=TPMU_SIGNATURE(
            ecdsa=TPMS_SIGNATURE_ECC(
                hash=TPM2_ALG.SHA256,
                signatureR=TPM2B_ECC_PARAMETER(signature[:half]),
                signatureS=TPM2B_ECC_PARAMETER(signature[half:]),
            )
        ),
    )
    handle = esapi.load_external(TPM2B_PUBLIC(publicArea=area), hierarchy=ESYS_TR.OWNER)
    try:
        with naming("seal-signature", RC_SIGNATURE, "a signature that does not hold", "the authority's"):
            return esapi.verify_signature(handle, approval.signed_digest, signed)
    finally:
        esapi.flush_context(handle)


@contextlib.contextmanager
def naming(code: str, rcs: int | tuple[int, ...], found: str, expected: str) -> Iterator[None]:
    """Give these response codes of the TPM, and no others, a name."""
    try:
        yield
    except TSS2_Exception as error:
        if base_code(int(error.rc)) in (rcs if isinstance(rcs, tuple) else (rcs,)):
            raise refused(code, found, expected) from error
        raise


def refused(code: str, found: str, expected: str) -> SealError:
    """The refusal of one condition."""
    hints = {
        "seal-state": "boot the approved state, or have the policy authority approve this one",
        "seal-stale": "ask the policy authority for an approval of this generation",
        "seal-authority": "give the approvals of the plant's policy authority",
    }
    return SealError(code, found=found, expected=expected, hint=hints.get(code, ""))
