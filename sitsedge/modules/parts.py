"""Single parts of a bundle, found by the module digest alone: what signed commands name needs no publisher's word."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sitsedge.modules import archive, oci
from sitsedge.modules.errors import BundleError
from sitsedge.modules.head import SMALL_BYTES_MAX, read_index


@dataclass(frozen=True, slots=True)
class ModuleParts:
    """The module manifest (its SHA-256 is the module digest) and the circuit it names, both as bytes."""

    manifest: bytes
    circuit: bytes


def read_parts(root: Path, digest: bytes) -> ModuleParts:
    """From the bundle folder or ``.sits`` archive ``root``, whose module must have ``digest``.

    Every blob is checked against the digest that leads to it, from the module digest down; the publisher's signature
    is not looked at. Raises ``BundleError``.
    """
    with archive.as_folder(root) as folder:
        return _read(folder, digest)


def _read(root: Path, digest: bytes) -> ModuleParts:
    index = read_index(root)
    manifest_bytes = oci.read_blob(root, index.manifests[0], oci.MANIFEST, SMALL_BYTES_MAX)
    if hashlib.sha256(manifest_bytes).digest() != digest:
        raise BundleError(
            "bundle-digest",
            found=f"module {hashlib.sha256(manifest_bytes).hexdigest()}",
            expected=digest.hex(),
            hint="give the bundle of the module that made these commands",
        )
    manifest = oci.parse(manifest_bytes, oci.Manifest, "manifest")
    media_type, size_max = oci.LAYERS["circuit"]
    circuits = [layer for layer in manifest.layers if layer.mediaType == media_type]
    if len(circuits) != 1:
        raise BundleError("bundle-content", found=f"{len(circuits)} circuits", expected="one")
    return ModuleParts(manifest_bytes, oci.read_blob(root, circuits[0], media_type, size_max))
