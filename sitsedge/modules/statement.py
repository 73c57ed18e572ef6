"""The signed in-toto statement of a bundle in a DSSE envelope, Ed25519.

Sources: in-toto Attestation Framework, Statement v1; DSSE v1 (pre-authentication encoding). The statement
names the manifest and every blob it refers to with its SHA-256, so a signature covers the whole bundle.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sitsedge.modules import strict_json
from sitsedge.modules.config import Sha256Hex
from sitsedge.modules.errors import BundleError, BundleSignatureError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:sits-edge:module-build:v1"

SIGNATURES_MAX = 16
"""More co-signers than any plant has; each costs one verification."""

KEY_FILE_BYTES_MAX = 4096


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Signature(_Strict):
    keyid: Sha256Hex
    sig: Annotated[str, Field(max_length=128)]


class _Envelope(_Strict):
    payload: Annotated[str, Field(max_length=strict_json.JSON_BYTES_MAX)]
    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815  # DSSE's own key
    signatures: Annotated[tuple[_Signature, ...], Field(min_length=1, max_length=SIGNATURES_MAX)]


@dataclass(frozen=True, slots=True)
class PublisherTrust:
    """The publishers whose signature counts on this device."""

    keys: tuple[Ed25519PublicKey, ...]

    @classmethod
    def from_files(cls, paths: Iterable[Path]) -> PublisherTrust:
        """Read PEM public keys; raises ``BundleSignatureError`` for anything but Ed25519."""
        keys = []
        for path in paths:
            try:
                data = path.read_bytes()[: KEY_FILE_BYTES_MAX + 1]
                key = load_pem_public_key(data)
            except (OSError, ValueError, UnsupportedAlgorithm) as error:
                raise BundleSignatureError(
                    "publisher-key", found=f"{path}: {error}", expected="a PEM public key"
                ) from error
            if not isinstance(key, Ed25519PublicKey):
                raise BundleSignatureError(
                    "publisher-key", found=f"{path}: {type(key).__name__}", expected="an Ed25519 public key"
                )
            keys.append(key)
        return cls(tuple(keys))

    def by_id(self) -> Mapping[str, Ed25519PublicKey]:
        """Keys by key id (SHA-256 of the raw public key, hex)."""
        return {key_id(key): key for key in self.keys}


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the 32 raw bytes, lower-case hex."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _pre_authentication(payload: bytes) -> bytes:
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_statement(subjects: Mapping[str, str], predicate: Mapping[str, Any], signer: Ed25519PrivateKey) -> bytes:
    """The envelope over ``subjects`` (name → SHA-256 hex)."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(predicate),
    }
    payload = strict_json.encode(statement)
    signature = signer.sign(_pre_authentication(payload))
    return strict_json.encode(
        {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": key_id(signer.public_key()), "sig": base64.b64encode(signature).decode()}],
        }
    )


def verify_statement(
    envelope: bytes, subjects: Mapping[str, str], predicate: Mapping[str, Any], trust: PublisherTrust
) -> str:
    """Check the envelope and return the key id of the publisher that signed.

    1. the envelope is strict DSSE; 2. a trusted key signed it; 3. the statement names exactly ``subjects``;
    4. its predicate is ``predicate``. Raises ``BundleSignatureError`` or ``BundleError``.
    """
    # 1. envelope
    try:
        parsed = _Envelope.model_validate(strict_json.decode(envelope, "signature envelope"))
        payload = base64.b64decode(parsed.payload, validate=True)
        signatures = [(s.keyid, base64.b64decode(s.sig, validate=True)) for s in parsed.signatures]
    except (ValidationError, binascii.Error, ValueError) as error:
        raise BundleSignatureError(
            "bundle-signature", found=f"an envelope that is no DSSE: {_short(error)}", expected="DSSE v1"
        ) from error
    # 2. signature, before the payload is parsed
    signer = _signed_by(payload, signatures, trust)
    # 3. and 4. content
    statement = strict_json.decode(payload, "statement")
    wanted = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(predicate),
    }
    if statement != wanted:
        different = [key for key in wanted if not isinstance(statement, dict) or statement.get(key) != wanted[key]]
        raise BundleError(
            "bundle-statement",
            found=f"a signed statement that differs in {different or 'its keys'}",
            expected="exactly the manifest and blobs of this bundle",
            hint="the signature belongs to another bundle",
        )
    return signer


def _signed_by(payload: bytes, signatures: list[tuple[str, bytes]], trust: PublisherTrust) -> str:
    known = trust.by_id()
    message = _pre_authentication(payload)
    for identity, signature in signatures:
        if (key := known.get(identity)) is None:
            continue
        try:
            key.verify(signature, message)
        except InvalidSignature as error:
            raise BundleSignatureError(
                "bundle-signature",
                found=f"a wrong signature under key {identity[:16]}…",
                expected="a valid one",
                hint="the bundle was changed after signing; fetch it again",
            ) from error
        return identity
    raise BundleSignatureError(
        "bundle-signature",
        found=f"signatures of {[identity[:16] for identity, _ in signatures]}",
        expected=f"one of the trusted publishers {[identity[:16] for identity in known]}",
        hint="add the publisher's public key to the trust store if you do trust it",
    )


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
