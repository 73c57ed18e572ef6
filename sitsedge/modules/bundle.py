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
from sitsedge.modules.config import BundleConfig
from sitsedge.modules.errors import BundleError
from sitsedge.modules.head import predicate, read_head
from sitsedge.modules.limits import Limits, read_limits
from sitsedge.modules.statement import PublisherTrust, sign_statement

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
    envelope = sign_statement(blobs, predicate(config), signer)
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
    index = oci.index({oci.MODULE_ARTIFACT: manifest, oci.SIGNATURE_ARTIFACT: signature})
    contents = {"oci-layout": oci.LAYOUT_BYTES, "index.json": index}
    for data in (manifest, signature, envelope, config_bytes, oci.EMPTY_BYTES, *layers.values()):
        contents[f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"] = data
    files.write_folder(out, contents)
    return hashlib.sha256(manifest).digest()


def read_bundle(root: Path, trust: PublisherTrust) -> Bundle:
    """Read the bundle folder ``root`` and verify it; raises ``BundleError`` or ``BundleSignatureError``.

    1. to 4. what the publisher signed (``head.read_head``); 5. every layer by digest; 6. the config agrees with the
    layers: key hashes, curve, signals, development mark. A delta is ``bundle-delta``.
    """
    # 1. to 4.
    head = read_head(root, trust)
    # 5. layers
    layers = {name: oci.read_blob(root, head.layers[name], *oci.LAYERS[name]) for name in oci.LAYERS}
    # 6. consistency
    config, blobs = head.config, head.blobs
    limits = _limits(oci.blob_path(root, head.layers["limits"]))
    _check_consistent(config, blobs, layers, limits)
    report = strict_json.decode(layers["report"], "report", size_max=oci.LAYERS["report"][1])
    if not isinstance(report, dict):
        raise BundleError("bundle-content", found="a report that is no object", expected="a JSON object")
    return Bundle(
        digest=head.digest,
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
        signer=head.signer,
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
