"""Making evidence on the device: one quote bound to nonce, session key, module and deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

from attest.boot.ima import PCR_IMA
from attest.boot.measure import QUOTED_PCRS
from attest.cose import Signer
from attest.evidence.claims import MAX_IMA_BYTES, CommandKey, Evidence, qualifying_data
from attest.evidence.errors import EvidenceError
from attest.evidence.record import parse_record
from attest.structures import Ak, Quote, composite_digest, parse_quote

_ATTEMPTS: Final = 3  # an extend between quote and read is rare; twice in a row is something else


IMA_LIST: Final = Path("/sys/kernel/security/ima/binary_runtime_measurements")
IMA_PCRS: Final = tuple(range(PCR_IMA + 1))  # PCR 10, and the ten that its boot aggregate covers


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
    read_ima: Callable[[], bytes] | None = None,
    certify: Callable[[bytes], CommandKey] | None = None,
) -> bytes:
    """Signed evidence for one epoch.

    ``signer`` is the session key (Ed25519), ``record`` the signed device record, ``pcrs`` at least those of the
    boot policy. With ``read_ima`` (``ima_list`` where the kernel has one) PCR 10 is quoted as well, with PCR 0..9 for
    its boot aggregate; the list is read after the quote, so that it holds at least what the quote vouches for.
    ``certify`` (of the qualifying data) introduces a key of the TPM that signs the commands. Raises
    ``TpmError`` subclasses, or ``EvidenceError`` (``evidence-race``) where PCRs keep moving, (``ima-list``) where the
    list is too long.
    """
    chosen = tuple(sorted({*pcrs, *(IMA_PCRS if read_ima is not None else ())}))
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
        ima_log=None if read_ima is None else read_ima(),
        command_key=None if certify is None else certify(qualifying),
    )
    return evidence.sign(signer)


def ima_list(path: Path = IMA_LIST) -> bytes:
    """The kernel's list, at most ``MAX_IMA_BYTES``. Raises ``EvidenceError`` (``ima-list``) or ``OSError``."""
    with path.open("rb") as file:
        data = file.read(MAX_IMA_BYTES + 1)
    if len(data) > MAX_IMA_BYTES:
        raise EvidenceError(
            "ima-list",
            found=f"more than {MAX_IMA_BYTES} bytes",
            expected=f"at most {MAX_IMA_BYTES}",
            hint="use an IMA policy that measures fewer files, or leave PCR 10 out of the deployment",
        )
    return data
