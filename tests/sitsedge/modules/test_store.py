"""The module store: verified import, one active module, and what power lost at any step leaves behind."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.modules import BundleError, BundleSignatureError, ModuleStore, PublisherTrust, StoreError, write_archive
from tests.sitsedge.modules import bundles

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUST = PublisherTrust((SIGNER.public_key(),))


@pytest.fixture
def store(tmp_path: Path) -> ModuleStore:
    return ModuleStore(tmp_path / "store", TRUST)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    bundles.make(tmp_path / "bundle", SIGNER)
    return tmp_path / "bundle"


def visible(store: ModuleStore, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "store").iterdir() if path.name != ".lock")


def test_import_activate_load(store: ModuleStore, bundle: Path) -> None:
    assert store.active() is None
    digest = store.import_bundle(bundle)
    assert store.digests() == (digest,)
    assert store.active() is None, "import does not activate"
    store.activate(digest)
    assert store.active() == digest
    assert store.load_active().digest == digest


def test_import_twice_is_no_error(store: ModuleStore, bundle: Path) -> None:
    assert store.import_bundle(bundle) == store.import_bundle(bundle)
    assert len(store.digests()) == 1


def test_archive_and_folder_are_the_same_module(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    write_archive(bundle, tmp_path / "a.sits")
    write_archive(bundle, tmp_path / "b.sits")
    assert (tmp_path / "a.sits").read_bytes() == (tmp_path / "b.sits").read_bytes()
    assert store.import_bundle(tmp_path / "a.sits") == store.import_bundle(bundle)


def test_switching_and_removing(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    bundles.make(tmp_path / "second", SIGNER, mark="two")
    first, second = store.import_bundle(bundle), store.import_bundle(tmp_path / "second")
    assert first != second
    store.activate(first)
    store.activate(second)
    with pytest.raises(StoreError) as refused:
        store.remove(second)
    assert refused.value.code == "module-active"
    store.remove(first)
    assert store.digests() == (second,)
    with pytest.raises(StoreError) as unknown:
        store.activate(first)
    assert unknown.value.code == "module-unknown"
    assert store.active() == second


def test_nothing_of_a_refused_bundle_stays(store: ModuleStore, tmp_path: Path) -> None:
    bundles.make(tmp_path / "b", Ed25519PrivateKey.generate())
    with pytest.raises(BundleSignatureError):
        store.import_bundle(tmp_path / "b")
    assert visible(store, tmp_path) == []


def test_load_verifies_again(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    digest = store.import_bundle(bundle)
    store.activate(digest)
    wasm = tmp_path / "store" / digest.hex() / "blobs" / "sha256" / store.load(digest).blobs["wasm"]
    wasm.write_bytes(b"wasm 0ne")
    with pytest.raises(BundleError) as refused:
        store.load_active()
    assert refused.value.code == "bundle-digest"


def test_importing_again_mends_a_damaged_module(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    digest = store.import_bundle(bundle)
    store.activate(digest)
    folder = tmp_path / "store" / digest.hex()
    (folder / "blobs" / "sha256" / store.load(digest).blobs["wasm"]).unlink()
    (folder / "index.json").write_bytes(b"{}")
    assert store.import_bundle(bundle) == digest
    assert store.load_active().digest == digest
    assert visible(store, tmp_path) == sorted([digest.hex(), "active"])


def test_bundle_under_another_digest_is_refused(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    digest = store.import_bundle(bundle)
    (tmp_path / "store" / digest.hex()).rename(tmp_path / "store" / ("0" * 64))
    with pytest.raises(BundleError) as refused:
        store.load(bytes(32))
    assert refused.value.code == "bundle-digest"


@pytest.mark.parametrize("text", [b"", b"zz" * 32, b"../../etc/passwd", b"0" * 63, b"\xff" * 64])
def test_damaged_pointer_is_typed(store: ModuleStore, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "store" / "active").write_bytes(text)
    with pytest.raises(StoreError) as refused:
        store.load_active()
    assert refused.value.code == "store-damaged"


def test_load_active_without_one_and_digests_of_other_lengths_are_typed(store: ModuleStore) -> None:
    with pytest.raises(StoreError) as none:
        store.load_active()
    assert none.value.code == "module-active"
    with pytest.raises(StoreError):
        store.load(b"short")
    with pytest.raises(StoreError):
        store.remove(bytes(32))


def test_two_processes_importing_at_once_both_succeed(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    """Without the lock, the second import would take the first one's staging folder for a crash's remains."""
    bundles.make(tmp_path / "second", SIGNER, mark="two")
    results: list[bytes] = []
    other = ModuleStore(tmp_path / "store", TRUST)
    threads = [
        threading.Thread(target=lambda s=s, src=src: results.append(s.import_bundle(src)))
        for s, src in ((store, bundle), (other, tmp_path / "second")) * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert set(results) == set(store.digests())
    assert len(store.digests()) == 2


class PowerLostError(BaseException):
    """Not an ``Exception``: no handler of the store may turn it into something else."""


def lose_power_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """Raise at the ``step``-th file-system call that changes what survives a crash; returns a call counter."""
    calls = 0
    real_fsync, real_rename = os.fsync, Path.rename

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise PowerLostError

    def fsync(handle: int) -> None:
        count()
        real_fsync(handle)

    def rename(self: Path, target: Any) -> Any:
        count()
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    return lambda: calls


def count_steps(tmp_path: Path, action: Callable[[ModuleStore], object], prepare: Callable[[ModuleStore], None]) -> int:
    store = ModuleStore(tmp_path / "dry", TRUST)
    prepare(store)
    with pytest.MonkeyPatch.context() as patch:
        calls = lose_power_at(patch, -1)
        action(store)
        return calls()


def test_power_lost_at_any_step_of_an_import(bundle: Path, tmp_path: Path) -> None:
    """Afterwards the store holds either nothing or the whole module, and a second import succeeds."""
    steps = count_steps(tmp_path, lambda s: s.import_bundle(bundle), lambda _: None)
    assert steps > 10
    for step in range(1, steps + 1):
        store = ModuleStore(tmp_path / f"store{step}", TRUST)
        with pytest.MonkeyPatch.context() as patch:
            lose_power_at(patch, step)
            # A crash runs no cleanup.
            patch.setattr("shutil.rmtree", lambda *_, **__: None)
            with pytest.raises(PowerLostError):
                store.import_bundle(bundle)
        for digest in store.digests():
            store.load(digest)
        digest = store.import_bundle(bundle)
        assert store.load(digest).digest == digest
        assert {path.name for path in (tmp_path / f"store{step}").iterdir()} == {digest.hex(), ".lock"}


def test_power_lost_at_any_step_of_an_activation(bundle: Path, tmp_path: Path) -> None:
    """Afterwards the old or the new module is active, never neither."""
    bundles.make(tmp_path / "second", SIGNER, mark="two")
    digests: list[bytes] = []

    def prepare(store: ModuleStore) -> None:
        digests[:] = [store.import_bundle(bundle), store.import_bundle(tmp_path / "second")]
        store.activate(digests[0])

    steps = count_steps(tmp_path, lambda s: s.activate(digests[1]), prepare)
    assert steps >= 3
    for step in range(1, steps + 1):
        store = ModuleStore(tmp_path / f"store{step}", TRUST)
        prepare(store)
        with pytest.MonkeyPatch.context() as patch:
            lose_power_at(patch, step)
            with pytest.raises(PowerLostError):
                store.activate(digests[1])
        assert store.load_active().digest in digests
        store.activate(digests[1])
        assert store.active() == digests[1]


def tar_of(members: list[tarfile.TarInfo], path: Path) -> Path:
    with tarfile.open(path, "w:") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return path


def member(name: str, size: int = 1, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


HOSTILE_ARCHIVES = {
    "path-traversal": [member("../evil")],
    "absolute-path": [member("/etc/cron.d/evil")],
    "traversal-in-digest": [member("blobs/sha256/../../../evil")],
    "short-digest": [member("blobs/sha256/" + "0" * 63)],
    "foreign-file": [member("run.sh")],
    "symbolic-link": [member("index.json", 0, tarfile.SYMTYPE, "/etc/passwd")],
    "hard-link": [member("index.json", 0, tarfile.LNKTYPE, "oci-layout")],
    "device": [member("index.json", 0, tarfile.CHRTYPE)],
    "folder": [member("blobs/sha256", 0, tarfile.DIRTYPE)],
    "same-name-twice": [member("index.json"), member("index.json")],
    "too-many-files": [member(f"blobs/sha256/{i:064x}") for i in range(40)],
}


@pytest.mark.parametrize("rule", HOSTILE_ARCHIVES)
def test_hostile_archive_is_refused(rule: str, store: ModuleStore, tmp_path: Path) -> None:
    archive = tar_of(HOSTILE_ARCHIVES[rule], tmp_path / "hostile.sits")
    with pytest.raises(BundleError) as refused:
        store.import_bundle(archive)
    assert refused.value.code == "bundle-layout"
    assert visible(store, tmp_path) == []
    assert not (tmp_path / "evil").exists()


def test_archive_that_promises_more_than_it_may_hold_is_refused(store: ModuleStore, tmp_path: Path) -> None:
    header = member("index.json", 0)
    header.size = 1 << 40
    path = tmp_path / "large.sits"
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
    with pytest.raises(BundleError) as refused:
        store.import_bundle(path)
    assert refused.value.code == "bundle-size"


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\x1f\x8b" + bytes(100)])
def test_files_that_are_no_archive_are_refused(store: ModuleStore, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.sits"
    path.write_bytes(data)
    with pytest.raises(BundleError):
        store.import_bundle(path)
    with pytest.raises(BundleError):
        store.import_bundle(tmp_path / "absent.sits")


def test_truncated_archive_is_refused(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    write_archive(bundle, tmp_path / "whole.sits")
    whole = (tmp_path / "whole.sits").read_bytes()
    end = len(whole.rstrip(b"\0"))
    for cut in (1, 512, 700, end // 2, end - 600):
        (tmp_path / "cut.sits").write_bytes(whole[:cut])
        with pytest.raises(BundleError):
            store.import_bundle(tmp_path / "cut.sits")


def test_folder_with_foreign_or_linked_files_is_refused(store: ModuleStore, bundle: Path, tmp_path: Path) -> None:
    (bundle / "extra").write_bytes(b"x")
    with pytest.raises(BundleError) as refused:
        store.import_bundle(bundle)
    assert refused.value.code == "bundle-layout"
    (bundle / "extra").unlink()
    (bundle / "oci-layout").unlink()
    (bundle / "oci-layout").symlink_to("/etc/hostname")
    with pytest.raises(BundleError) as linked:
        store.import_bundle(bundle)
    assert linked.value.code == "bundle-layout"
    assert visible(store, tmp_path) == []
