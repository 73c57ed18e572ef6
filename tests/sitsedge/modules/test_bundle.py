"""Reading bundles: one negative vector per rule, each properly signed but for the rule it breaks."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.modules import BundleError, BundleSignatureError, PublisherTrust, key_id, oci, read_bundle, strict_json
from sitsedge.modules.statement import PREDICATE_TYPE
from tests.sitsedge.modules import bundles

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUST = PublisherTrust((SIGNER.public_key(),))


def test_written_bundle_reads_back(tmp_path: Path) -> None:
    digest = bundles.make(tmp_path / "b", SIGNER)
    bundle = read_bundle(tmp_path / "b", TRUST)
    assert bundle.digest == digest
    assert (bundle.wasm, bundle.wasm_relaxed) == (b"wasm one", b"wasm_relaxed one")
    assert bundle.signer == key_id(SIGNER.public_key())
    assert bundle.limits.inputs[0].counts == bundle.config.inputs[0].counts == (-1000, 1000)
    assert bundle.config.proof.development


def test_module_digest_is_the_manifests_sha256_and_does_not_depend_on_the_signer(tmp_path: Path) -> None:
    first = bundles.make(tmp_path / "a", SIGNER)
    second = bundles.make(tmp_path / "b", Ed25519PrivateKey.generate())
    assert first == second
    assert (tmp_path / "a" / "blobs" / "sha256" / first.hex()).is_file()


def test_forge_without_a_change_is_accepted(tmp_path: Path) -> None:
    """The negative vectors below fail for their change alone."""
    bundles.forge(tmp_path / "b", SIGNER)
    read_bundle(tmp_path / "b", TRUST)


def put(key: str, value: Any) -> bundles.Change:
    """Set a dotted key; numbers are list positions."""

    def change(document: dict[str, Any]) -> None:
        *folders, last = key.split(".")
        target: Any = document
        for folder in folders:
            target = target[int(folder)] if folder.isdigit() else target[folder]
        target[int(last) if last.isdigit() else last] = value

    return change


def swap_layers(manifest: dict[str, Any]) -> None:
    manifest["layers"][0], manifest["layers"][1] = manifest["layers"][1], manifest["layers"][0]


def drop_layer(manifest: dict[str, Any]) -> None:
    manifest["layers"].pop()


def repeat_layer(manifest: dict[str, Any]) -> None:
    manifest["layers"][1] = manifest["layers"][0]


def swap_manifests(index: dict[str, Any]) -> None:
    index["manifests"].reverse()


def third_manifest(index: dict[str, Any]) -> None:
    index["manifests"].append(index["manifests"][0])


def grow(key: str, by: int) -> bundles.Change:
    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for folder in key.split("."):
            target = target[int(folder)] if folder.isdigit() else target[folder]
        target["size"] += by

    return change


HOSTILE_DIGEST = "sha256:../../../../../../../../../etc/passwd"

VECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "index-unknown-key": ({"index_change": put("annotations", {})}, "bundle-content"),
    "index-other-media-type": ({"index_change": put("mediaType", "text/plain")}, "bundle-content"),
    "index-other-schema": ({"index_change": put("schemaVersion", 1)}, "bundle-content"),
    "index-boolean-schema": ({"index_change": put("schemaVersion", True)}, "bundle-content"),
    "index-manifests-swapped": ({"index_change": swap_manifests}, "bundle-content"),
    "index-third-manifest": ({"index_change": third_manifest}, "bundle-content"),
    "index-path-traversal": ({"index_change": put("manifests.0.digest", HOSTILE_DIGEST)}, "bundle-content"),
    "index-other-algorithm": ({"index_change": put("manifests.0.digest", "sha512:" + "0" * 64)}, "bundle-content"),
    "index-upper-case-digest": ({"index_change": put("manifests.0.digest", "sha256:" + "A" * 64)}, "bundle-content"),
    "index-missing-blob": ({"index_change": put("manifests.0.digest", "sha256:" + "0" * 64)}, "bundle-layout"),
    "index-size-too-small": ({"index_change": grow("manifests.0", -1)}, "bundle-size"),
    "index-size-too-large": ({"index_change": grow("manifests.0", 1)}, "bundle-digest"),
    "index-huge-size": ({"index_change": grow("manifests.0", 1 << 40)}, "bundle-content"),
    "index-negative-size": ({"index_change": put("manifests.0.size", -1)}, "bundle-content"),
    "index-text-size": ({"index_change": put("manifests.0.size", "100")}, "bundle-content"),
    "manifest-unknown-key": ({"manifest_change": put("annotations", {})}, "bundle-content"),
    "manifest-other-artifact": ({"manifest_change": put("artifactType", "x/y")}, "bundle-content"),
    "manifest-layers-swapped": ({"manifest_change": swap_layers}, "bundle-content"),
    "manifest-layer-missing": ({"manifest_change": drop_layer}, "bundle-content"),
    "manifest-layer-twice": ({"manifest_change": repeat_layer}, "bundle-content"),
    "manifest-layer-path-traversal": ({"manifest_change": put("layers.0.digest", HOSTILE_DIGEST)}, "bundle-content"),
    "manifest-layer-of-other-size": ({"manifest_change": grow("layers.2", 1)}, "bundle-digest"),
    "manifest-config-media-type": ({"manifest_change": put("config.mediaType", "text/plain")}, "bundle-content"),
    "manifest-oversized-report": ({"manifest_change": put("layers.6.size", 5 << 20)}, "bundle-size"),
    "signature-of-another-module": (
        {"signature_change": put("subject.digest", "sha256:" + "0" * 64)}, "bundle-content"),
    "signature-unknown-key": ({"signature_change": put("x", 1)}, "bundle-content"),
    "signature-without-envelope": ({"signature_change": put("layers", [])}, "bundle-content"),
    "config-unknown-key": ({"config_change": put("extra", 1)}, "bundle-content"),
    "config-other-schema-version": ({"config_change": put("schema_version", 3)}, "bundle-content"),
    "config-of-an-older-format": ({"config_change": put("schema_version", 1)}, "bundle-version"),
    "config-production-without-contributors": ({"config_change": put("proof.development", False)}, "bundle-content"),
    "config-key-hash-of-another-key": ({"config_change": put("proof.vk_sha256", "0" * 64)}, "bundle-content"),
    "config-curve-of-other-keys": ({"config_change": put("proof.curve", "bls12-381")}, "bundle-content"),
    "config-unknown-curve": ({"config_change": put("proof.curve", "bls12381")}, "bundle-content"),
    "config-scale-other-than-limits": ({"config_change": put("inputs.0.scale", 0.02)}, "bundle-content"),
    "config-range-other-than-limits": ({"config_change": put("outputs.0.range", [-2.0, 2.0])}, "bundle-content"),
    "config-boolean-guest-abi": ({"config_change": put("guest.abi", True)}, "bundle-content"),
    "config-other-guest-abi": ({"config_change": put("guest.abi", 2)}, "bundle-content"),
    "config-text-for-number": ({"config_change": put("inputs.0.scale", "0.01")}, "bundle-content"),
    "envelope-unknown-key": ({"envelope_change": put("x", 1)}, "bundle-signature"),
    "envelope-other-payload-type": ({"envelope_change": put("payloadType", "text/plain")}, "bundle-signature"),
    "envelope-no-signature": ({"envelope_change": put("signatures", [])}, "bundle-signature"),
    "envelope-bad-base64": ({"envelope_change": put("payload", "***")}, "bundle-signature"),
    "envelope-unknown-signer": ({"envelope_change": put("signatures.0.keyid", "0" * 64)}, "bundle-signature"),
    "envelope-wrong-signature": (
        {"envelope_change": put("signatures.0.sig", base64.b64encode(bytes(64)).decode())}, "bundle-signature"),
    "envelope-short-signature": (
        {"envelope_change": put("signatures.0.sig", base64.b64encode(bytes(63)).decode())}, "bundle-signature"),
}  # fmt: skip


@pytest.mark.parametrize("rule", VECTORS)
def test_refuses(rule: str, tmp_path: Path) -> None:
    changes, code = VECTORS[rule]
    bundles.forge(tmp_path / "b", SIGNER, **changes)
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == code


def test_signed_config_that_contradicts_its_predicate_is_refused(tmp_path: Path) -> None:
    """The publisher signed other proof data than the config now shows."""
    bundles.forge(tmp_path / "b", SIGNER, config_change=put("proof.constraints", 2), predicate_of_changed_config=False)
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-statement"


def test_signature_moved_from_another_bundle_is_refused(tmp_path: Path) -> None:
    bundles.make(tmp_path / "other", SIGNER, mark="two")
    index = json.loads((tmp_path / "other" / "index.json").read_bytes())
    signature_path = tmp_path / "other" / "blobs" / "sha256" / index["manifests"][1]["digest"][7:]
    envelope_path = json.loads(signature_path.read_bytes())["layers"][0]["digest"][7:]
    envelope = json.loads((tmp_path / "other" / "blobs" / "sha256" / envelope_path).read_bytes())

    def replace_envelope(document: dict[str, Any]) -> None:
        document.clear()
        document.update(envelope)

    bundles.forge(tmp_path / "b", SIGNER, envelope_change=replace_envelope)
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-statement"


def test_untrusted_publisher_is_refused(tmp_path: Path) -> None:
    bundles.make(tmp_path / "b", Ed25519PrivateKey.generate())
    with pytest.raises(BundleSignatureError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-signature"
    with pytest.raises(BundleSignatureError):
        read_bundle(tmp_path / "b", PublisherTrust(()))


def test_any_flipped_byte_of_any_file_is_refused(tmp_path: Path) -> None:
    bundles.make(tmp_path / "b", SIGNER)
    for path in sorted(p for p in (tmp_path / "b").rglob("*") if p.is_file() and p.read_bytes() != oci.EMPTY_BYTES):
        data = path.read_bytes()
        for at in {0, len(data) // 2, len(data) - 1}:
            changed = bytearray(data)
            changed[at] ^= 1
            path.write_bytes(changed)
            with pytest.raises(BundleError):
                read_bundle(tmp_path / "b", TRUST)
        path.write_bytes(data)
    read_bundle(tmp_path / "b", TRUST)


def test_link_instead_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    digest = bundles.make(tmp_path / "b", SIGNER)
    blob = tmp_path / "b" / "blobs" / "sha256" / digest.hex()
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-layout"


def test_pipe_instead_of_a_file_does_not_block(tmp_path: Path) -> None:
    bundles.make(tmp_path / "b", SIGNER)
    (tmp_path / "b" / "index.json").unlink()
    os.mkfifo(tmp_path / "b" / "index.json")
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-size"


@pytest.mark.parametrize("name", ["oci-layout", "index.json"])
def test_missing_and_oversized_files_are_refused(tmp_path: Path, name: str) -> None:
    bundles.make(tmp_path / "b", SIGNER)
    path = tmp_path / "b" / name
    with path.open("wb") as file:
        file.truncate(2 << 20)
    with pytest.raises(BundleError) as refused:
        read_bundle(tmp_path / "b", TRUST)
    assert refused.value.code == "bundle-size"
    path.unlink()
    with pytest.raises(BundleError) as missing:
        read_bundle(tmp_path / "b", TRUST)
    assert missing.value.code == "bundle-layout"


def test_statement_is_in_toto_v1_over_every_blob(tmp_path: Path) -> None:
    bundles.make(tmp_path / "b", SIGNER)
    bundle = read_bundle(tmp_path / "b", TRUST)
    envelopes = [
        json.loads(path.read_bytes())
        for path in (tmp_path / "b" / "blobs" / "sha256").iterdir()
        if path.read_bytes().startswith(b'{"payload"')
    ]
    statement = json.loads(base64.b64decode(envelopes[0]["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == PREDICATE_TYPE
    assert {s["name"]: s["digest"]["sha256"] for s in statement["subject"]} == dict(bundle.blobs)
    assert set(bundle.blobs) == {*oci.LAYERS, "config", "manifest"}
    # DSSE v1: the signature is over the pre-authentication encoding, not the payload alone.
    payload = base64.b64decode(envelopes[0]["payload"])
    message = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    SIGNER.public_key().verify(base64.b64decode(envelopes[0]["signatures"][0]["sig"]), message)


BAD_JSON = {
    "duplicate-key": b'{"a":1,"a":2}',
    "nan": b'{"a":NaN}',
    "infinity": b"[-Infinity]",
    "deep": b"[" * 100 + b"]" * 100,
    "very-deep": b"[" * 100_000,
    "not-utf8": b'"\xff"',
    "truncated": b'{"a":',
    "huge": b'"' + b"a" * strict_json.JSON_BYTES_MAX + b'"',
}


@pytest.mark.parametrize("rule", BAD_JSON)
def test_strict_json_refuses(rule: str) -> None:
    with pytest.raises(BundleError) as refused:
        strict_json.decode(BAD_JSON[rule], "test")
    assert refused.value.code == "bundle-json"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=100)
@given(JSON_VALUES)
def test_canonical_json_round_trips(value: Any) -> None:
    data = strict_json.encode(value)
    assert strict_json.decode(data, "test") == value
    assert strict_json.encode(strict_json.decode(data, "test")) == data


def pem(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))


def test_trust_is_read_from_pem_files(tmp_path: Path) -> None:
    path = tmp_path / "publisher.pub"
    path.write_bytes(pem(SIGNER))
    assert list(PublisherTrust.from_files([path]).by_id()) == [key_id(SIGNER.public_key())]
    path.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(BundleSignatureError):
        PublisherTrust.from_files([path])
    path.write_bytes(b"no key")
    with pytest.raises(BundleSignatureError):
        PublisherTrust.from_files([path])
    with pytest.raises(BundleSignatureError):
        PublisherTrust.from_files([tmp_path / "absent"])
