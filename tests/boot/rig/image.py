"""The initrd: a root file system with Python, the tss2 libraries, our ``attest`` package and the agent.

Made bit for bit the same from the same inputs (cpio "newc" with zero times and owners, gzip without a name), so a
changed byte in the quote is a changed byte in the input. Our other packages are on a disk of their own, which no
firmware measures: the agent measures them itself before it uses them, as a device with a data partition does.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import py_compile
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.boot.rig.needs import Arch
from tests.boot.rig.packages import Packages, RigError

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent.parent
AGENT: Final = Path(__file__).resolve().parent / "agent.py"
MODULES: Final = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci")
DEVICE_MODULES: Final = ("virtio_blk", "virtio_console", "tpm_tis_core", "tpm_tis")
_STDLIB_UNUSED: Final = (
    "test",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "pydoc_data",
    "distutils",
    "asyncio",
    "multiprocessing",
    "sqlite3",
    "curses",
    "dbm",
    "wsgiref",
    "xmlrpc",
    "__pycache__",
    "turtle",
    "pydoc",
    "_pydecimal",
    "_pyio",
    "_aix_support",
    "mailbox",
    "nntplib",
    "imaplib",
    "smtplib",
    "ftplib",
    "telnetlib",
    "pickletools",
    "doctest",
    "pdb",
    "tomllib",
    "cgi",
    "plistlib",
    "zoneinfo",
    "profile",
    "cProfile",
    "pstats",
    "unittest",
)
_DYNLOAD_UNUSED: Final = (
    "_curses",
    "_dbm",
    "_sqlite3",
    "readline",
    "nis",
    "_codecs",
    "audioop",
    "_test",
    "_ssl",
    "_lsprof",
)
_INIT: Final = """#!/bin/sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t securityfs securityfs /sys/kernel/security
/bin/busybox mount -t tmpfs tmpfs /run
for module in {modules}; do
  [ ! -e /modules/$module.ko ] || /bin/busybox insmod /modules/$module.ko
done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do /bin/busybox usleep 100000; tries=$((tries+1)); done
/bin/busybox mkdir /run/application
/bin/busybox tar -x -C /run/application -f /dev/vda
export PYTHONPATH=/opt/sits:/opt/python:/run/application PYTHONDONTWRITEBYTECODE=1 TSS2_LOG=all+none
/usr/bin/python3.11 -B /opt/agent.py > /dev/console 2>&1
/bin/busybox poweroff -f
"""


def kernel_image(packages: Packages) -> bytes:
    """The kernel as Debian ships it."""
    return next((packages.kernel() / "boot").glob("vmlinuz-*")).read_bytes()


def build_initrd(packages: Packages, *, scratch: Path) -> bytes:
    """The compressed initrd of one architecture."""
    root = scratch / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "run", "tmp", "modules", "usr/bin", "opt"):
        (root / folder).mkdir(parents=True)
    _copy_python(packages, root)
    _copy_modules(packages, root)
    _write(root / "init", _INIT.format(modules=" ".join((*MODULES, *DEVICE_MODULES))).encode(), mode=0o755)
    shutil.copyfile(AGENT, root / "opt" / "agent.py")
    copy_package("attest", root / "opt" / "sits")
    _copy_libraries(packages, root)
    return compress(pack_cpio(root))


def application_files(packages: Iterable[str] = ("fieldbus", "sitsedge")) -> dict[str, bytes]:
    """The sources of the packages that are not in the initrd, by path; read once, so that every boot has the same."""
    return {
        file.relative_to(REPOSITORY).as_posix(): file.read_bytes()
        for package in packages
        for file in _sources(REPOSITORY / package)
    }


def application_disk(files: Mapping[str, bytes]) -> bytes:
    """A tar of these files, padded to whole sectors."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return pad(stream.getvalue(), 1 << 20)


def component_digests(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What ``attest.boot.measure`` will say of each package in these files (see ``component_digest``)."""
    lines: dict[str, list[bytes]] = {}
    for path, data in files.items():
        package, _, name = path.partition("/")
        lines.setdefault(package, []).append(f"{name}\0{len(data)}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return {package: hashlib.sha256(b"".join(sorted(entries))).digest() for package, entries in lines.items()}


def copy_package(name: str, target: Path) -> None:
    """The sources of one of our packages, with nothing that a build or a run left beside them."""
    for file in _sources(REPOSITORY / name):
        place = target / file.relative_to(REPOSITORY)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        if place.suffix == ".py":
            py_compile.compile(
                str(place),
                cfile=str(place.parent / "__pycache__" / f"{place.stem}.cpython-311.pyc"),
                dfile=str(place.relative_to(target)),
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )


def flip(data: bytes, position: int) -> bytes:
    """``data`` with the lowest bit of one byte changed."""
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def pad(data: bytes, block: int) -> bytes:
    """``data`` with zeros up to a multiple of ``block``."""
    return data + bytes(-len(data) % block)


def compress(data: bytes) -> bytes:
    """gzip without time or name, padded so that another archive may follow."""
    return pad(gzip.compress(data, compresslevel=6, mtime=0), 4)


def pack_cpio(root: Path) -> bytes:
    """The folder as a cpio archive in the kernel's format (initramfs buffer format, "newc")."""
    out = bytearray()
    for number, path in enumerate(sorted(root.rglob("*")), start=1):
        status = path.lstat()
        data = _contents(path)
        _append(out, path.relative_to(root).as_posix(), number=number, mode=status.st_mode, data=data)
    _append(out, "TRAILER!!!", number=0, mode=0, data=b"")
    return bytes(out)


def marked_cpio(text: bytes) -> bytes:
    """A second, uncompressed archive for the end of an initrd: the file ``/etc/rig-mark``."""
    out = bytearray()
    _append(out, "etc", number=1, mode=0o040755, data=b"")
    _append(out, "etc/rig-mark", number=2, mode=0o100644, data=text)
    _append(out, "TRAILER!!!", number=0, mode=0, data=b"")
    return bytes(out)


def _contents(path: Path) -> bytes:
    if path.is_symlink():
        return os.readlink(path).encode()  # noqa: PTH115 - the text, not the path it leads to
    return path.read_bytes() if path.is_file() else b""


def _append(out: bytearray, name: str, *, number: int, mode: int, data: bytes) -> None:
    encoded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    out += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    out += bytes(-len(out) % 4)
    out += data
    out += bytes(-len(out) % 4)


def _sources(folder: Path) -> list[Path]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return [file for file in files if "__pycache__" not in file.parts and file.suffix != ".so"]


def _copy_python(packages: Packages, root: Path) -> None:
    system = packages.system()
    shutil.copy2(system / "usr/bin/python3.11", root / "usr/bin/python3.11")
    shutil.copy2(system / "bin/busybox", root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    library = root / "usr/lib/python3.11"
    shutil.copytree(system / "usr/lib/python3.11", library, ignore=_unused, symlinks=True)
    for module in (library / "lib-dynload").iterdir():
        if module.name.startswith(_DYNLOAD_UNUSED):
            module.unlink()
    shutil.copytree(packages.python(), root / "opt/python", ignore=shutil.ignore_patterns("*.dist-info", "*.pyi"))
    for folder in (library, root / "opt/python"):
        _compile_in_place(folder)


def _unused(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name.removesuffix(".py") in _STDLIB_UNUSED or name.startswith("config-3.11")}


def _compile_in_place(folder: Path) -> None:
    """Bytecode instead of sources: an emulated processor takes longer to compile than to do all the rest."""
    for file in sorted(folder.rglob("*.py")):
        if file.is_symlink() or not file.is_file():
            continue
        name = str(file.relative_to(folder))
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(
            str(file), cfile=str(file.with_suffix(".pyc")), dfile=name, doraise=True, invalidation_mode=mode
        )
        file.unlink()


def _copy_modules(packages: Packages, root: Path) -> None:
    modules = {path.stem: path for path in (packages.kernel() / "lib/modules").rglob("*.ko")}
    for name in (*MODULES, *DEVICE_MODULES):
        if name in modules:  # what is missing is built in
            shutil.copyfile(modules[name], root / "modules" / f"{name}.ko")


def _copy_libraries(packages: Packages, root: Path) -> None:
    """Every shared library that a program or extension in the image needs, and the loader."""
    system = packages.system()
    places = [system / "lib" / packages.arch.triplet, system / "usr/lib" / packages.arch.triplet]
    target = root / "usr/lib" / packages.arch.triplet
    target.mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    _copy_loader(packages.arch, system, root)
    waiting = [root / "usr/bin/python3.11", *root.rglob("*.so")]
    while waiting:
        for name in _needed(waiting.pop()):
            place = target / name
            if place.exists() or name.startswith("ld-linux"):
                continue
            source = next((folder / name for folder in places if (folder / name).exists()), None)
            if source is None:
                raise RigError(f"no {name} in the packages of {packages.arch}")
            shutil.copyfile(source.resolve(), place)
            waiting.append(place)


def _copy_loader(arch: Arch, system: Path, root: Path) -> None:
    if arch.machine == "x86_64":
        (root / "lib64").mkdir()
        shutil.copy2((system / "lib64/ld-linux-x86-64.so.2").resolve(), root / "lib64/ld-linux-x86-64.so.2")
    else:
        shutil.copy2((system / "lib/ld-linux-aarch64.so.1").resolve(), root / "usr/lib/ld-linux-aarch64.so.1")


def _needed(file: Path) -> list[str]:
    shown = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
    return [line.split("[")[1].rstrip("]") for line in shown.stdout.splitlines() if "(NEEDED)" in line]


def _write(path: Path, data: bytes, *, mode: int) -> None:
    path.write_bytes(data)
    path.chmod(mode)
