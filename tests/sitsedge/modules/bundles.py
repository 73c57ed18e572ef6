"""Small real bundles for the tests, and a writer that can break one rule at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.modules import oci, strict_json
from sitsedge.modules.bundle import write_bundle
from sitsedge.modules.config import BundleConfig
from sitsedge.modules.statement import sign_statement

LIMITS = b"""version: 1
inputs:
  - {name: a, unit: mm, scale: 0.01, range: [-10, 10], max_rate: 5}
outputs:
  - {name: y, unit: mm, scale: 0.001, limits: [-1, 1]}
"""


def layers(mark: str = "one") -> dict[str, bytes]:
    """Bytes for every layer; limits, report and the curve bytes are looked into when one is read."""
    made = {name: f"{name} {mark}".encode() for name in oci.LAYERS}
    for name, magic in (("circuit", b"SITSR1C1"), ("proving_key", b"SITSPK01"), ("verification_key", b"SITSVK01")):
        made[name] = magic + b"\x01" + made[name]
    return made | {"limits": LIMITS, "report": b'{"report_version":1}'}


def config(parts: dict[str, bytes], **changes: Any) -> BundleConfig:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    value: dict[str, Any] = {
        "schema_version": 2,
        "name": "test",
        "compiler": "sitsedge 0",
        "inputs": [{"name": "a", "unit": "mm", "scale": 0.01, "range": [-10.0, 10.0], "max_rate": 5.0}],
        "outputs": [{"name": "y", "unit": "mm", "scale": 0.001, "range": [-1.0, 1.0], "max_rate": None}],
        "guest": {"abi": 1, "memory_bytes": 65536, "fuel_per_call": 10},
        "proof": {
            "curve": "bn254",
            "vk_sha256": digests["verification_key"],
            "pk_sha256": digests["proving_key"],
            "contributors": 0,
            "development": True,
            "constraints": 1,
        },
        "source": {"onnx_sha256": "0" * 64, "calibration_sha256": "1" * 64, "limits_sha256": digests["limits"]},
    }
    for path, new in changes.items():
        *folders, last = path.split("__")
        target = value
        for folder in folders:
            target = target[folder]
        target[last] = new
    return BundleConfig.model_validate(value)


def make(path: Path, signer: Ed25519PrivateKey, mark: str = "one") -> bytes:
    """A valid bundle at ``path``; returns its digest."""
    parts = layers(mark)
    return write_bundle(path, config(parts), parts, signer=signer)


Change = Callable[[dict[str, Any]], None]


def keep(_: dict[str, Any]) -> None:
    """No change."""


def forge(
    path: Path,
    signer: Ed25519PrivateKey,
    *,
    config_change: Change = keep,
    manifest_change: Change = keep,
    signature_change: Change = keep,
    index_change: Change = keep,
    envelope_change: Change = keep,
    predicate_of_changed_config: bool = True,
) -> None:
    """Write a bundle whose JSON parts were changed before digests were taken and the statement was signed.

    What comes out is consistent and properly signed except for the one rule the change breaks.
    """
    contents = layers()
    config_json = config(contents).model_dump(mode="json")
    config_change(config_json)
    config_bytes = strict_json.encode(config_json)
    manifest_json = {
        "schemaVersion": 2,
        "mediaType": oci.MANIFEST,
        "artifactType": oci.MODULE_ARTIFACT,
        "config": oci.descriptor(oci.CONFIG, config_bytes),
        "layers": [oci.descriptor(kind, contents[name]) for name, (kind, _) in oci.LAYERS.items()],
    }
    manifest_change(manifest_json)
    manifest = strict_json.encode(manifest_json)
    blobs = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    blobs |= {"config": hashlib.sha256(config_bytes).hexdigest(), "manifest": hashlib.sha256(manifest).hexdigest()}
    stated = config_json if predicate_of_changed_config else config(contents).model_dump(mode="json")
    predicate = {key: stated[key] for key in ("name", "compiler", "proof", "source")}
    envelope_json = json.loads(sign_statement(blobs, predicate, signer))
    envelope_change(envelope_json)
    envelope = strict_json.encode(envelope_json)
    signature_json = {
        "schemaVersion": 2,
        "mediaType": oci.MANIFEST,
        "artifactType": oci.SIGNATURE_ARTIFACT,
        "config": oci.descriptor(oci.EMPTY, oci.EMPTY_BYTES),
        "layers": [oci.descriptor(oci.DSSE, envelope)],
        "subject": oci.descriptor(oci.MANIFEST, manifest),
    }
    signature_change(signature_json)
    signature = strict_json.encode(signature_json)
    index_json = {
        "schemaVersion": 2,
        "mediaType": oci.INDEX,
        "manifests": [
            oci.descriptor(oci.MANIFEST, manifest) | {"artifactType": oci.MODULE_ARTIFACT},
            oci.descriptor(oci.MANIFEST, signature) | {"artifactType": oci.SIGNATURE_ARTIFACT},
        ],
    }
    index_change(index_json)
    folder = path / "blobs" / "sha256"
    folder.mkdir(parents=True)
    (path / "oci-layout").write_bytes(oci.LAYOUT_BYTES)
    (path / "index.json").write_bytes(strict_json.encode(index_json))
    for data in (manifest, signature, envelope, config_bytes, oci.EMPTY_BYTES, *contents.values()):
        (folder / hashlib.sha256(data).hexdigest()).write_bytes(data)
