"""Sealed keys and secrets: used in the approved state, and in no other; each refusal has the name of its condition."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG
from tpm2_pytss.types import TPMS_SCHEME_HASH, TPMT_SIG_SCHEME, TPMU_SIG_SCHEME

from attest.evidence.ek import EkKind, parse_ek
from attest.tpm import SealError, TpmDevice, TpmError, authorization, counters, keys, sessions
from attest.tpm.approval import Approval, SealTarget, Use, approve, authority_point
from attest.tpm.counters import Counter
from attest.tpm.keys import LAST_HANDLE
from attest.tpm.sealing import MAX_SECRET_BYTES, Sealing
from attest.tpm.templates import STORAGE
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm

DIGEST = hashlib.sha256(b"a set-point").digest()
PCRS = (0, 23)  # 23 may be reset, so that one TPM serves all tests
AUTHORITY = ec.derive_private_key(7, ec.SECP256R1())
OTHER = ec.derive_private_key(8, ec.SECP256R1())
IDLE = {"transient": 0, "loaded sessions": 0}


@dataclass
class Plant:
    """One device with a sealed key, and the authority that approves its states."""

    device: TpmDevice
    sealing: Sealing
    target: SealTarget

    def approval(self, use: Use = "sign", *, label: str = "now", generation: int | None = None) -> Approval:
        return self.approving(AUTHORITY, use, label=label, generation=generation)

    def approving(
        self, key: ec.EllipticCurvePrivateKey, use: Use, *, label: str = "now", generation: int | None = None
    ) -> Approval:
        pcrs = self.device.read_pcrs(PCRS)
        return approve(self.target, label=label, use=use, pcrs=pcrs, authority=key, generation=generation)

    def again(self) -> Plant:
        """The same device after a restart of the program: nothing remembered."""
        return _plant(self.device)


def _plant(device: TpmDevice) -> Plant:
    sealing = Sealing(device, authority_point(AUTHORITY.public_key()))
    return Plant(device, sealing, sealing.target())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    with (
        fresh_swtpm(tmp_path_factory.mktemp("sealing") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        yield device


@pytest.fixture
def plant(shared: TpmDevice) -> Iterator[Plant]:
    with shared.connection.call() as esapi:
        esapi.pcr_reset(ESYS_TR.PCR23)
    yield _plant(shared)
    assert shared.handles_in_use() == IDLE


def verify(point: bytes, signature: bytes) -> None:
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + point)
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    public.verify(encode_dss_signature(r, s), DIGEST, ec.ECDSA(Prehashed(hashes.SHA256())))


def refused(code: str, action: Callable[[], object]) -> SealError:
    with pytest.raises(SealError) as caught:
        action()
    assert caught.value.code == code
    return caught.value


def test_signs_and_unseals_in_the_approved_state(plant: Plant) -> None:
    key = plant.sealing.create_key()
    approvals = [plant.approval("sign"), plant.approval("unseal")]
    for _ in range(3):  # the first one chooses, the others go straight
        verify(key.point, plant.sealing.sign(DIGEST, approvals))
    secret = plant.sealing.seal(b"s" * MAX_SECRET_BYTES)
    assert plant.sealing.unseal(secret, approvals) == b"s" * MAX_SECRET_BYTES
    assert plant.again().sealing.unseal(secret, approvals) == b"s" * MAX_SECRET_BYTES


def test_new_state_needs_a_new_signature_and_no_new_key(plant: Plant) -> None:
    key = plant.sealing.create_key()
    before = plant.approval()
    plant.device.extend(23, DIGEST)
    refused("seal-state", lambda: plant.sealing.sign(DIGEST, [before]))
    after = plant.approval(label="update")
    verify(key.point, plant.sealing.sign(DIGEST, [before, after]))
    assert plant.sealing.create_key() == key


def test_state_that_changes_between_two_uses_is_seen(plant: Plant) -> None:
    approval, open_ = plant.approval(), plant.approval("unseal")
    secret = plant.sealing.seal(b"key")
    assert plant.sealing.sign(DIGEST, [approval])
    plant.device.extend(23, DIGEST)
    error = refused("seal-state", lambda: plant.sealing.sign(DIGEST, [approval]))
    assert error.found.startswith("PCR 23 = ")
    assert approval.pcrs[23].hex() in error.expected
    refused("seal-state", lambda: plant.sealing.unseal(secret, [open_]))


def test_pcr_extended_inside_the_session_is_seen(plant: Plant) -> None:
    """Of PCR 16 and 21 to 23 it is not: the profile leaves them out of the update counter."""
    device = plant.device
    approval = approve(plant.target, label="x", use="sign", pcrs=device.read_pcrs([8]), authority=AUTHORITY)
    with device.connection.call() as esapi, sessions.policy_session(esapi) as session:
        _authorize(esapi, session, approval)
        esapi.pcr_event(ESYS_TR.PCR8, b"late")
        rc = _sign_rc(esapi, plant, session)
    assert rc == 0x128


def test_wrong_authority_is_refused(plant: Plant) -> None:
    refused("seal-authority", lambda: plant.sealing.sign(DIGEST, [plant.approving(OTHER, "sign")]))


def test_secret_of_another_authority_is_refused(plant: Plant) -> None:
    secret = Sealing(plant.device, authority_point(OTHER.public_key())).seal(b"key")
    refused("seal-authority", lambda: plant.sealing.unseal(secret, [plant.approval("unseal")]))


def test_other_devices_approval_is_refused(plant: Plant) -> None:
    plant.target = dataclasses.replace(plant.target, device=b"\x00\x0b" + bytes(32))
    refused("seal-device", lambda: plant.sealing.sign(DIGEST, [plant.approval()]))


def test_other_counters_approval_is_refused(plant: Plant) -> None:
    plant.target = dataclasses.replace(plant.target, counter=b"\x00\x0b" + bytes(32))
    refused("seal-counter", lambda: plant.sealing.sign(DIGEST, [plant.approval()]))


def test_withdrawn_approval_is_refused(plant: Plant) -> None:
    old = plant.approval()
    new = plant.approval(generation=plant.target.generation + 1)
    assert plant.sealing.sign(DIGEST, [old])
    assert plant.sealing.sign(DIGEST, [new]), "both hold in the update window"
    plant.sealing.generation.advance_to(new.generation)
    refused("seal-stale", lambda: plant.sealing.sign(DIGEST, [old]))
    assert plant.sealing.sign(DIGEST, [old, new])


def test_approval_that_was_used_a_moment_ago_can_be_withdrawn(plant: Plant) -> None:
    old = plant.approval()
    assert plant.sealing.sign(DIGEST, [old])
    plant.sealing.generation.increment()
    refused("seal-stale", lambda: plant.sealing.sign(DIGEST, [old]))


@pytest.mark.parametrize(("use", "other"), [("sign", "unseal"), ("unseal", "sign")])
def test_approval_for_another_use_is_refused(plant: Plant, use: Use, other: Use) -> None:
    secret = plant.sealing.seal(b"key")
    approvals = [plant.approval(other)]
    if use == "sign":
        refused("seal-use", lambda: plant.sealing.sign(DIGEST, approvals))
    else:
        refused("seal-use", lambda: plant.sealing.unseal(secret, approvals))


def test_changed_signature_is_refused(plant: Plant) -> None:
    approval = plant.approval()
    for at in (0, 31, 32, 63):
        changed = bytearray(approval.signature)
        changed[at] ^= 1
        wrong = dataclasses.replace(approval, signature=bytes(changed))
        refused("seal-signature", lambda wrong=wrong: plant.sealing.sign(DIGEST, [wrong]))  # type: ignore[misc]


def test_changed_approval_is_refused(plant: Plant) -> None:
    """PCR values of now under the signature for others, and a generation raised by hand."""
    old = plant.approval()
    plant.device.extend(23, DIGEST)
    moved = dataclasses.replace(old, pcrs=plant.device.read_pcrs(PCRS))
    refused("seal-signature", lambda: plant.sealing.sign(DIGEST, [moved]))
    raised = dataclasses.replace(plant.approval(), generation=plant.target.generation + 9)
    refused("seal-signature", lambda: plant.sealing.sign(DIGEST, [raised]))


def test_no_approval_is_refused(plant: Plant) -> None:
    refused("seal-approvals", lambda: plant.sealing.sign(DIGEST, []))


def test_the_refusal_is_of_the_approval_that_came_furthest(plant: Plant) -> None:
    wrong_state = plant.approval(label="yesterday")
    plant.device.extend(23, DIGEST)
    error = refused("seal-state", lambda: plant.sealing.sign(DIGEST, [wrong_state, plant.approving(OTHER, "sign")]))
    assert "yesterday" in error.expected


@pytest.mark.parametrize("size", [0, MAX_SECRET_BYTES + 1])
def test_secret_of_a_size_no_tpm_seals_is_refused(plant: Plant, size: int) -> None:
    refused("seal-size", lambda: plant.sealing.seal(bytes(size)))


def test_changed_secret_is_refused(plant: Plant) -> None:
    secret, approvals = plant.sealing.seal(b"key"), [plant.approval("unseal")]
    for at in (len(secret) - 1, len(secret) - 60):
        changed = bytearray(secret)
        changed[at] ^= 1
        refused("seal-secret", lambda changed=changed: plant.sealing.unseal(bytes(changed), approvals))  # type: ignore[misc]


def test_secret_of_another_tpm_is_refused(plant: Plant, tmp_path: Path) -> None:
    with (
        fresh_swtpm(tmp_path / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        with device.connection.call() as esapi:
            esapi.clear(ESYS_TR.LOCKOUT)  # a copy of the same TPM; clearing gives it another storage seed
        secret = _plant(device).sealing.seal(b"key")
    refused("seal-secret", lambda: plant.sealing.unseal(secret, [plant.approval("unseal")]))


def test_tpm_itself_refuses_without_any_look_before(plant: Plant) -> None:
    """What ``choose`` names, the policy enforces: each condition broken, straight to the TPM."""
    good = plant.approval()
    generation = plant.target.generation
    plant.sealing.generation.advance_to(generation + 1)
    stale = good
    good = plant.approval(generation=generation + 1)
    wrong_pcrs = {**good.pcrs, 23: DIGEST}
    wrong_state = approve(
        plant.target, label="x", use="sign", pcrs=wrong_pcrs, authority=AUTHORITY, generation=generation + 1
    )
    assert _straight(plant, good) == "signed"
    assert _straight(plant, wrong_state) == "seal-state"
    assert _straight(plant, stale) == "seal-stale"
    assert _straight(plant, plant.approval("unseal", generation=generation + 1)) == "0x9a4", "another command"
    assert _straight(plant, plant.approving(OTHER, "sign", generation=generation + 1)) == "0x99d"
    plant.target = dataclasses.replace(plant.target, device=b"\x00\x0b" + bytes(32))
    assert _straight(plant, plant.approval(generation=generation + 1)) == "0x99d"


def test_key_cannot_be_used_with_a_password(plant: Plant) -> None:
    plant.sealing.create_key()
    with plant.device.connection.call() as esapi:
        assert _sign_rc(esapi, plant, ESYS_TR.PASSWORD) & 0xFFF in (0x12F, 0x9A2)


@pytest.fixture
def trusting(shared: TpmDevice) -> Iterator[TpmDevice]:
    yield shared
    shared.trusted_ek = None


@pytest.mark.parametrize("name", [b"\x00\x0b" + bytes(32), b"\x00\x0c" + bytes(48), b"", b"\x00\x0d" + bytes(64)])
def test_another_enrolled_ek_is_refused(plant: Plant, trusting: TpmDevice, name: bytes) -> None:
    secret, approvals = plant.sealing.seal(b"key"), [plant.approval("unseal")]
    trusting.trusted_ek = name
    for use in (lambda: plant.sealing.seal(b"key"), lambda: plant.sealing.unseal(secret, approvals)):
        with pytest.raises(TpmError) as caught:
            use()
        assert caught.value.code == "tpm-ek"


@pytest.mark.parametrize("kind", ["rsa2048", "p256", "p384"])
def test_secrets_go_to_the_enrolled_ek_whatever_its_kind(plant: Plant, trusting: TpmDevice, kind: EkKind) -> None:
    trusting.trusted_ek = parse_ek(trusting.ek(kind).public).name
    secret = plant.sealing.seal(b"key")
    assert plant.sealing.unseal(secret, [plant.approval("unseal")]) == b"key"


def test_secrets_cross_the_bus_encrypted(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    from attest.tpm.transport import DeadlineTcti

    seen = bytearray()
    transmit, receive = DeadlineTcti.do_transmit, DeadlineTcti.do_receive

    def spy_transmit(self: DeadlineTcti, command: bytes) -> None:
        seen.extend(command)
        transmit(self, command)

    def spy_receive(self: DeadlineTcti, timeout: int) -> bytes:
        response = receive(self, timeout)
        seen.extend(response)
        return response

    monkeypatch.setattr(DeadlineTcti, "do_transmit", spy_transmit)
    monkeypatch.setattr(DeadlineTcti, "do_receive", spy_receive)
    value = bytes(range(200, 232))
    secret = plant.sealing.seal(value)
    assert plant.sealing.unseal(secret, [plant.approval("unseal")]) == value
    assert len(seen) > 1000
    assert value not in seen
    assert value[:16] not in seen


def test_key_removed_by_another_program_comes_back_the_same(plant: Plant) -> None:
    key, approvals = plant.sealing.create_key(), [plant.approval()]
    assert plant.sealing.sign(DIGEST, approvals)
    _evict(plant.device, key.handle)
    with pytest.raises(TpmError):
        plant.sealing.sign(DIGEST, approvals)
    verify(key.point, plant.sealing.sign(DIGEST, approvals))
    assert plant.sealing.create_key().name == key.name


def test_storage_key_removed_by_another_program_comes_back_the_same(plant: Plant) -> None:
    secret, approvals = plant.sealing.seal(b"key"), [plant.approval("unseal")]
    with plant.device.connection.call() as esapi:
        handle = keys.keep_primary(esapi, STORAGE).handle
    _evict(plant.device, handle)
    with pytest.raises(TpmError):
        plant.sealing.seal(b"other")
    assert plant.sealing.seal(b"other")
    assert plant.sealing.unseal(secret, approvals) == b"key"


def test_what_is_there_is_not_overwritten(plant: Plant) -> None:
    key = plant.sealing.create_key()
    _evict(plant.device, key.handle)
    with plant.device.connection.call() as esapi:
        foreign = esapi.create_primary(None, "ecc256")[0]
        esapi.evict_control(ESYS_TR.OWNER, foreign, key.handle)
        esapi.flush_context(foreign)
    again = plant.again().sealing.create_key()
    assert again.name == key.name
    assert key.handle < again.handle <= LAST_HANDLE
    _evict(plant.device, key.handle)


def test_cleared_owner_has_another_key_and_nothing_stays_broken(tmp_path: Path) -> None:
    with (
        fresh_swtpm(tmp_path / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        plant = _plant(device)
        approvals = [plant.approval(), plant.approval("unseal")]
        secret, key = plant.sealing.seal(b"key"), plant.sealing.create_key()
        plant.sealing.sign(DIGEST, approvals)
        with device.connection.call() as esapi:
            esapi.clear(ESYS_TR.LOCKOUT)
        with pytest.raises(TpmError) as caught:
            plant.sealing.sign(DIGEST, approvals)
        assert not isinstance(caught.value, SealError)
        plant.target = plant.sealing.target()
        approvals = [plant.approval(), plant.approval("unseal")]
        again = plant.sealing.create_key()
        assert again.name != key.name
        verify(again.point, plant.sealing.sign(DIGEST, approvals))
        refused("seal-secret", lambda: plant.sealing.unseal(secret, approvals))


@pytest.mark.parametrize("size", [31, 33])
def test_only_a_sha256_digest_is_signed(plant: Plant, size: int) -> None:
    with pytest.raises(TpmError) as caught:
        plant.sealing.sign(bytes(size), [])
    assert caught.value.code == "tpm-argument"


def test_authority_of_another_form_is_refused(shared: TpmDevice) -> None:
    refused("seal-authority", lambda: Sealing(shared, b"\x04" + bytes(64)))
    refused("seal-authority", lambda: authority_point(ec.derive_private_key(7, ec.SECP384R1()).public_key()))


def test_point_off_the_curve_is_no_authority(plant: Plant) -> None:
    nowhere = bytes(63) + b"\x01"
    approval = dataclasses.replace(plant.approval(), authority=nowhere)
    with pytest.raises(TpmError) as caught:
        Sealing(plant.device, nowhere).sign(DIGEST, [approval])
    assert caught.value.code == "tpm-refused"


def _authorize(esapi: object, session: object, approval: Approval) -> None:
    counter = authorization.CounterIndex(*counters.handle_and_name(esapi, Counter.APPROVALS))
    ticket = authorization.ticket(esapi, approval)
    authorization.authorize(esapi, session, approval, ticket, counter=counter)


def _straight(plant: Plant, approval: Approval) -> str:
    """Sign without ``choose``: the seal error's code, the TPM's response code, or ``signed``."""
    with plant.device.connection.call() as esapi, sessions.policy_session(esapi) as session:
        try:
            _authorize(esapi, session, approval)
        except SealError as error:
            return error.code
        rc = _sign_rc(esapi, plant, session)
        return f"0x{rc:x}" if rc else "signed"


def _sign_rc(esapi: object, plant: Plant, session: object) -> int:
    scheme = TPMT_SIG_SCHEME(
        scheme=TPM2_ALG.ECDSA, details=TPMU_SIG_SCHEME(any=TPMS_SCHEME_HASH(hashAlg=TPM2_ALG.SHA256))
    )
    handle = plant.sealing._looked_up(esapi).key.tr
    try:
        esapi.sign(handle, DIGEST, scheme, session1=session)  # type: ignore[attr-defined]
    except TSS2_Exception as error:
        return int(error.rc)
    return 0


def _evict(device: TpmDevice, handle: int) -> None:
    with device.connection.call() as esapi:
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(handle), handle)
