"""Module bundles: write, and read with every digest, the signature and the content's consistency checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.proof.circuit import Curve
from sitsedge.config.source import ConfigError
from sitsedge.modules import files, oci, strict_json
from sitsedge.modules.config import BundleConfig, require_version
from sitsedge.modules.errors import BundleError
from sitsedge.modules.limits import Limits, read_limits
from sitsedge.modules.statement import PublisherTrust, sign_statement, verify_statement

SMALL_BYTES_MAX = strict_json.JSON_BYTES_MAX
CURVE_AT = 8
"""The curve byte follows the magic in circuit and key files."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle. ``digest`` is the SHA-256 of the module manifest, the "module digest".

    ``wasm`` runs everywhere; ``wasm_relaxed`` computes the same integers with relaxed SIMD (equal bytes where the
    network has no use for it). ``sandbox.Sandbox.of`` takes the faster one.
    """

    digest: bytes
    config: BundleConfig
    wasm: bytes
    wasm_relaxed: bytes
    integer_onnx: bytes
    circuit: bytes
    proving_key: bytes
    verification_key: bytes
    limits: Limits
    report: dict[str, Any]
    report_html: bytes
    signer: str
    blobs: Mapping[str, str]


def write_bundle(out: Path, config: BundleConfig, layers: Mapping[str, bytes], *, signer: Ed25519PrivateKey) -> bytes:
    """Write and sign a bundle at ``out`` (which must not exist), atomically; returns the module digest.

    ``layers`` maps every name of ``oci.LAYERS`` to its bytes.
    """
    assert set(layers) == set(oci.LAYERS), "a bundle has exactly the layers of its format"
    config_bytes = strict_json.encode(config.model_dump(mode="json"))
    manifest = strict_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci.MANIFEST,
            "artifactType": oci.MODULE_ARTIFACT,
            "config": oci.descriptor(oci.CONFIG, config_bytes),
            "layers": [oci.descriptor(media_type, layers[name]) for name, (media_type, _) in oci.LAYERS.items()],
        }
    )
    blobs = {name: hashlib.sha256(data).hexdigest() for name, data in layers.items()}
    blobs |= {"config": hashlib.sha256(config_bytes).hexdigest(), "manifest": hashlib.sha256(manifest).hexdigest()}
    envelope = sign_statement(blobs, _predicate(config), signer)
    signature = strict_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci.MANIFEST,
            "artifactType": oci.SIGNATURE_ARTIFACT,
            "config": oci.descriptor(oci.EMPTY, oci.EMPTY_BYTES),
            "layers": [oci.descriptor(oci.DSSE, envelope)],
            "subject": oci.descriptor(oci.MANIFEST, manifest),
        }
    )
    index = strict_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci.INDEX,
            "manifests": [
                oci.descriptor(oci.MANIFEST, manifest) | {"artifactType": oci.MODULE_ARTIFACT},
                oci.descriptor(oci.MANIFEST, signature) | {"artifactType": oci.SIGNATURE_ARTIFACT},
            ],
        }
    )
    contents = {"oci-layout": oci.LAYOUT_BYTES, "index.json": index}
    for data in (manifest, signature, envelope, config_bytes, oci.EMPTY_BYTES, *layers.values()):
        contents[f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"] = data
    files.write_folder(out, contents)
    return hashlib.sha256(manifest).digest()


def _predicate(config: BundleConfig) -> dict[str, Any]:
    """What the publisher states beyond the digests."""
    return {
        "name": config.name,
        "compiler": config.compiler,
        "proof": config.proof.model_dump(mode="json"),
        "source": config.source.model_dump(mode="json"),
    }


def read_bundle(root: Path, trust: PublisherTrust) -> Bundle:
    """Read the bundle folder ``root`` and verify it; raises ``BundleError`` or ``BundleSignatureError``.

    1. layout and index; 2. both manifests by digest, the signature's subject being the module; 3. config and
    exactly one layer of each kind by digest; 4. a trusted publisher's statement over all of them; 5. the
    config agrees with the layers: key hashes, curve, signals, development mark.
    """
    # 1. layout
    if oci.read_file(root / "oci-layout", SMALL_BYTES_MAX) != oci.LAYOUT_BYTES:
        raise BundleError("bundle-layout", found="another oci-layout", expected=oci.LAYOUT_BYTES.decode())
    index = oci.parse(oci.read_file(root / "index.json", SMALL_BYTES_MAX), oci.Index, "index.json")
    module_entry, signature_entry = index.manifests
    if (module_entry.artifactType, signature_entry.artifactType) != (oci.MODULE_ARTIFACT, oci.SIGNATURE_ARTIFACT):
        raise BundleError("bundle-content", found="other artifacts", expected="the module, then its signature")
    # 2. manifests
    manifest_bytes = oci.read_blob(root, module_entry, oci.MANIFEST, SMALL_BYTES_MAX)
    manifest = oci.parse(manifest_bytes, oci.Manifest, "manifest")
    signature_bytes = oci.read_blob(root, signature_entry, oci.MANIFEST, SMALL_BYTES_MAX)
    signature = oci.parse(signature_bytes, oci.SignatureManifest, "signature manifest")
    subject = (signature.subject.mediaType, signature.subject.digest, signature.subject.size)
    if subject != (oci.MANIFEST, module_entry.digest, module_entry.size):
        raise BundleError("bundle-content", found="a signature of another module", expected=module_entry.digest)
    # 3. blobs
    config_bytes = oci.read_blob(root, manifest.config, oci.CONFIG, SMALL_BYTES_MAX)
    require_version(config_bytes)
    config = oci.parse(config_bytes, BundleConfig, "config")
    expected = [media_type for media_type, _ in oci.LAYERS.values()]
    if [layer.mediaType for layer in manifest.layers] != expected:
        raise BundleError("bundle-content", found="other layers", expected=f"the layers {', '.join(expected)}")
    named = dict(zip(oci.LAYERS, manifest.layers, strict=True))
    layers = {name: oci.read_blob(root, named[name], *oci.LAYERS[name]) for name in oci.LAYERS}
    # 4. signature
    blobs = {name: entry.hex for name, entry in named.items()}
    blobs |= {"config": manifest.config.hex, "manifest": module_entry.hex}
    envelope = oci.read_blob(root, signature.layers[0], oci.DSSE, SMALL_BYTES_MAX)
    signed_by = verify_statement(envelope, blobs, _predicate(config), trust)
    # 5. consistency
    limits = _limits(root / "blobs" / "sha256" / named["limits"].hex)
    _check_consistent(config, blobs, layers, limits)
    report = strict_json.decode(layers["report"], "report", size_max=oci.LAYERS["report"][1])
    if not isinstance(report, dict):
        raise BundleError("bundle-content", found="a report that is no object", expected="a JSON object")
    return Bundle(
        digest=bytes.fromhex(module_entry.hex),
        config=config,
        wasm=layers["wasm"],
        wasm_relaxed=layers["wasm_relaxed"],
        integer_onnx=layers["integer_onnx"],
        circuit=layers["circuit"],
        proving_key=layers["proving_key"],
        verification_key=layers["verification_key"],
        limits=limits,
        report=report,
        report_html=layers["report_html"],
        signer=signed_by,
        blobs=blobs,
    )


def _limits(path: Path) -> Limits:
    try:
        return read_limits(path)
    except ConfigError as error:
        raise BundleError("bundle-content", found=f"limits: {error}"[:300], expected="a valid limits file") from error


def _check_consistent(
    config: BundleConfig, blobs: Mapping[str, str], layers: Mapping[str, bytes], limits: Limits
) -> None:
    proof = config.proof
    curves = {layers[name][CURVE_AT : CURVE_AT + 1] for name in ("circuit", "proving_key", "verification_key")}
    for what, ok in (
        ("a verification key with another hash than the config pins", proof.vk_sha256 == blobs["verification_key"]),
        ("a proving key with another hash than the config pins", proof.pk_sha256 == blobs["proving_key"]),
        ("a circuit or key on another curve than the config names", curves == {bytes([Curve.named(proof.curve)])}),
        ("a limits file with another digest than the config names", config.source.limits_sha256 == blobs["limits"]),
        ("signals that differ from the limits file", config.matches(limits)),
        ("a development mark that contradicts the contributors", proof.development == (proof.contributors == 0)),
    ):
        if not ok:
            raise BundleError("bundle-content", found=what, expected="a config that agrees with its layers")
