"""Deltas: a new module as the whole signed head of it and patches against one older module (ADR 0022).

Layout: an OCI image layout whose index lists the module, its signature and the delta's own manifest. Manifests,
statement and config are those of the whole bundle, byte for byte; of the layers there are only patches. The delta's
manifest has the module as ``subject``, a small config naming the base by module digest and saying which layers are
the base's own (``kept``) and which have a patch (``patched``), and the patches in that order. Both lists follow from
the two module manifests and are there for people and error messages; others than those are refused.

The delta's own manifest, config and patches are signed by nobody. What they lead to is: every rebuilt layer must have
the size and digest of the signed manifest, so a hostile delta can be refused or waste the bounded time of one import.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sitsedge.modules import archive, files, matching, oci, patch, strict_json
from sitsedge.modules.bundle import read_bundle
from sitsedge.modules.errors import BundleError, StoreError
from sitsedge.modules.head import Head, read_head
from sitsedge.modules.statement import PublisherTrust

FORMAT = 1


def _layer_name(value: str) -> str:
    if value not in oci.LAYERS:
        raise ValueError("the name of a layer")
    return value


LayerName = Annotated[str, AfterValidator(_layer_name)]


class DeltaConfig(BaseModel):
    """The config blob of a delta."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    base: oci.Digest
    kept: Annotated[tuple[LayerName, ...], Field(max_length=len(oci.LAYERS))]
    patched: Annotated[tuple[LayerName, ...], Field(max_length=len(oci.LAYERS))]


@dataclass(frozen=True, slots=True)
class DeltaSummary:
    """What a delta holds: bytes of each patch, and of all its files together; ``whole`` is the new bundle's."""

    base: bytes
    module: bytes
    kept: Mapping[str, int]
    patched: Mapping[str, tuple[int, int]]
    bytes: int
    whole: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Which layers the base has, and which have patches."""

    kept: tuple[str, ...]
    patched: tuple[str, ...]


def plan(new: Head, base: Mapping[str, oci.Descriptor]) -> Plan:
    """What a delta to the module ``new`` from one with the layers ``base`` consists of.

    A layer is kept when the base has a blob with its digest, patched when not; a blob that two layers share has one
    patch. The second layer is in neither list, nor is one that is a blob of the head (an empty report).
    """
    held = {entry.digest for entry in base.values()}
    there = {f"sha256:{name}" for name in new.small}
    kept = tuple(name for name, entry in new.layers.items() if entry.digest in held - there)
    patched: list[str] = []
    for name, entry in new.layers.items():
        if entry.digest not in held | there:
            there.add(entry.digest)
            patched.append(name)
    return Plan(kept, tuple(patched))


def make_delta(out: Path, *, base: Path, new: Path, trust: PublisherTrust) -> DeltaSummary:
    """Verify two bundles (folders or archives) and write the delta between them, an archive if ``out`` ends in .sits.

    Raises what ``read_bundle`` raises, ``BundleError`` (``delta-same``) and ``StoreError`` (``output-exists``).
    """
    if os.path.lexists(out):
        raise StoreError("output-exists", found=str(out), expected="a new name", hint="remove it or choose another")
    with archive.as_folder(base) as old, archive.as_folder(new) as made:
        for folder in (old, made):
            read_bundle(folder, trust)
        heads = [read_head(folder, trust) for folder in (old, made)]
        if out.suffix != ".sits":
            return write_delta(out, base=old, base_head=heads[0], new=made, new_head=heads[1])
        with tempfile.TemporaryDirectory(prefix="sits-delta-") as scratch:
            folder = Path(scratch) / "delta"
            summary = write_delta(folder, base=old, base_head=heads[0], new=made, new_head=heads[1])
            archive.write_archive(folder, out)
            return replace(summary, bytes=out.stat().st_size)


def write_delta(out: Path, *, base: Path, base_head: Head, new: Path, new_head: Head) -> DeltaSummary:
    """Write the delta from the bundle folder ``base`` to ``new`` at ``out``, which must not exist, atomically.

    Both heads must have been read from these folders. Raises ``BundleError``, ``StoreError`` (``output-exists``).
    """
    if base_head.digest == new_head.digest:
        raise BundleError(
            "delta-same", found=f"module {new_head.module.hex} twice", expected="two modules", hint="nothing to send"
        )
    todo = plan(new_head, base_head.layers)
    patches: dict[str, bytes] = {}
    for name in todo.patched:
        old, made = (_layer(root, head, name) for root, head in ((base, base_head), (new, new_head)))
        patches[name] = patch.encode_patch(matching.records(old, made))
    config = {"version": FORMAT, "base": base_head.module.digest, "kept": todo.kept, "patched": todo.patched}
    config_bytes = strict_json.encode(config)
    manifest = strict_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci.MANIFEST,
            "artifactType": oci.DELTA_ARTIFACT,
            "config": oci.descriptor(oci.DELTA_CONFIG, config_bytes),
            "layers": [oci.descriptor(oci.PATCH, data) for data in patches.values()],
            "subject": new_head.module.model_dump(include={"mediaType", "digest", "size"}),
        }
    )
    small = new_head.small
    index = oci.index(
        {
            oci.MODULE_ARTIFACT: small[new_head.module.hex],
            oci.SIGNATURE_ARTIFACT: small[new_head.signature.hex],
            oci.DELTA_ARTIFACT: manifest,
        }
    )
    contents = {"oci-layout": oci.LAYOUT_BYTES, "index.json": index}
    for data in (*small.values(), manifest, config_bytes, *patches.values()):
        contents[f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"] = data
    files.write_folder(out, contents)
    sizes = {name: entry.size for name, entry in new_head.layers.items()}
    return DeltaSummary(
        base=base_head.digest,
        module=new_head.digest,
        kept={name: sizes[name] for name in todo.kept},
        patched={name: (len(data), sizes[name]) for name, data in patches.items()},
        bytes=sum(map(len, contents.values())),
        whole=_whole_bytes(new_head),
    )


def _layer(root: Path, head: Head, name: str) -> bytes:
    return oci.read_blob(root, head.layers[name], *oci.LAYERS[name])


def _whole_bytes(head: Head) -> int:
    blobs = {entry.hex: entry.size for entry in head.layers.values()} | {
        name: len(data) for name, data in head.small.items()
    }
    return sum(blobs.values()) + len(oci.LAYOUT_BYTES) + len(whole_index(head))


def whole_index(head: Head) -> bytes:
    """``index.json`` of the whole bundle with this head."""
    return oci.index(
        {
            oci.MODULE_ARTIFACT: head.small[head.module.hex],
            oci.SIGNATURE_ARTIFACT: head.small[head.signature.hex],
        }
    )
