"""The checks of the quote: who signed it, what it vouches for, which PCR values it is about."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import structures
from attest.boot.policy import BootPolicy
from attest.evidence.claims import Evidence, qualifying_data
from attest.evidence.record import DeviceRecord
from attest.evidence.verdict import Checklist
from attest.structures import AK_ATTRIBUTES, GENERATED, QuoteInfo, StructureError


def check_quote(
    checks: Checklist, evidence: Evidence | None, record: DeviceRecord | None, nonce: bytes
) -> QuoteInfo | None:
    if evidence is None:
        return None
    name = structures.object_name(evidence.ak_public)
    try:
        ak = structures.parse_ecc_public(evidence.ak_public)
    except StructureError as error:
        checks.judge("ak-name", False, found=error.found, expected=error.expected)
    else:
        if record is not None:
            ok = evidence.ak_public == record.ak_public and ak.attributes == AK_ATTRIBUTES
            found = f"{name.hex()} (attributes 0x{ak.attributes:08x})"
            expected = f"{record.ak_name.hex()} (attributes 0x{AK_ATTRIBUTES:08x})"
            checks.judge("ak-name", ok, found=found, expected=expected)
        fault = _quote_signature_fault(ak.point, evidence)
        checks.judge("quote-signature", fault is None, found=fault or "verifies", expected=f"one by AK {name.hex()}")
    magic = structures.quote_magic(evidence.quote_attest)
    try:
        quote = structures.parse_quote(evidence.quote_attest)
    except StructureError as error:
        checks.judge("quote-magic", False, found=error.found, expected="a quote")
        return None
    checks.judge("quote-magic", magic == GENERATED, found=f"0x{magic:08x}", expected=f"0x{GENERATED:08x}")
    expected_data = qualifying_data(
        nonce=nonce,
        session_public=evidence.session_public,
        module_digest=evidence.module_digest,
        deployment_digest=evidence.deployment_digest,
    )
    ok = quote.extra_data == expected_data
    checks.judge("quote-qualifying", ok, found=quote.extra_data.hex() or "nothing", expected=expected_data.hex())
    return quote


def _quote_signature_fault(point: bytes, evidence: Evidence) -> str | None:
    try:
        r, s = structures.parse_ecdsa_signature(evidence.quote_signature)
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        key.verify(encode_dss_signature(r, s), evidence.quote_attest, ec.ECDSA(hashes.SHA256()))
    except StructureError as error:
        return error.found
    except InvalidSignature:
        return "a signature that does not verify"
    except ValueError:
        return "an AK that is no point of P-256"
    return None


def check_pcrs(checks: Checklist, evidence: Evidence, quote: QuoteInfo, policy: BootPolicy | None) -> None:
    shown = tuple(sorted(evidence.pcrs))
    if policy is not None:
        needed = policy.pcrs
        ok = quote.pcrs == shown and set(needed) <= set(quote.pcrs)
        found = f"quoted {numbers(quote.pcrs)}, shown {numbers(shown)}"
        checks.judge("pcr-selection", ok, found=found, expected=f"the same, with at least {numbers(needed)}")
    digest = structures.composite_digest(evidence.pcrs)
    ok = quote.pcr_digest == digest
    checks.judge("quote-pcr-digest", ok, found=digest.hex(), expected=f"{quote.pcr_digest.hex()} as quoted")


def numbers(pcrs: Iterable[int]) -> str:
    return ",".join(str(pcr) for pcr in sorted(pcrs))
