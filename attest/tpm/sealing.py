"""A signing key and secrets that the TPM uses only in an approved boot state (``approval`` says what that is).

Conditions and their names are in ``authorization``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG
from tpm2_pytss.types import (
    TPM2B_PRIVATE,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPM2B_SENSITIVE_DATA,
    TPMS_SCHEME_HASH,
    TPMS_SENSITIVE_CREATE,
    TPMT_SIG_SCHEME,
    TPMU_SIG_SCHEME,
)

from attest.evidence.claims import CommandKey
from attest.policies import POINT_BYTES, sealing_policy
from attest.structures import DIGEST_BYTES, parse_ecc_public, parse_ecdsa_signature, tpm2b
from attest.tpm import authorization, counters, keys, sessions
from attest.tpm.approval import Approval, SealTarget, Use
from attest.tpm.authorization import naming, refused
from attest.tpm.counters import Counter, NvCounter
from attest.tpm.device import TpmDevice
from attest.tpm.errors import SealError, TpmError
from attest.tpm.responses import RC_BINDING, RC_INTEGRITY, RC_PCR_CHANGED, RC_POLICY_FAIL
from attest.tpm.secret import SealedSecret, parse_secret
from attest.tpm.templates import AK, STORAGE, secret_public, signer

_AK_SCHEME: Final = TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL)  # the AK's own
MAX_SECRET_BYTES: Final = 128  # MAX_SYM_DATA (Part 2, annex A): a key, not a file


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A P-256 signing key that never leaves the TPM: persistent handle, name, TPMT_PUBLIC and x ‖ y."""

    handle: int
    name: bytes
    public: bytes
    point: bytes


@dataclass(frozen=True, slots=True)
class _Objects:
    """What was looked up in one ESAPI context."""

    esapi: Any
    device: bytes
    policy: bytes
    key: keys.Loaded
    counter: authorization.CounterIndex


class Sealing:
    """Sealed objects of one device under one policy authority (P-256, x ‖ y: ``approval.authority_point``).

    All calls raise ``SealError`` with the condition's name, or another ``TpmError``. Safe for several threads.
    """

    def __init__(self, device: TpmDevice, authority: bytes) -> None:
        if len(authority) != POINT_BYTES:
            raise SealError("seal-authority", found=f"{len(authority)} bytes", expected=f"x ‖ y, {POINT_BYTES} bytes")
        self._device = device
        self._authority = authority
        self._objects: _Objects | None = None
        self._storage: tuple[Any, keys.Loaded] | None = None
        self._last: tuple[Approval, Any] | None = None  # with the TPM's ticket for it, good until the owner is cleared

    @property
    def generation(self) -> NvCounter:
        """The approval counter: ``advance_to`` withdraws every approval of a lower generation, for good."""
        return NvCounter(self._device.connection, Counter.APPROVALS)

    def target(self) -> SealTarget:
        """What the authority needs to approve states of this device; makes the approval counter."""
        with self._call() as (esapi, objects):
            generation = counters.read(esapi, Counter.APPROVALS)
            return SealTarget(device=objects.device, counter=objects.counter.name, generation=generation)

    def create_key(self) -> SealedKey:
        """The signing key; made on the first call, and the same again ever after on this TPM."""
        with self._call() as (_, objects):
            key = objects.key
            parsed = parse_ecc_public(key.public)
            return SealedKey(handle=key.handle, name=key.name, public=key.public, point=parsed.x + parsed.y)

    def sign(self, digest: bytes, approvals: Sequence[Approval]) -> bytes:
        """ECDSA over a SHA-256 digest, r ‖ s (64 bytes), if one of ``approvals`` holds now."""
        if len(digest) != DIGEST_BYTES:
            raise TpmError("tpm-argument", found=f"{len(digest)} bytes", expected=f"a digest of {DIGEST_BYTES}")
        scheme = TPMT_SIG_SCHEME(
            scheme=TPM2_ALG.ECDSA, details=TPMU_SIG_SCHEME(any=TPMS_SCHEME_HASH(hashAlg=TPM2_ALG.SHA256))
        )

        def use(esapi: Any, objects: _Objects, session: Any) -> Any:
            return esapi.sign(objects.key.tr, digest, scheme, session1=session)

        with self._call() as (esapi, objects):
            signature = self._approved(esapi, objects, approvals, "sign", use)
            r, s = parse_ecdsa_signature(bytes(signature.marshal()))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def certify_key(self, qualifying: bytes) -> CommandKey:
        """TPM2_CertifyCreation of the signing key by the AK: that this TPM made it, bound to ``qualifying``.

        The key is a primary one: made once more, it is the same, and brings the ticket of its creation.
        """
        with self._device.connection.call(key=True) as esapi:
            policy = self._looked_up(esapi).policy
            ak = keys.keep_primary(esapi, AK)
            with keys.created(esapi, signer(policy)) as made:
                attest, signature = esapi.certify_creation(
                    ak.tr, made.handle, qualifying, made.creation_hash, _AK_SCHEME, made.ticket
                )
            return CommandKey(made.public, bytes(attest.attestationData), bytes(signature.marshal()))

    def seal(self, data: bytes) -> bytes:
        """The sealed secret file of at most 128 bytes. Crosses the bus encrypted; any state may seal."""
        if not 1 <= len(data) <= MAX_SECRET_BYTES:
            raise SealError("seal-size", found=f"{len(data)} bytes", expected=f"1..{MAX_SECRET_BYTES}")
        sensitive = TPM2B_SENSITIVE_CREATE(TPMS_SENSITIVE_CREATE(data=TPM2B_SENSITIVE_DATA(data)))
        with self._call() as (esapi, objects):
            public = TPM2B_PUBLIC(publicArea=keys.unmarshal_public(secret_public(objects.policy)))
            parent = self._parent(esapi)
            with (
                keys.salting_key(esapi, self._device.trusted_ek) as salt,
                sessions.encrypted_session(esapi, salt_key=salt) as session,
            ):
                private, made, _, _, _ = esapi.create(parent.tr, sensitive, public, session1=session)
            unique = keys.public_bytes(made)[-DIGEST_BYTES:]
            return SealedSecret(authority=self._authority, unique=unique, private=bytes(private)).encode()

    def unseal(self, secret: bytes, approvals: Sequence[Approval]) -> bytearray:
        """The secret, if one of ``approvals`` holds now. Erase it after use; copies in the library's memory remain.

        Crosses the bus encrypted. ``seal-secret``: another TPM sealed it, or it was changed.
        """
        sealed = parse_secret(secret)
        if sealed.authority != self._authority:
            raise refused("seal-authority", f"a secret for {sealed.authority.hex()}", self._authority.hex())

        def use(esapi: Any, objects: _Objects, session: Any) -> Any:
            with _loaded_secret(esapi, self._parent(esapi), objects.policy, sealed) as handle:
                return esapi.unseal(handle, session1=session)

        with self._call() as (esapi, objects):
            return bytearray(bytes(self._approved(esapi, objects, approvals, "unseal", use)))

    @contextlib.contextmanager
    def _call(self) -> Iterator[tuple[Any, _Objects]]:
        with self._device.connection.call(key=self._objects is None) as esapi:
            try:
                yield esapi, self._looked_up(esapi)
            except SealError:
                raise
            except (TSS2_Exception, TpmError):
                self._objects = self._storage = None  # somebody may have removed one: look again in the next call
                raise

    def _looked_up(self, esapi: Any) -> _Objects:
        if self._objects is None or self._objects.esapi is not esapi:
            device = keys.keep_primary(esapi, AK).name
            policy = sealing_policy(self._authority, device)
            counters.create(esapi, Counter.APPROVALS)
            counter = authorization.CounterIndex(*counters.handle_and_name(esapi, Counter.APPROVALS))
            key = keys.keep_primary(esapi, signer(policy))
            self._objects = _Objects(esapi, device, policy, key, counter)
        return self._objects

    def _parent(self, esapi: Any) -> keys.Loaded:
        if self._storage is None or self._storage[0] is not esapi:
            self._storage = esapi, keys.keep_primary(esapi, STORAGE)
        return self._storage[1]

    def _approved(
        self,
        esapi: Any,
        objects: _Objects,
        approvals: Sequence[Approval],
        use: Use,
        action: Callable[[Any, _Objects, Any], Any],
    ) -> Any:
        """``action`` in a session that the first approval which holds has authorised.

        The one that held last time goes first, unseen, with the ticket the TPM gave for it. If it does not hold any
        more, all are looked at, so that the refusal can be named.
        """
        last = self._last
        if last is not None and last[0].use == use and any(last[0] is approval for approval in approvals):
            with contextlib.suppress(SealError):
                return self._under(esapi, objects, *last, action)
        self._last = None
        chosen = authorization.choose(
            esapi, approvals, use=use, authority=self._authority, device=objects.device, counter=objects.counter
        )
        ticket = authorization.ticket(esapi, chosen)
        answer = self._under(esapi, objects, chosen, ticket, action)
        self._last = chosen, ticket
        return answer

    def _under(
        self,
        esapi: Any,
        objects: _Objects,
        approval: Approval,
        ticket: Any,
        action: Callable[[Any, _Objects, Any], Any],
    ) -> Any:
        salt = keys.salting_key(esapi, self._device.trusted_ek) if approval.use == "unseal" else _no_salt()
        with salt as salt_key, sessions.policy_session(esapi, salt_key=salt_key) as session:
            authorization.authorize(esapi, session, approval, ticket, counter=objects.counter)
            with naming("seal-state", RC_PCR_CHANGED, "a PCR that changed just now", "the approved state"):
                return action(esapi, objects, session)


@contextlib.contextmanager
def _loaded_secret(esapi: Any, parent: keys.Loaded, policy: bytes, sealed: SealedSecret) -> Iterator[Any]:
    public = secret_public(policy)[:-2] + tpm2b(sealed.unique)
    area = TPM2B_PUBLIC(publicArea=keys.unmarshal_public(public))
    with naming("seal-secret", (RC_INTEGRITY, RC_BINDING), "a secret of another TPM, or changed", "one sealed here"):
        handle = esapi.load(parent.tr, TPM2B_PRIVATE(sealed.private), area)
    try:
        with naming("seal-authority", RC_POLICY_FAIL, "a secret under another policy", "one of this authority"):
            yield handle
    finally:
        esapi.flush_context(handle)


@contextlib.contextmanager
def _no_salt() -> Iterator[Any]:
    yield ESYS_TR.NONE
