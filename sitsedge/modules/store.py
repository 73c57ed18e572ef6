"""The module store of one deployment: verified bundles by digest, one of them active.

Layout: ``STORE/<module digest in hex>/`` is an OCI layout; ``STORE/active`` holds the active digest in hex;
``STORE/.lock`` is held by whoever changes the store, so that two processes cannot undo each other's work.
Import verifies before anything becomes visible, and every step is a rename: power lost at any moment
leaves the old or the new state. ``load`` verifies again, because the disk is not trusted.
Every module's folder is whole: a blob that several modules have is one file with several names where the file
system allows, so removing a module never takes a blob from another.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sitsedge.modules import archive, files, oci
from sitsedge.modules.bundle import Bundle, read_bundle
from sitsedge.modules.errors import BundleError, StoreError
from sitsedge.modules.head import read_head
from sitsedge.modules.rebuild import rebuild
from sitsedge.modules.statement import PublisherTrust

_HEX = re.compile(r"[0-9a-f]{64}")
_ACTIVE = "active"
_INCOMING = ".incoming-"
_LOCK = ".lock"

BUNDLES_MAX = 256
"""Bound of the listing; a device keeps the active module, its predecessor and a few candidates."""


class ModuleStore:
    """Bundles under ``path``; ``trust`` says whose signature counts."""

    def __init__(self, path: Path, trust: PublisherTrust) -> None:
        self._path = path
        self._trust = trust
        path.mkdir(mode=0o755, parents=True, exist_ok=True)

    def import_bundle(self, src: Path) -> bytes:
        """Take the bundle or delta ``src``, a folder or ``.sits`` archive, into the store and return its digest.

        A delta becomes a whole bundle with what its base in the store has. Importing what is already there is not an
        error; where that was damaged, it is replaced. Raises ``BundleError``, ``BundleSignatureError``, and for a delta
        ``StoreError`` (``delta-base-missing``, ``delta-base-damaged``).
        """
        with self._exclusive():
            for stale in self._path.glob(f"{_INCOMING}*"):
                # Left by an import that lost power; nothing refers to it.
                shutil.rmtree(stale, ignore_errors=True)
            return self._import(src)

    def _import(self, src: Path) -> bytes:
        incoming = Path(tempfile.mkdtemp(prefix=_INCOMING, dir=self._path))
        try:
            received = incoming / "received"
            files.write_folder(received, archive.read_contents(src))
            head = read_head(received, self._trust, delta=True)
            staged = received
            if head.delta is not None:
                if self._holds(head.digest):
                    return head.digest
                staged = incoming / "bundle"
                rebuild(received, head, staged, find=self._folder)
            bundle = read_bundle(staged, self._trust)
            if not self._holds(bundle.digest):
                target = self._folder(bundle.digest)
                if target.exists():
                    target.rename(incoming / "damaged")
                staged.rename(target)
                files.sync_folder(self._path)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        return bundle.digest

    def _holds(self, digest: bytes) -> bool:
        """Whether the module is there, undamaged, and signed by somebody still trusted."""
        try:
            self.load(digest)
        except (BundleError, StoreError):
            return False
        return True

    def load(self, digest: bytes) -> Bundle:
        """The bundle, verified again; raises ``StoreError`` when it is unknown, ``BundleError`` when damaged."""
        folder = self._folder(digest)
        if not folder.is_dir():
            raise StoreError(
                "module-unknown",
                found=digest.hex(),
                expected=f"one of {[d.hex()[:16] for d in self.digests()]}",
                hint="import the bundle first",
            )
        bundle = read_bundle(folder, self._trust)
        if bundle.digest != digest:
            raise BundleError(
                "bundle-digest", found=bundle.digest.hex(), expected=digest.hex(), hint="the store was changed"
            )
        return bundle

    def digests(self) -> tuple[bytes, ...]:
        """Digests present, ascending; not verified."""
        names = sorted(entry.name for entry in self._path.iterdir() if _HEX.fullmatch(entry.name))
        return tuple(bytes.fromhex(name) for name in names[:BUNDLES_MAX])

    def activate(self, digest: bytes) -> Bundle:
        """Verify the bundle, make it the active one, and return it."""
        with self._exclusive():
            bundle = self.load(digest)
            files.replace_file(self._path / _ACTIVE, digest.hex().encode() + b"\n")
        return bundle

    def active(self) -> bytes | None:
        """The active digest, or None before the first activation; ``StoreError`` when the pointer is damaged."""
        path = self._path / _ACTIVE
        if not path.exists():
            return None
        text = oci.read_file(path, 65).decode("ascii", errors="replace").removesuffix("\n")
        if not _HEX.fullmatch(text):
            raise StoreError(
                "store-damaged", found=f"active pointer {text[:70]!r}", expected="a digest", hint="activate again"
            )
        return bytes.fromhex(text)

    def load_active(self) -> Bundle:
        """The active bundle, verified; ``StoreError`` (``module-active``) when there is none."""
        digest = self.active()
        if digest is None:
            raise StoreError(
                "module-active", found="no active module", expected="one", hint="import a bundle and activate it"
            )
        return self.load(digest)

    def remove(self, digest: bytes) -> None:
        """Remove an inactive bundle; ``StoreError`` when it is active or unknown."""
        with self._exclusive():
            if self.active() == digest:
                raise StoreError("module-active", found="the active module", expected="an inactive one")
            folder = self._folder(digest)
            if not folder.is_dir():
                raise StoreError("module-unknown", found=digest.hex(), expected="a module in the store")
            doomed = Path(tempfile.mkdtemp(prefix=_INCOMING, dir=self._path))
            folder.rename(doomed / "bundle")
            files.sync_folder(self._path)
            shutil.rmtree(doomed, ignore_errors=True)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the store's lock; it goes with the process, so a crash leaves nothing locked."""
        handle = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _folder(self, digest: bytes) -> Path:
        if len(digest) != 32:
            raise StoreError("module-unknown", found=f"{len(digest)} bytes", expected="a SHA-256 digest")
        return self._path / digest.hex()
