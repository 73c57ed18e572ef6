"""OCI image layout: descriptors, the two manifests of a bundle, and bounded reading of blobs from a folder.

Source: OCI Image Format Specification 1.1 (image-layout, manifest, ``subject``). A bundle's index lists two
manifests: the module, and the signature artifact whose ``subject`` is the module. Only what this page names
may occur; an unknown key, media type or file is refused.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sitsedge.modules import strict_json
from sitsedge.modules.errors import BundleError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
CONFIG = "application/vnd.sits.module.config.v1+json"
MODULE_ARTIFACT = "application/vnd.sits.module.v1"
SIGNATURE_ARTIFACT = "application/vnd.sits.module.signature.v1"
DSSE = "application/vnd.dsse.envelope.v1+json"
DELTA_ARTIFACT = "application/vnd.sits.module.delta.v1"
DELTA_CONFIG = "application/vnd.sits.module.delta.config.v1+json"
PATCH = "application/vnd.sits.module.patch.v1+zlib"

WHOLE = (MODULE_ARTIFACT, SIGNATURE_ARTIFACT)
"""What the index of a whole bundle lists, in this order; that of a delta goes on with ``DELTA_ARTIFACT``."""

LAYOUT_BYTES = b'{"imageLayoutVersion":"1.0.0"}'
EMPTY_BYTES = b"{}"

LAYERS: dict[str, tuple[str, int]] = {
    "wasm": ("application/wasm", 16 << 20),
    "wasm_relaxed": ("application/vnd.sits.wasm.relaxed-simd", 16 << 20),
    "integer_onnx": ("application/vnd.sits.onnx.integer", 64 << 20),
    "circuit": ("application/vnd.sits.circuit", 64 << 20),
    "proving_key": ("application/vnd.sits.proving-key", 512 << 20),
    "verification_key": ("application/vnd.sits.verification-key", 1 << 20),
    "limits": ("application/vnd.sits.limits+yaml", 256 << 10),
    "report": ("application/vnd.sits.report+json", 4 << 20),
    "report_html": ("text/html", 4 << 20),
}
"""Layer name → media type and largest size. The sizes are those of the largest network the compiler accepts."""

BLOB_BYTES_MAX = max(size for _, size in LAYERS.values())

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Model = TypeVar("Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Descriptor(_Strict):
    """Where a blob is and what it must be."""

    mediaType: Annotated[str, Field(max_length=128)]  # noqa: N815  # OCI's own keys
    digest: Digest
    size: Annotated[int, Field(ge=0, le=BLOB_BYTES_MAX)]

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.removeprefix("sha256:")


class ManifestDescriptor(Descriptor):
    """An entry of the index."""

    artifactType: Literal[  # noqa: N815
        "application/vnd.sits.module.v1",
        "application/vnd.sits.module.signature.v1",
        "application/vnd.sits.module.delta.v1",
    ]


class Manifest(_Strict):
    """The module manifest; its blob's SHA-256 is the module digest."""

    schemaVersion: Literal[2]  # noqa: N815
    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]  # noqa: N815
    artifactType: Literal["application/vnd.sits.module.v1"]  # noqa: N815
    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], Field(max_length=len(LAYERS))]


class SignatureManifest(_Strict):
    """The manifest of the signature artifact."""

    schemaVersion: Literal[2]  # noqa: N815
    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]  # noqa: N815
    artifactType: Literal["application/vnd.sits.module.signature.v1"]  # noqa: N815
    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], Field(min_length=1, max_length=1)]
    subject: Descriptor


class DeltaManifest(_Strict):
    """The manifest of a delta: its config says what the patches, in this order, are for; the subject is the module."""

    schemaVersion: Literal[2]  # noqa: N815
    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]  # noqa: N815
    artifactType: Literal["application/vnd.sits.module.delta.v1"]  # noqa: N815
    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], Field(max_length=len(LAYERS))]
    subject: Descriptor


class Index(_Strict):
    """``index.json``: the module first, then its signature; in a delta, then the delta's own manifest."""

    schemaVersion: Literal[2]  # noqa: N815
    mediaType: Literal["application/vnd.oci.image.index.v1+json"]  # noqa: N815
    manifests: Annotated[tuple[ManifestDescriptor, ...], Field(min_length=2, max_length=3)]


def descriptor(media_type: str, data: bytes) -> dict[str, object]:
    """The descriptor of ``data`` as OCI writes it."""
    return {
        "mediaType": media_type,
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "size": len(data),
    }


def index(artifacts: Mapping[str, bytes]) -> bytes:
    """``index.json`` for manifests by artifact type, in the given order."""
    return strict_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [descriptor(MANIFEST, data) | {"artifactType": kind} for kind, data in artifacts.items()],
        }
    )


def parse(data: bytes, model: type[Model], what: str) -> Model:
    """Strict JSON into ``model``; raises ``BundleError`` naming ``what``."""
    strict_json.decode(data, what)
    try:
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BundleError(
            "bundle-content", found=f"{what}: {where}: {first['msg']}"[:200], expected="the bundle format"
        ) from error


@contextmanager
def open_file(path: Path, size_max: int) -> Iterator[tuple[int, int]]:
    """Descriptor and size of a regular file of at most ``size_max`` bytes, never through a link.

    Raises ``BundleError``.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BundleError("bundle-layout", found=f"{path.name}: {error.strerror}", expected="a regular file") from error
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > size_max:
            raise BundleError(
                "bundle-size",
                found=f"{path.name}: {info.st_size} bytes",
                expected=f"a regular file of at most {size_max} bytes",
            )
        yield handle, info.st_size
    finally:
        os.close(handle)


def read_file(path: Path, size_max: int) -> bytes:
    """A regular file of at most ``size_max`` bytes, never through a link; raises ``BundleError``."""
    with open_file(path, size_max) as (handle, _), os.fdopen(handle, "rb", closefd=False) as file:
        data = file.read(size_max + 1)
    if len(data) > size_max:
        raise BundleError("bundle-size", found=f"{path.name} growing", expected=f"at most {size_max} bytes")
    return data


def blob_path(root: Path, entry: Descriptor) -> Path:
    """Where the folder ``root`` has the blob."""
    return root / "blobs" / "sha256" / entry.hex


def check_size(entry: Descriptor, size_max: int) -> None:
    """Refuse a descriptor that promises more than its kind may have."""
    if entry.size > size_max:
        raise BundleError("bundle-size", found=f"{entry.size} bytes of {entry.mediaType}", expected=f"≤ {size_max}")


def read_blob(root: Path, entry: Descriptor, media_type: str, size_max: int) -> bytes:
    """The blob of ``entry`` with its media type, size and digest checked."""
    if entry.mediaType != media_type:
        raise BundleError("bundle-content", found=f"media type {entry.mediaType}", expected=media_type)
    check_size(entry, size_max)
    data = read_file(blob_path(root, entry), entry.size)
    check_digest(entry, len(data), hashlib.sha256(data).hexdigest())
    return data


def check_digest(entry: Descriptor, size: int, digest: str) -> None:
    """Refuse bytes of another size or SHA-256 (hex) than ``entry`` says."""
    if size != entry.size or digest != entry.hex:
        raise BundleError(
            "bundle-digest",
            found=f"{entry.mediaType} of {size} bytes with SHA-256 {digest[:16]}…",
            expected=f"{entry.size} bytes with {entry.hex[:16]}…",
            hint="the bundle is damaged or was changed; fetch it again",
        )
