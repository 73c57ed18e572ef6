"""Endorsement keys of three templates, their certificates, and credentials to each of them."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG
from tpm2_pytss.types import TPM2B_NV_PUBLIC, TPMS_NV_PUBLIC

from attest.evidence.ek import EkKind
from attest.structures import Reader, rsa_template
from attest.tpm import Swtpm, TpmDevice, TpmError, keys, nv
from attest.tpm.templates import AK, EK, EK_CHAIN_NV
from tests.attest.tpm.rig import DEADLINE_S, bare_esapi, fresh_swtpm

CURVES: dict[EkKind, ec.EllipticCurve] = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    with (
        fresh_swtpm(tmp_path_factory.mktemp("keys") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        yield device


@pytest.mark.parametrize("kind", ["rsa2048", "p384"])
def test_certificate_in_nv_is_of_this_key(shared: TpmDevice, kind: EkKind) -> None:
    """The simulator's maker made these two keys itself: its template is ours, or the key would be another."""
    ek = shared.ek(kind)
    certificate = x509.load_der_x509_certificate(ek.certificates[0])
    numbers = certificate.public_key().public_numbers()  # type: ignore[union-attr]
    if kind == "rsa2048":
        assert ek.public == rsa_template(modulus=numbers.n.to_bytes(256, "big"))  # type: ignore[union-attr]
    else:
        assert _point(ek.public, kind) == (numbers.x, numbers.y)  # type: ignore[union-attr]


def test_key_without_certificate_has_none(shared: TpmDevice) -> None:
    assert shared.ek("p256").certificates == ()


@pytest.mark.parametrize("kind", ["p256", "p384"])
def test_key_is_kept_and_made_again_the_same(shared: TpmDevice, kind: EkKind) -> None:
    before = shared.ek(kind)
    assert shared.ek(kind) == before
    with shared.connection.call() as esapi:
        assert EK[kind].handle in nv.handles(esapi, 0x81000000)
        esapi.evict_control(ESYS_TR.OWNER, esapi.tr_from_tpmpublic(EK[kind].handle), EK[kind].handle)
    assert shared.ek(kind) == before
    assert shared.handles_in_use() == {"transient": 0, "loaded sessions": 0}


def test_foreign_object_at_an_eks_handle_stays(swtpm: Swtpm) -> None:
    handle = EK["p256"].handle
    with bare_esapi(swtpm) as esapi, keys.primary(esapi, AK) as (foreign, public):
        esapi.evict_control(ESYS_TR.OWNER, foreign, handle)
    with TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S) as device:
        assert device.ek("p256").public.startswith(EK["p256"].template.fixed)
        assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    with bare_esapi(swtpm) as esapi:
        assert keys.public_bytes(esapi.read_public(esapi.tr_from_tpmpublic(handle))[0]) == public


@pytest.mark.parametrize("kind", ["p256", "p384"])
def test_credential_to_an_ecc_key_is_opened(shared: TpmDevice, kind: EkKind) -> None:
    value = os.urandom(32)
    credential, secret = make_credential(shared.ek(kind).public, kind, shared.ak().name, value)
    assert shared.activate(credential=credential, secret=secret, ek=kind) == value
    assert shared.handles_in_use() == {"transient": 0, "loaded sessions": 0}


@pytest.mark.parametrize("kind", ["p256", "p384"])
def test_credential_for_another_name_is_not_opened(shared: TpmDevice, kind: EkKind) -> None:
    credential, secret = make_credential(shared.ek(kind).public, kind, b"\x00\x0b" + bytes(32), bytes(32))
    with pytest.raises(TpmError) as caught:
        shared.activate(credential=credential, secret=secret, ek=kind)
    assert caught.value.code == "tpm-refused"


def test_chain_in_nv_follows_the_leaf(shared: TpmDevice) -> None:
    issuer = shared.ek().certificates[0]
    for offset, content in enumerate((issuer, b"\xff" * 40)):  # the second area is padding only
        _write_nv(shared, EK_CHAIN_NV[offset], content)
    assert shared.ek().certificates == (issuer, issuer)
    assert shared.ek("p256").certificates == (), "a chain without a leaf vouches for nothing"


def make_credential(public: bytes, kind: EkKind, name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """MakeCredential to an ECC EK (Part 1 §24, annex C.6.1), written for this test from the text."""
    curve, digest = CURVES[kind], {"p256": hashlib.sha256, "p384": hashlib.sha384}[kind]
    size, hash_bytes, key_bits = curve.key_size // 8, digest().digest_size, {"p256": 128, "p384": 256}[kind]
    x, y = _point(public, kind)
    ephemeral = ec.generate_private_key(curve)
    shared_x = ephemeral.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, curve).public_key())
    own = ephemeral.public_key().public_numbers()
    parties = own.x.to_bytes(size, "big") + x.to_bytes(size, "big")
    seed = digest(_u32(1) + shared_x + b"IDENTITY\0" + parties).digest()  # KDFe, one block

    def kdfa(label: bytes, context: bytes, bits: int) -> bytes:
        message = _u32(1) + label + b"\0" + context + _u32(bits)
        return hmac.digest(seed, message, digest)[: bits // 8]

    from cryptography.hazmat.decrepit.ciphers.modes import CFB
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    encryptor = Cipher(algorithms.AES(kdfa(b"STORAGE", name, key_bits)), CFB(bytes(16))).encryptor()
    identity = encryptor.update(_tpm2b(value)) + encryptor.finalize()
    integrity = hmac.digest(kdfa(b"INTEGRITY", b"", 8 * hash_bytes), identity + name, digest)
    point = _tpm2b(own.x.to_bytes(size, "big")) + _tpm2b(own.y.to_bytes(size, "big"))
    return _tpm2b(integrity) + identity, point


def _point(public: bytes, kind: EkKind) -> tuple[int, int]:
    assert public.startswith(EK[kind].template.fixed)
    reader = Reader(public[len(EK[kind].template.fixed) :], "point")
    x, y = reader.sized(48), reader.sized(48)
    reader.done()
    return int.from_bytes(x, "big"), int.from_bytes(y, "big")


def _write_nv(device: TpmDevice, index: int, content: bytes) -> None:
    attributes = 0x00020002 | 0x00040000  # owner writes and reads, anybody reads
    public = TPMS_NV_PUBLIC(nvIndex=index, nameAlg=TPM2_ALG.SHA256, attributes=attributes, dataSize=len(content))
    with device.connection.call() as esapi:
        handle = esapi.nv_define_space(None, TPM2B_NV_PUBLIC(nvPublic=public), auth_handle=ESYS_TR.OWNER)
        for start in range(0, len(content), 512):
            esapi.nv_write(handle, content[start : start + 512], start, auth_handle=ESYS_TR.OWNER)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _tpm2b(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
