"""Deltas: the same module as from the whole bundle, or a typed error; one hostile delta per rule."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitsedge.modules import (
    BundleError,
    BundleSignatureError,
    ModuleStore,
    PublisherTrust,
    StoreError,
    make_delta,
    read_bundle,
    write_archive,
    write_bundle,
)
from sitsedge.modules.parts import read_parts
from sitsedge.modules.patch import encode_patch
from tests.sitsedge.modules import bundles, deltas
from tests.sitsedge.modules.deltas import TRUST
from tests.sitsedge.modules.test_store import PowerLostError, lose_power_at


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of a test machine need not keep up; that everything is synced in order is the power cut's test."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``old``, ``new``, the delta between them, and a store that has the base."""
    folder = tmp_path_factory.mktemp("made")
    deltas.make(folder)
    ModuleStore(folder / "store", TRUST).import_bundle(folder / "old")
    return folder


@pytest.fixture
def delta(tmp_path: Path, made: Path) -> Path:
    for name in ("old", "new", "delta"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path / "delta"


@pytest.fixture
def store(tmp_path: Path, delta: Path, made: Path) -> ModuleStore:
    """A store that has the base."""
    shutil.copytree(made / "store", tmp_path / "store")
    return ModuleStore(tmp_path / "store", TRUST)


def digest_of(bundle: Path) -> bytes:
    return read_bundle(bundle, TRUST).digest


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def only_base_is_left(tmp_path: Path) -> bool:
    """Nothing of a refused delta stays, and nothing of the base goes."""
    names = {path.name for path in (tmp_path / "store").iterdir()}
    return names == {".lock", digest_of(tmp_path / "old").hex()}


@pytest.mark.parametrize("name", ["delta", "delta.sits"])
def test_imported_from_a_delta_it_is_the_whole_bundle_byte_for_byte(
    store: ModuleStore, tmp_path: Path, name: str
) -> None:
    if name.endswith(".sits"):
        made = make_delta(tmp_path / name, base=tmp_path / "old", new=tmp_path / "new", trust=TRUST)
        assert made.bytes == (tmp_path / name).stat().st_size
    digest = store.import_bundle(tmp_path / name)
    assert digest == digest_of(tmp_path / "new")
    assert contents(tmp_path / "store" / digest.hex()) == contents(tmp_path / "new")
    assert store.activate(digest) == read_bundle(tmp_path / "new", TRUST)


def test_a_delta_says_what_it_holds_and_what_it_spares(tmp_path: Path) -> None:
    base, new = deltas.make_pair(tmp_path)
    made = make_delta(tmp_path / "delta", base=tmp_path / "old", new=tmp_path / "new", trust=TRUST)
    assert (made.base, made.module) == (base, new)
    assert list(made.patched) == ["wasm", "circuit", "report"]
    assert list(made.kept) == [
        "wasm_relaxed", "integer_onnx", "proving_key", "verification_key", "limits", "report_html",
    ]  # fmt: skip
    patch, whole = made.patched["circuit"]
    assert patch < 100 < len(deltas.COMMON) < whole
    assert made.bytes == sum(map(len, contents(tmp_path / "delta").values()))
    assert made.whole == sum(map(len, contents(tmp_path / "new").values()))


def test_archives_and_folders_give_the_same_delta(tmp_path: Path, delta: Path) -> None:
    for name in ("old", "new"):
        write_archive(tmp_path / name, tmp_path / f"{name}.sits")
    make_delta(tmp_path / "again", base=tmp_path / "old.sits", new=tmp_path / "new.sits", trust=TRUST)
    assert contents(tmp_path / "again") == contents(delta)


def test_two_layers_with_the_same_new_bytes_have_one_patch(tmp_path: Path) -> None:
    """The relaxed module equals the plain one where a network has no use for it."""
    layers = deltas.new_layers()
    layers |= {"wasm_relaxed": layers["wasm"]}
    deltas.make_pair(tmp_path)
    write_bundle(tmp_path / "equal", bundles.config(layers), layers, signer=deltas.SIGNER)
    made = make_delta(tmp_path / "delta", base=tmp_path / "old", new=tmp_path / "equal", trust=TRUST)
    assert "wasm" in made.patched
    assert "wasm_relaxed" not in {*made.patched, *made.kept}
    store = ModuleStore(tmp_path / "store", TRUST)
    store.import_bundle(tmp_path / "old")
    assert store.load(store.import_bundle(tmp_path / "delta")).wasm_relaxed == layers["wasm"]


@pytest.mark.parametrize("base", ["old", "empty-report"])
def test_a_layer_that_is_a_blob_of_the_head_is_there_already(tmp_path: Path, base: str) -> None:
    """An empty report is the empty config of the signature's manifest; whether the base has it or not."""
    deltas.make_pair(tmp_path)
    for name, layers in (("empty-report", deltas.old_layers()), ("new-empty", deltas.new_layers())):
        empty = layers | {"report": b"{}"}
        write_bundle(tmp_path / name, bundles.config(empty), empty, signer=deltas.SIGNER)
    made = make_delta(tmp_path / "delta", base=tmp_path / base, new=tmp_path / "new-empty", trust=TRUST)
    assert list(made.patched) == ["wasm", "circuit"]
    assert "report" not in made.kept
    assert made.whole == sum(map(len, contents(tmp_path / "new-empty").values()))
    store = ModuleStore(tmp_path / "store", TRUST)
    store.import_bundle(tmp_path / base)
    assert store.load(store.import_bundle(tmp_path / "delta")).report == {}


def test_a_delta_to_the_same_module_is_refused(tmp_path: Path) -> None:
    deltas.make_pair(tmp_path)
    with pytest.raises(BundleError) as refused:
        make_delta(tmp_path / "delta", base=tmp_path / "old", new=tmp_path / "old", trust=TRUST)
    assert refused.value.code == "delta-same"
    assert not (tmp_path / "delta").exists()


@pytest.mark.parametrize("name", ["delta", "delta.sits"])
def test_a_name_that_is_taken_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError) as refused:
        make_delta(tmp_path / name, base=tmp_path / "absent", new=tmp_path / "absent", trust=TRUST)
    assert refused.value.code == "output-exists"


def test_no_delta_of_a_bundle_that_is_not_trusted(tmp_path: Path) -> None:
    deltas.make_pair(tmp_path)
    other = PublisherTrust((Ed25519PrivateKey.generate().public_key(),))
    with pytest.raises(BundleSignatureError):
        make_delta(tmp_path / "delta", base=tmp_path / "old", new=tmp_path / "new", trust=other)


def test_without_the_base_the_error_says_what_is_needed(tmp_path: Path, delta: Path) -> None:
    store = ModuleStore(tmp_path / "empty", TRUST)
    with pytest.raises(StoreError) as refused:
        store.import_bundle(delta)
    assert refused.value.code == "delta-base-missing"
    assert digest_of(tmp_path / "old").hex() in refused.value.found
    kept = sum(len(deltas.old_layers()[n]) for n in ("wasm_relaxed", "integer_onnx", "proving_key", "verification_key",
                                                     "limits", "report_html"))  # fmt: skip
    assert f"({kept} bytes)" in refused.value.expected
    assert "proving_key" in refused.value.expected
    assert "rebuild wasm, circuit, report" in refused.value.expected
    assert {path.name for path in (tmp_path / "empty").iterdir()} == {".lock"}


def test_a_module_that_is_there_needs_no_base(tmp_path: Path, delta: Path) -> None:
    store = ModuleStore(tmp_path / "store", TRUST)
    digest = store.import_bundle(tmp_path / "new")
    assert store.import_bundle(delta) == digest


def test_a_delta_is_no_bundle(tmp_path: Path, delta: Path) -> None:
    for read in (lambda: read_bundle(delta, TRUST), lambda: read_parts(delta, bytes(32))):
        with pytest.raises(BundleError) as refused:
            read()
        assert refused.value.code == "bundle-delta"
        assert digest_of(tmp_path / "new").hex() in refused.value.found
        assert "module import" in refused.value.hint


# Hostile deltas: every digest holds, one rule is broken.

OTHER = "sha256:" + "0" * 64
PATH = "sha256:../../../../../../../../../etc/passwd"


def put(key: str, value: Any) -> deltas.Change:
    """Set a dotted key; numbers are list positions."""

    def change(document: Any) -> None:
        *folders, last = (int(part) if part.isdigit() else part for part in key.split("."))
        for folder in folders:
            document = document[folder]
        document[last] = value

    return change


def drop(key: str) -> deltas.Change:
    return lambda document: document[key].pop()


def twice(key: str) -> deltas.Change:
    return lambda document: document[key].append(document[key][-1])


def keeps_a_changed_layer(config: Any) -> None:
    """The base has no such blob: taking one of its name would put another module's part in."""
    config["patched"].remove("circuit")
    config["kept"].insert(2, "circuit")


def patches_a_kept_layer(config: Any) -> None:
    config["kept"].remove("limits")
    config["patched"].append("limits")


def last_patch_twice(patches: Any) -> None:
    patches.append(patches[-1])


def swap_patches(patches: Any) -> None:
    patches[0], patches[1] = patches[1], patches[0]


HOSTILE: dict[str, tuple[dict[str, deltas.Change], str]] = {
    "index-delta-first": ({"index": lambda index: index["manifests"].reverse()}, "bundle-content"),
    "index-two-deltas": ({"index": twice("manifests")}, "bundle-content"),
    "index-delta-without-signature": ({"index": lambda index: index["manifests"].pop(1)}, "bundle-content"),
    "index-delta-path-traversal": ({"index": put("manifests.2.digest", PATH)}, "bundle-content"),
    "index-delta-missing": ({"index": put("manifests.2.digest", OTHER)}, "bundle-layout"),
    "index-delta-of-other-size": ({"index": put("manifests.2.size", 9000)}, "bundle-digest"),
    "manifest-unknown-key": ({"manifest": put("annotations", {})}, "bundle-content"),
    "manifest-of-another-module": ({"manifest": put("subject.digest", OTHER)}, "bundle-content"),
    "manifest-of-another-size-of-the-module": ({"manifest": put("subject.size", 1)}, "bundle-content"),
    "manifest-other-artifact": ({"manifest": put("artifactType", "application/vnd.sits.module.v1")}, "bundle-content"),
    "manifest-config-media-type": ({"manifest": put("config.mediaType", "text/plain")}, "bundle-content"),
    "manifest-config-too-large": ({"manifest": put("config.size", 2 << 20)}, "bundle-size"),
    "manifest-too-many-patches": ({"manifest": lambda m: m.update(layers=m["layers"] * 4)}, "bundle-content"),
    "manifest-patch-path-traversal": ({"manifest": put("layers.0.digest", PATH)}, "bundle-content"),
    "manifest-patch-media-type": ({"manifest": put("layers.0.mediaType", "application/wasm")}, "bundle-content"),
    "manifest-patch-missing": ({"manifest": put("layers.0.digest", OTHER)}, "bundle-layout"),
    "manifest-patch-size-too-small": ({"manifest": put("layers.0.size", 1)}, "bundle-size"),
    "manifest-patch-size-too-large": ({"manifest": put("layers.0.size", 9000)}, "bundle-digest"),
    "manifest-patch-size-beyond-any-layer": ({"manifest": put("layers.0.size", 1 << 40)}, "bundle-content"),
    "manifest-patch-size-negative": ({"manifest": put("layers.0.size", -1)}, "bundle-content"),
    "config-unknown-key": ({"config": put("x", 1)}, "bundle-content"),
    "config-other-version": ({"config": put("version", 2)}, "bundle-content"),
    "config-boolean-version": ({"config": put("version", True)}, "bundle-content"),
    "config-base-path-traversal": ({"config": put("base", PATH)}, "bundle-content"),
    "config-base-other-algorithm": ({"config": put("base", "sha512:" + "0" * 64)}, "bundle-content"),
    "config-base-not-in-the-store": ({"config": put("base", OTHER)}, "delta-base-missing"),
    "config-unknown-layer": ({"config": put("kept.0", "module.wasm")}, "bundle-content"),
    "config-keeps-a-layer-the-base-lacks": ({"config": keeps_a_changed_layer}, "delta-content"),
    "config-patches-a-layer-the-base-has": ({"config": patches_a_kept_layer}, "delta-content"),
    "config-layer-kept-twice": ({"config": twice("kept")}, "delta-content"),
    "config-layer-patched-twice": ({"config": twice("patched")}, "delta-content"),
    "config-layer-forgotten": ({"config": drop("kept")}, "delta-content"),
    "config-in-another-order": ({"config": lambda c: c["patched"].reverse()}, "delta-content"),
    "patch-missing-for-a-layer": ({"patches": list.pop}, "delta-content"),
    "patch-for-no-layer": ({"patches": last_patch_twice}, "delta-content"),
    "patches-exchanged": ({"patches": swap_patches}, "delta-patch"),
    "patch-of-another-layer-s-content": ({"patches": put("0", encode_patch(iter([(b"another_wasm", 0, 0)])))},
                                         "bundle-digest"),
    "patch-that-makes-more-than-was-signed": ({"patches": put("0", encode_patch(iter([(bytes(1 << 20), 0, 0)])))},
                                              "delta-patch"),
    "patch-that-reads-beyond-the-base": ({"patches": put("0", encode_patch(iter([(b"", 4, 16)])))}, "delta-patch"),
}  # fmt: skip


@pytest.mark.parametrize("rule", HOSTILE)
def test_refuses(rule: str, store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    changes, code = HOSTILE[rule]
    deltas.forge(delta, **changes)
    with pytest.raises((BundleError, StoreError)) as refused:
        store.import_bundle(delta)
    assert refused.value.code == code, refused.value
    assert only_base_is_left(tmp_path)


def test_forge_without_a_change_is_accepted(store: ModuleStore, delta: Path) -> None:
    """The hostile deltas above fail for their change alone."""
    deltas.forge(delta)
    store.import_bundle(delta)


def test_a_delta_against_its_own_module_is_refused(store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    """A recipe that leads back to what it is for."""
    deltas.forge(delta, config=put("base", f"sha256:{digest_of(tmp_path / 'new').hex()}"))
    with pytest.raises(BundleError) as refused:
        store.import_bundle(delta)
    assert refused.value.code == "delta-content"


def test_the_signature_is_checked_before_patches_are_looked_at(store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    index = json.loads((delta / "index.json").read_bytes())
    deltas.blob(delta, index["manifests"][2]["digest"]).unlink()
    stranger = ModuleStore(tmp_path / "store", PublisherTrust((Ed25519PrivateKey.generate().public_key(),)))
    with pytest.raises(BundleSignatureError):
        stranger.import_bundle(delta)


def test_any_flipped_byte_of_any_file_is_refused(store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    files = sorted(path for path in delta.rglob("*") if path.is_file() and path.read_bytes() != b"{}")
    assert len(files) == 11
    for path in files:
        data = path.read_bytes()
        for at in {0, len(data) // 2, len(data) - 1}:
            changed = bytearray(data)
            changed[at] ^= 1
            path.write_bytes(changed)
            with pytest.raises(BundleError):
                store.import_bundle(delta)
        path.write_bytes(data)
    assert only_base_is_left(tmp_path)
    store.import_bundle(delta)


@pytest.mark.parametrize("part", ["limits", "circuit", "manifest"])
@pytest.mark.parametrize("how", ["changed", "gone", "link", "longer"])
def test_a_damaged_base_is_named_as_such(store: ModuleStore, delta: Path, tmp_path: Path, part: str, how: str) -> None:
    """A kept blob, the source of a patch, and the manifest that leads to both."""
    folder = tmp_path / "store" / digest_of(tmp_path / "old").hex()
    path = deltas.blob(folder, read_bundle(folder, TRUST).blobs[part])
    data = path.read_bytes()
    if how == "changed":
        path.write_bytes(data[:-1] + b"~")
    elif how == "longer":
        path.write_bytes(data + b"~")
    else:
        path.unlink()
    if how == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as refused:
        store.import_bundle(delta)
    assert refused.value.code == "delta-base-damaged"
    assert "whole bundle" in refused.value.hint
    store.import_bundle(tmp_path / "old")
    assert store.import_bundle(delta) == digest_of(tmp_path / "new")


def test_a_base_of_an_older_format_serves_what_it_has(store: ModuleStore, tmp_path: Path) -> None:
    """A layer that the base does not know comes whole in its patch; one that copies from it is refused."""
    old = tmp_path / "store" / digest_of(tmp_path / "old").hex()
    manifest = json.loads(deltas.blob(old, old.name).read_bytes())
    manifest["layers"] = [m for m in manifest["layers"] if "relaxed" not in m["mediaType"]]
    data = json.dumps(manifest).encode()
    digest = deltas.put(old, data)
    old.rename(old.with_name(digest.removeprefix("sha256:")))
    relaxed = deltas.new_layers()["wasm_relaxed"]

    def from_it(config: Any) -> None:
        config["base"] = digest
        config["kept"].remove("wasm_relaxed")
        config["patched"].insert(1, "wasm_relaxed")

    def with_patch(data: bytes) -> deltas.Change:
        return lambda patches: patches.insert(1, data)

    shutil.copytree(tmp_path / "delta", tmp_path / "copying")
    copying = encode_patch(iter([(b"", 0, len(relaxed))]))
    deltas.forge(tmp_path / "copying", config=from_it, patches=with_patch(copying))
    with pytest.raises(BundleError) as refused:
        store.import_bundle(tmp_path / "copying")
    assert refused.value.code == "delta-patch"
    deltas.forge(tmp_path / "delta", config=from_it, patches=with_patch(encode_patch(iter([(relaxed, 0, 0)]))))
    assert store.import_bundle(tmp_path / "delta") == digest_of(tmp_path / "new")


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_archive_gives_the_module_or_a_typed_error(
    made: Path, tmp_path: Path, unsynced: None, data: st.DataObject
) -> None:
    """Bytes changed, cut out or repeated anywhere: the store has the base, and the new module or nothing more."""
    archive = tmp_path / "delta.sits"
    if not archive.exists():
        write_archive(made / "delta", archive)
        shutil.copytree(made / "store", tmp_path / "store")
    store = ModuleStore(tmp_path / "store", TRUST)
    (base,) = store.digests()
    raw = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        piece = raw[at : at + data.draw(st.sampled_from([1, 2, 16, 512]))]
        raw[at : at + len(piece)] = data.draw(st.sampled_from([b"", bytes(len(piece)), piece * 2, bytes([255] * 4)]))
    changed = tmp_path / "changed.sits"
    changed.write_bytes(raw)
    with contextlib.suppress(BundleError, StoreError):
        digest = store.import_bundle(changed)
        assert digest == digest_of(made / "new")
        store.remove(digest)
    assert store.digests() == (base,)
    assert {path.name for path in (tmp_path / "store").iterdir()} == {".lock", base.hex()}


# The store.


def test_a_blob_damaged_in_both_modules_is_mended_in_both(store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    """They share the file: the base comes whole again, and the delta makes the other of it."""
    (base,) = store.digests()
    digest = store.import_bundle(delta)
    key = deltas.blob(tmp_path / "store" / digest.hex(), store.load(digest).blobs["proving_key"])
    key.write_bytes(b"damaged")
    for module in (base, digest):
        with pytest.raises(BundleError):
            store.load(module)
    with pytest.raises(StoreError) as refused:
        store.import_bundle(delta)
    assert refused.value.code == "delta-base-damaged"
    assert store.import_bundle(tmp_path / "old") == base
    assert store.import_bundle(delta) == digest
    assert {store.load(module).digest for module in (base, digest)} == {base, digest}


def test_removing_the_base_takes_nothing_from_what_was_made_of_it(store: ModuleStore, delta: Path) -> None:
    (base,) = store.digests()
    digest = store.import_bundle(delta)
    store.activate(digest)
    store.remove(base)
    assert store.digests() == (digest,)
    assert store.load_active().digest == digest


def test_removing_what_was_made_of_it_takes_nothing_from_the_base(store: ModuleStore, delta: Path) -> None:
    (base,) = store.digests()
    store.remove(store.import_bundle(delta))
    assert store.load(base).digest == base


def test_shared_blobs_take_their_space_once(store: ModuleStore, delta: Path, tmp_path: Path) -> None:
    (base,) = store.digests()
    digest = store.import_bundle(delta)
    key = store.load(digest).blobs["proving_key"]
    paths = [deltas.blob(tmp_path / "store" / module.hex(), key) for module in (base, digest)]
    assert paths[0].stat().st_ino == paths[1].stat().st_ino


def test_a_file_system_without_hard_links_gets_copies(
    store: ModuleStore, delta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    digest = store.import_bundle(delta)
    assert contents(tmp_path / "store" / digest.hex()) == contents(tmp_path / "new")


def test_power_lost_at_any_step_of_an_import(tmp_path: Path, delta: Path) -> None:
    """Afterwards the base is active as before, the new module whole or not there, and a second import works."""
    begun = tmp_path / "begun"
    first = ModuleStore(begun, TRUST)
    base = first.import_bundle(tmp_path / "old")
    first.activate(base)
    shutil.copytree(begun, tmp_path / "dry")
    with pytest.MonkeyPatch.context() as patch:
        calls = lose_power_at(patch, -1)
        digest = ModuleStore(tmp_path / "dry", TRUST).import_bundle(delta)
        steps = calls()
    assert steps > 20
    for step in range(1, steps + 1):
        root = tmp_path / f"store{step}"
        shutil.copytree(begun, root)
        store = ModuleStore(root, TRUST)
        with pytest.MonkeyPatch.context() as patch:
            lose_power_at(patch, step)
            # A crash runs no cleanup.
            patch.setattr("shutil.rmtree", lambda *_, **__: None)
            with pytest.raises(PowerLostError):
                store.import_bundle(delta)
        assert store.load_active().digest == base
        assert set(store.digests()) <= {base, digest}
        for found in store.digests():
            store.load(found)
        assert store.import_bundle(delta) == digest
        assert {path.name for path in root.iterdir()} == {base.hex(), digest.hex(), ".lock", "active"}
        shutil.rmtree(root)
