"""Making evidence on the device: one quote bound to nonce, session key, module and deployment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from attest.boot.measure import QUOTED_PCRS
from attest.cose import Signer
from attest.evidence.claims import Evidence, qualifying_data
from attest.evidence.errors import EvidenceError
from attest.evidence.record import parse_record
from attest.structures import Ak, Quote, composite_digest, parse_quote

_ATTEMPTS: Final = 3  # an extend between quote and read is rare; twice in a row is something else


class QuotingTpm(Protocol):
    """The part of a ``TpmDevice`` that evidence needs."""

    @property
    def kind(self) -> str:
        """``hardware`` or ``swtpm``."""
        ...

    def ak(self) -> Ak:
        """Attestation key."""
        ...

    def quote(self, pcrs: Iterable[int], qualifying: bytes, /) -> Quote:
        """TPM2_Quote over the SHA-256 bank."""
        ...

    def read_pcrs(self, pcrs: Iterable[int], /) -> dict[int, bytes]:
        """SHA-256 values by PCR."""
        ...


def build(
    tpm: QuotingTpm,
    *,
    signer: Signer,
    nonce: bytes,
    module_digest: bytes,
    deployment_digest: bytes,
    event_log: bytes,
    record: bytes,
    pcrs: Iterable[int] = QUOTED_PCRS,
) -> bytes:
    """Signed evidence for one epoch.

    ``signer`` is the session key (Ed25519), ``record`` the signed device record, ``pcrs`` at least those of the
    boot policy. Raises ``TpmError`` subclasses, or ``EvidenceError`` (``evidence-race``) where PCRs keep moving.
    """
    chosen = tuple(sorted(set(pcrs)))
    enrolled, _ = parse_record(record)
    qualifying = qualifying_data(
        nonce=nonce,
        session_public=signer.public,
        module_digest=module_digest,
        deployment_digest=deployment_digest,
    )
    for _ in range(_ATTEMPTS):
        quote = tpm.quote(chosen, qualifying)
        values = tpm.read_pcrs(chosen)
        info = parse_quote(quote.attest)
        if composite_digest(values) == info.pcr_digest:
            break
    else:
        raise EvidenceError(
            "evidence-race", found=f"PCRs that changed in {_ATTEMPTS} attempts", expected="PCRs that hold still"
        )
    evidence = Evidence(
        nonce=nonce,
        session_public=signer.public,
        module_digest=module_digest,
        deployment_digest=deployment_digest,
        ak_public=tpm.ak().public,
        record_id=enrolled.record_id,
        quote_attest=quote.attest,
        quote_signature=quote.signature,
        pcrs=values,
        event_log=event_log,
        reset_count=info.reset_count,
        restart_count=info.restart_count,
        tpm_kind=tpm.kind,
    )
    return evidence.sign(signer)
