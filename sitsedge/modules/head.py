"""The signed part of a bundle: index, manifests, config and statement. Everything but the layers' bytes.

A whole bundle and a delta have the same head, byte for byte: the manifest names every layer with digest and size and
the publisher's statement covers it, so a delta needs no signature of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitsedge.modules import oci, strict_json
from sitsedge.modules.config import BundleConfig, require_version
from sitsedge.modules.errors import BundleError
from sitsedge.modules.statement import PublisherTrust, verify_statement

SMALL_BYTES_MAX = strict_json.JSON_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Head:
    """What a trusted publisher signed. ``layers`` maps every name of ``oci.LAYERS`` to what that layer must be;
    ``small`` has the bytes of manifests, statement and config by digest; ``delta`` is a delta's own manifest."""

    module: oci.Descriptor
    signature: oci.Descriptor
    config: BundleConfig
    config_entry: oci.Descriptor
    layers: Mapping[str, oci.Descriptor]
    small: Mapping[str, bytes]
    signer: str
    delta: oci.Descriptor | None

    @property
    def digest(self) -> bytes:
        """The module digest."""
        return bytes.fromhex(self.module.hex)

    @property
    def blobs(self) -> dict[str, str]:
        """SHA-256 (hex) of config, manifest and each layer by name."""
        return _subjects(self.module, self.config_entry, self.layers)


def read_index(root: Path, *, delta: bool = False) -> oci.Index:
    """``index.json`` of the folder ``root``; with ``delta`` it may be that of a delta. Raises ``BundleError``."""
    index = oci.parse(oci.read_file(root / "index.json", SMALL_BYTES_MAX), oci.Index, "index.json")
    kinds = tuple(entry.artifactType for entry in index.manifests)
    if kinds == (*oci.WHOLE, oci.DELTA_ARTIFACT):
        if delta:
            return index
        raise BundleError(
            "bundle-delta",
            found=f"a delta to module {index.manifests[0].hex}",
            expected="a whole bundle",
            hint="import it where its base is: sitsctl module import DELTA --state-dir DIR",
        )
    if kinds != oci.WHOLE:
        raise BundleError("bundle-content", found="other artifacts", expected="the module, then its signature")
    return index


def read_head(root: Path, trust: PublisherTrust, *, delta: bool = False) -> Head:
    """Read and verify the head of the folder ``root``; raises ``BundleError`` or ``BundleSignatureError``.

    1. layout and index; 2. both manifests by digest, the signature's subject being the module; 3. config and
    exactly one layer of each kind named; 4. a trusted publisher's statement over all of them.
    """
    # 1. layout
    if oci.read_file(root / "oci-layout", SMALL_BYTES_MAX) != oci.LAYOUT_BYTES:
        raise BundleError("bundle-layout", found="another oci-layout", expected=oci.LAYOUT_BYTES.decode())
    module, signed, *more = read_index(root, delta=delta).manifests
    # 2. manifests
    manifest_bytes = oci.read_blob(root, module, oci.MANIFEST, SMALL_BYTES_MAX)
    manifest = oci.parse(manifest_bytes, oci.Manifest, "manifest")
    signature_bytes = oci.read_blob(root, signed, oci.MANIFEST, SMALL_BYTES_MAX)
    signature = oci.parse(signature_bytes, oci.SignatureManifest, "signature manifest")
    require_subject(signature.subject, module, "a signature")
    # 3. config and layers
    config_bytes = oci.read_blob(root, manifest.config, oci.CONFIG, SMALL_BYTES_MAX)
    require_version(config_bytes)
    config = oci.parse(config_bytes, BundleConfig, "config")
    layers = _named(manifest)
    # 4. signature
    envelope = oci.read_blob(root, signature.layers[0], oci.DSSE, SMALL_BYTES_MAX)
    subjects = _subjects(module, manifest.config, layers)
    signer = verify_statement(envelope, subjects, predicate(config), trust)
    parts = (manifest_bytes, signature_bytes, envelope, config_bytes, oci.EMPTY_BYTES)
    return Head(
        module=module,
        signature=signed,
        config=config,
        config_entry=manifest.config,
        layers=layers,
        small={hashlib.sha256(data).hexdigest(): data for data in parts},
        signer=signer,
        delta=more[0] if more else None,
    )


def require_subject(subject: oci.Descriptor, module: oci.Descriptor, what: str) -> None:
    """Refuse ``what`` unless it is about ``module``."""
    if (subject.mediaType, subject.digest, subject.size) != (oci.MANIFEST, module.digest, module.size):
        raise BundleError("bundle-content", found=f"{what} of another module", expected=module.digest)


def predicate(config: BundleConfig) -> dict[str, Any]:
    """What the publisher states beyond the digests."""
    return {
        "name": config.name,
        "compiler": config.compiler,
        "proof": config.proof.model_dump(mode="json"),
        "source": config.source.model_dump(mode="json"),
    }


def _named(manifest: oci.Manifest) -> dict[str, oci.Descriptor]:
    expected = [media_type for media_type, _ in oci.LAYERS.values()]
    if [layer.mediaType for layer in manifest.layers] != expected:
        raise BundleError("bundle-content", found="other layers", expected=f"the layers {', '.join(expected)}")
    named = dict(zip(oci.LAYERS, manifest.layers, strict=True))
    for name, entry in named.items():
        oci.check_size(entry, oci.LAYERS[name][1])
    return named


def _subjects(module: oci.Descriptor, config: oci.Descriptor, layers: Mapping[str, oci.Descriptor]) -> dict[str, str]:
    return {name: entry.hex for name, entry in layers.items()} | {"config": config.hex, "manifest": module.hex}
