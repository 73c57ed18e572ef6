"""Deltas between small real bundles, and a writer that breaks one rule at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.modules import PublisherTrust, make_delta, oci, strict_json
from sitsedge.modules.bundle import write_bundle
from tests.sitsedge.modules import bundles

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUST = PublisherTrust((SIGNER.public_key(),))

COMMON = bytes(range(256)) * 4
"""What the old and the new circuit share."""

Patches = list[bytes]


def old_layers() -> dict[str, bytes]:
    layers = bundles.layers("old")
    return layers | {"circuit": layers["circuit"] + COMMON}


def new_layers() -> dict[str, bytes]:
    """Circuit, WASM and report differ from the old ones; integer ONNX, keys and limits do not."""
    layers = old_layers()
    return layers | {
        "wasm": b"another wasm",
        "circuit": layers["circuit"][:9] + b"changed" + COMMON + b"and longer",
        "report": b'{"report_version":1,"a":2}',
    }


def make_pair(folder: Path) -> tuple[bytes, bytes]:
    """Bundles ``old`` and ``new`` in ``folder``; their digests."""
    made = [
        write_bundle(folder / name, bundles.config(layers), layers, signer=SIGNER)
        for name, layers in (("old", old_layers()), ("new", new_layers()))
    ]
    return made[0], made[1]


def make(folder: Path) -> Path:
    """The pair, and the delta between them in ``folder``."""
    make_pair(folder)
    make_delta(folder / "delta", base=folder / "old", new=folder / "new", trust=TRUST)
    return folder / "delta"


def blob(root: Path, digest: str) -> Path:
    return root / "blobs" / "sha256" / digest.removeprefix("sha256:")


def put(root: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    blob(root, digest).write_bytes(data)
    return f"sha256:{digest}"


def nothing(_: Any) -> None:
    """No change."""


Change = Callable[[Any], None]


def forge(
    delta: Path,
    *,
    index: Change = nothing,
    manifest: Change = nothing,
    config: Change = nothing,
    patches: Change = nothing,
) -> None:
    """Change a delta in place so that all its digests hold and only the one rule is broken."""
    index_json = json.loads((delta / "index.json").read_bytes())
    entry = index_json["manifests"][2]
    manifest_json = json.loads(blob(delta, entry["digest"]).read_bytes())
    config_json = json.loads(blob(delta, manifest_json["config"]["digest"]).read_bytes())
    data = [blob(delta, layer["digest"]).read_bytes() for layer in manifest_json["layers"]]
    config(config_json)
    patches(data)
    config_bytes = strict_json.encode(config_json)
    manifest_json["config"] = oci.descriptor(oci.DELTA_CONFIG, config_bytes)
    manifest_json["layers"] = [oci.descriptor(oci.PATCH, patch) for patch in data]
    manifest(manifest_json)
    manifest_bytes = strict_json.encode(manifest_json)
    for part in (config_bytes, manifest_bytes, *data):
        put(delta, part)
    index_json["manifests"][2] = oci.descriptor(oci.MANIFEST, manifest_bytes) | {"artifactType": oci.DELTA_ARTIFACT}
    index(index_json)
    (delta / "index.json").write_bytes(strict_json.encode(index_json))
