"""The evidence object (CDDL ``evidence.cddl``): a COSE_Sign1 by the session key over a map of claims.

Claims that IETF RATS EAT (RFC 9711) defines keep its keys: nonce 10, profile 265, bootcount 267; the session key is
the confirmation key (``cnf`` 8, RFC 8747) as a COSE_Key. Ours are in the private-use range below -65536.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from attest import cbor, cose
from attest.boot.eventlog import MAX_LOG_BYTES
from attest.evidence.errors import EvidenceError
from attest.structures import DIGEST_BYTES, PCR_COUNT

CONTENT_TYPE: Final = "application/vnd.sits.evidence+cbor"
PROFILE: Final = "urn:sits:evidence:1"
QUALIFYING_PREFIX: Final = b"sits-epoch-v1"
NONCE_BYTES_MIN: Final = 16
NONCE_BYTES_MAX: Final = 64  # EAT: 8..64; under 128 bits a nonce could repeat
MAX_IMA_BYTES: Final = 1024 * 1024  # some ten thousand files measured since the start
MAX_EVIDENCE_BYTES: Final = MAX_LOG_BYTES + MAX_IMA_BYTES + 64 * 1024
TPM_KINDS: Final = ("hardware", "swtpm")

CNF: Final = 8
EAT_NONCE: Final = 10
EAT_PROFILE: Final = 265
BOOTCOUNT: Final = 267
MODULE_DIGEST: Final = -70001
DEPLOYMENT_DIGEST: Final = -70002
AK_PUBLIC: Final = -70003
RECORD_ID: Final = -70004
QUOTE_ATTEST: Final = -70005
QUOTE_SIGNATURE: Final = -70006
PCR_VALUES: Final = -70007
EVENT_LOG: Final = -70008
RESTART_COUNT: Final = -70009
TPM_KIND: Final = -70010
IMA_LOG: Final = -70011
COMMAND_KEY: Final = -70012
COMMAND_KEY_ATTEST: Final = -70013
COMMAND_KEY_SIGNATURE: Final = -70014

_COSE_KEY: Final = 1  # cnf member (RFC 8747 §3.1)
_KTY, _OKP, _CRV, _ED25519, _X = 1, 1, -1, 6, -2  # RFC 9053 §7.2
_MAX_STRUCTURE: Final = 1024


@dataclass(frozen=True, slots=True)
class CommandKey:
    """A key inside the TPM that signs the commands: TPMT_PUBLIC, and what TPM2_CertifyCreation by the AK returned.

    The TPMS_ATTEST's extra data is the qualifying data of the quote, so that it belongs to this epoch and session key.
    """

    public: bytes
    attest: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """The claims, parsed; nothing about them is verified yet."""

    nonce: bytes
    session_public: bytes
    module_digest: bytes
    deployment_digest: bytes
    ak_public: bytes
    record_id: bytes
    quote_attest: bytes
    quote_signature: bytes
    pcrs: Mapping[int, bytes]
    event_log: bytes
    reset_count: int
    restart_count: int
    tpm_kind: str
    ima_log: bytes | None = None
    command_key: CommandKey | None = None

    def encode(self) -> bytes:
        """The payload, deterministic CBOR."""
        claims: dict[int, object] = {
            CNF: session_confirmation(self.session_public),
            EAT_NONCE: self.nonce,
            EAT_PROFILE: PROFILE,
            BOOTCOUNT: self.reset_count,
            MODULE_DIGEST: self.module_digest,
            DEPLOYMENT_DIGEST: self.deployment_digest,
            AK_PUBLIC: self.ak_public,
            RECORD_ID: self.record_id,
            QUOTE_ATTEST: self.quote_attest,
            QUOTE_SIGNATURE: self.quote_signature,
            PCR_VALUES: dict(self.pcrs),
            EVENT_LOG: self.event_log,
            RESTART_COUNT: self.restart_count,
            TPM_KIND: self.tpm_kind,
        }
        if self.ima_log is not None:
            claims[IMA_LOG] = self.ima_log
        if self.command_key is not None:
            claims[COMMAND_KEY] = self.command_key.public
            claims[COMMAND_KEY_ATTEST] = self.command_key.attest
            claims[COMMAND_KEY_SIGNATURE] = self.command_key.signature
        return cbor.dumps(claims)

    def sign(self, signer: cose.Signer) -> bytes:
        """The evidence as it travels."""
        return cose.sign1(self.encode(), signer=signer, content_type=CONTENT_TYPE)


def qualifying_data(*, nonce: bytes, session_public: bytes, module_digest: bytes, deployment_digest: bytes) -> bytes:
    """What the quote vouches for (evidence rules §5). All parts but the nonce have 32 bytes, so nothing can shift."""
    assert len(session_public) == len(module_digest) == len(deployment_digest) == DIGEST_BYTES
    message = QUALIFYING_PREFIX + nonce + session_public + module_digest + deployment_digest
    return hashlib.sha256(message).digest()


def session_confirmation(public: bytes) -> dict[int, object]:
    """The ``cnf`` claim of an Ed25519 key."""
    return {_COSE_KEY: {_KTY: _OKP, _CRV: _ED25519, _X: public}}


def parse_confirmation(fields: cbor.Fields) -> bytes:
    """The Ed25519 key of a ``cnf`` claim."""
    cnf = fields.map(CNF)
    key = cnf.map(_COSE_KEY)
    key.integer(_KTY, low=_OKP, high=_OKP)
    key.integer(_CRV, low=_ED25519, high=_ED25519)
    public = key.octets(_X, size=DIGEST_BYTES)
    key.done()
    cnf.done()
    return public


def parse_evidence(data: bytes) -> tuple[Evidence, cose.Sign1]:
    """Parse evidence; the caller verifies. Raises ``CoseError``, ``CborError`` or ``EvidenceError``."""
    message = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=MAX_EVIDENCE_BYTES)
    fields = cbor.Fields(cbor.loads(message.payload, max_bytes=MAX_EVIDENCE_BYTES, max_depth=4), "evidence")
    fields.text(EAT_PROFILE, choices=(PROFILE,))
    evidence = Evidence(
        nonce=fields.octets(EAT_NONCE, low=NONCE_BYTES_MIN, high=NONCE_BYTES_MAX),
        session_public=parse_confirmation(fields),
        module_digest=fields.octets(MODULE_DIGEST, size=DIGEST_BYTES),
        deployment_digest=fields.octets(DEPLOYMENT_DIGEST, size=DIGEST_BYTES),
        ak_public=fields.octets(AK_PUBLIC, low=1, high=_MAX_STRUCTURE),
        record_id=fields.octets(RECORD_ID, size=DIGEST_BYTES),
        quote_attest=fields.octets(QUOTE_ATTEST, low=1, high=_MAX_STRUCTURE),
        quote_signature=fields.octets(QUOTE_SIGNATURE, low=1, high=_MAX_STRUCTURE),
        pcrs=_parse_pcrs(fields.take(PCR_VALUES)),
        event_log=fields.octets(EVENT_LOG, high=MAX_LOG_BYTES),
        reset_count=fields.integer(BOOTCOUNT, high=2**32 - 1),
        restart_count=fields.integer(RESTART_COUNT, high=2**32 - 1),
        tpm_kind=fields.text(TPM_KIND, choices=TPM_KINDS),
        ima_log=fields.octets(IMA_LOG, high=MAX_IMA_BYTES) if fields.has(IMA_LOG) else None,
        command_key=_parse_command_key(fields) if fields.has(COMMAND_KEY) else None,
    )
    fields.done()
    return evidence, message


def _parse_command_key(fields: cbor.Fields) -> CommandKey:
    public, attest, signature = (
        fields.octets(key, low=1, high=_MAX_STRUCTURE)
        for key in (COMMAND_KEY, COMMAND_KEY_ATTEST, COMMAND_KEY_SIGNATURE)
    )
    return CommandKey(public, attest, signature)


def _parse_pcrs(value: cbor.CborValue) -> dict[int, bytes]:
    if not isinstance(value, dict) or not value:
        raise EvidenceError("evidence-format", found="no PCR values", expected="a map of PCR values")
    pcrs: dict[int, bytes] = {}
    for pcr, digest in value.items():
        if not isinstance(pcr, int) or not 0 <= pcr < PCR_COUNT:
            raise EvidenceError("evidence-format", found=f"PCR {pcr!r}", expected=f"0..{PCR_COUNT - 1}")
        if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
            raise EvidenceError(
                "evidence-format", found=f"another value of PCR {pcr}", expected=f"{DIGEST_BYTES} bytes"
            )
        pcrs[pcr] = digest
    return pcrs
