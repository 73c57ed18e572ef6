"""From a delta and its base in the store to the whole bundle, with every blob checked (rules: ``delta``, ``patch``)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sitsedge.modules import files, oci, patch
from sitsedge.modules.delta import DeltaConfig, plan, whole_index
from sitsedge.modules.errors import BundleError, StoreError
from sitsedge.modules.head import SMALL_BYTES_MAX, Head, require_subject


def rebuild(delta: Path, head: Head, out: Path, *, find: Callable[[bytes], Path]) -> None:
    """Make the whole bundle of the delta folder ``delta``, whose ``head`` was verified, in the new folder ``out``.

    ``find`` gives the folder where a module would be, whether it is there or not. Kept blobs become hard links where
    the file system allows. What comes out has the sizes and digests of the signed manifest; the caller reads it as
    any other bundle. Raises ``BundleError``, and ``StoreError`` (``delta-base-missing``, ``delta-base-damaged``).
    """
    assert head.delta is not None, "a whole bundle needs no rebuilding"
    config, patches = _read_delta(delta, head, head.delta)
    base = find(bytes.fromhex(config.base.removeprefix("sha256:")))
    old = _base_layers(base, config, head)
    todo = plan(head, old)
    if (config.kept, config.patched, len(patches)) != (todo.kept, todo.patched, len(todo.patched)):
        raise BundleError(
            "delta-content",
            found=f"{list(config.kept)} kept and {len(patches)} patches for {list(config.patched)}",
            expected=f"{list(todo.kept)} kept and {list(todo.patched)} patched, as the two manifests say",
        )
    (out / "blobs" / "sha256").mkdir(parents=True)
    out.chmod(0o755)
    contents = {"oci-layout": oci.LAYOUT_BYTES, "index.json": whole_index(head)}
    contents |= {f"blobs/sha256/{name}": data for name, data in head.small.items()}
    for name, data in contents.items():
        files.write_file(out / name, data)
    for entry in {head.layers[name].digest: head.layers[name] for name in todo.kept}.values():
        _check_base(base, entry)
        files.link_or_copy(oci.blob_path(base, entry), oci.blob_path(out, entry))
    for name, entry in zip(todo.patched, patches, strict=True):
        data = oci.read_blob(delta, entry, oci.PATCH, oci.BLOB_BYTES_MAX)
        _rebuild_layer(name, data, base, old.get(name), oci.blob_path(out, head.layers[name]), head.layers[name])
    for folder in (out / "blobs" / "sha256", out / "blobs", out):
        files.sync_folder(folder)


def _read_delta(root: Path, head: Head, entry: oci.Descriptor) -> tuple[DeltaConfig, tuple[oci.Descriptor, ...]]:
    manifest_bytes = oci.read_blob(root, entry, oci.MANIFEST, SMALL_BYTES_MAX)
    manifest = oci.parse(manifest_bytes, oci.DeltaManifest, "delta manifest")
    require_subject(manifest.subject, head.module, "a delta")
    config_bytes = oci.read_blob(root, manifest.config, oci.DELTA_CONFIG, SMALL_BYTES_MAX)
    config = oci.parse(config_bytes, DeltaConfig, "delta config")
    if config.base == head.module.digest:
        raise BundleError("delta-content", found="a delta against its own module", expected="an older one as base")
    return config, manifest.layers


def _base_layers(base: Path, config: DeltaConfig, head: Head) -> dict[str, oci.Descriptor]:
    """The layers of the base by name, from its manifest, which is what its digest says; others are left out."""
    name = config.base.removeprefix("sha256:")
    if not base.is_dir():
        kept = sum(head.layers[layer].size for layer in config.kept)
        raise StoreError(
            "delta-base-missing",
            found=f"no module {name}",
            expected=f"it, for {', '.join(config.kept) or 'no layer'} ({kept} bytes)"
            f" and to rebuild {', '.join(config.patched) or 'none'}",
            hint="import the base first, or the whole bundle",
        )
    try:
        data = oci.read_file(base / "blobs" / "sha256" / name, SMALL_BYTES_MAX)
        if hashlib.sha256(data).hexdigest() != name:
            raise BundleError("bundle-digest", found="a changed manifest", expected=name)
        manifest = oci.parse(data, oci.Manifest, "manifest of the base")
    except BundleError as error:
        raise _damaged(error) from error
    kinds = {layer.mediaType: layer for layer in manifest.layers}
    return {layer: kinds[kind] for layer, (kind, _) in oci.LAYERS.items() if kind in kinds}


def _rebuild_layer(
    name: str, data: bytes, base: Path, old: oci.Descriptor | None, target: Path, entry: oci.Descriptor
) -> None:
    digest = hashlib.sha256()
    with files.new_file(target) as file:

        def write(piece: bytes) -> None:
            digest.update(piece)
            file.write(piece)

        if old is None:
            patch.apply_patch(data, _Nothing(), write, size=entry.size, what=name)
        else:
            _check_base(base, old)
            with oci.open_file(oci.blob_path(base, old), old.size) as (handle, size):
                patch.apply_patch(data, _FileSource(handle, size), write, size=entry.size, what=name)
    oci.check_digest(entry, entry.size, digest.hexdigest())


def _check_base(base: Path, entry: oci.Descriptor) -> None:
    """Read the base's blob through once, so that damage there is not blamed on the delta."""
    digest = hashlib.sha256()
    try:
        with oci.open_file(oci.blob_path(base, entry), entry.size) as (handle, size):
            for offset in range(0, size, patch.PIECE_BYTES):
                digest.update(os.pread(handle, patch.PIECE_BYTES, offset))
        oci.check_digest(entry, size, digest.hexdigest())
    except BundleError as error:
        raise _damaged(error) from error


def _damaged(error: BundleError) -> StoreError:
    return StoreError(
        "delta-base-damaged",
        found=error.found,
        expected="the base module as it was imported",
        hint="import the base again, or the whole bundle instead of the delta",
    )


@dataclass(frozen=True, slots=True)
class _FileSource:
    """A blob in a file that stays open while it is read."""

    handle: int
    size: int

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.handle, length, offset)


@dataclass(frozen=True, slots=True)
class _Nothing:
    """The source of a layer that the base does not have: a patch that copies from it is refused."""

    size: int = 0

    def read(self, offset: int, length: int) -> bytes:
        raise AssertionError(f"a copy of {length} bytes from {offset} out of nothing")
