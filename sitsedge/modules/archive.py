"""Bundles as a folder or a ``.sits`` tar: only the names of an OCI layout, regular files, bounded sizes."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sitsedge.modules import files, oci
from sitsedge.modules.errors import BundleError

FILES_MAX = 32
"""A bundle has 17 files."""

TOTAL_BYTES_MAX = 1 << 30
"""Proving keys dominate; the largest network's is under 512 MiB."""

_NAME = re.compile(r"oci-layout|index\.json|blobs/sha256/[0-9a-f]{64}")


def read_contents(src: Path) -> dict[str, bytes]:
    """All files of the bundle by relative name; raises ``BundleError`` (``bundle-layout``, ``bundle-size``)."""
    return _from_folder(src) if src.is_dir() else _from_tar(src)


@contextmanager
def as_folder(src: Path) -> Iterator[Path]:
    """The bundle folder ``src`` itself, or a ``.sits`` archive unpacked for as long as this lasts."""
    if src.is_dir():
        yield src
        return
    with tempfile.TemporaryDirectory(prefix="sits-bundle-") as scratch:
        files.write_folder(Path(scratch) / "bundle", read_contents(src))
        yield Path(scratch) / "bundle"


def _from_folder(src: Path) -> dict[str, bytes]:
    names: list[str] = []
    for folder, folders, entries in os.walk(src):
        relative = Path(folder).relative_to(src)
        names += [(relative / entry).as_posix() for entry in entries]
        if len(names) > FILES_MAX or len(folders) > FILES_MAX:
            break
    _check_names(names)
    contents: dict[str, bytes] = {}
    left = TOTAL_BYTES_MAX
    for name in sorted(names):
        contents[name] = oci.read_file(src / name, min(left, oci.BLOB_BYTES_MAX))
        left -= len(contents[name])
    return contents


def _from_tar(src: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    left = TOTAL_BYTES_MAX
    try:
        with tarfile.open(src, mode="r:") as tar:
            for member in tar:
                _check_names([*contents, member.name])
                if not member.isreg() or member.issparse() or member.name in contents:
                    raise BundleError(
                        "bundle-layout", found=f"{member.name!r}: no regular file, or twice", expected="each once"
                    )
                if not 0 <= member.size <= min(left, oci.BLOB_BYTES_MAX):
                    raise BundleError(
                        "bundle-size", found=f"{member.name!r}: {member.size} bytes", expected="a bounded size"
                    )
                file = tar.extractfile(member)
                data = file.read(member.size) if file is not None else b""
                if len(data) != member.size:
                    raise BundleError("bundle-layout", found="a truncated archive", expected="a whole one")
                contents[member.name] = data
                left -= member.size
    except (OSError, tarfile.TarError, ValueError) as error:
        raise BundleError(
            "bundle-layout",
            found=f"{src.name}: {str(error)[:120]}",
            expected="a bundle folder or an uncompressed tar of one",
        ) from error
    return contents


def _check_names(names: list[str]) -> None:
    if len(names) > FILES_MAX:
        raise BundleError("bundle-layout", found=f"over {FILES_MAX} files", expected=f"at most {FILES_MAX}")
    for name in names:
        if not _NAME.fullmatch(name):
            raise BundleError(
                "bundle-layout", found=f"the file {name[:120]!r}", expected="only the files of an OCI layout"
            )


def write_archive(root: Path, out: Path) -> None:
    """Pack the bundle folder ``root`` as a tar whose bytes depend only on the contents."""
    contents = _from_folder(root)
    with tarfile.open(out, mode="x:", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(contents):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(contents[name]), 0o644
            tar.addfile(info, io.BytesIO(contents[name]))
