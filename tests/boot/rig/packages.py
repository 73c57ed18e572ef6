"""What goes into the image, fetched through apt and pip: never installed, only unpacked.

An apt root of its own (empty status file, the host's sources and keys) lets apt resolve and check packages of either
architecture without touching the host's package state. tpm2-pytss has no wheel, so it is built from its sdist for
the target against Debian's own tss2 libraries, without FAPI, whose libraries would double the image.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.boot.rig.needs import Arch

SYSTEM: Final = (
    "python3.11-minimal",
    "libpython3.11-stdlib",
    "libtss2-esys-3.0.2-0",
    "libtss2-tctildr0",
    "libtss2-rc0",
    "libtss2-mu0",
    "busybox-static",
)
_BUILD: Final = ("libtss2-dev", "libpython3.11-dev")
_BUILD_LIBRARIES: Final = (
    "libtss2-esys-3.0.2-0",
    "libtss2-tctildr0",
    "libtss2-rc0",
    "libtss2-mu0",
    "libtss2-sys1",
    "libtss2-tcti-device0",
    "libssl3",
)
_WHEELS: Final = ("cryptography", "cffi")
_GLIBC_TAGS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")  # Debian 12 has glibc 2.36
_COMMAND_S: Final = 600


class RigError(RuntimeError):
    """A step of the rig failed; the text ends with what the program said."""


def cache_dir() -> Path:
    """Where downloads and builds are kept between runs: ``SITS_BOOT_RIG`` or the user's cache."""
    chosen = os.environ.get("SITS_BOOT_RIG")
    base = Path(chosen) if chosen else Path.home() / ".cache" / "sits-boot-rig"
    base.mkdir(parents=True, exist_ok=True)
    return base


def run(command: Sequence[str | Path], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run one program to its end; its output, or ``RigError`` with the last lines of it."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_COMMAND_S,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        raise RigError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stdout[-1500:]}")
    return done.stdout


class Packages:
    """Debian packages and Python distributions of one architecture, cached under ``cache_dir()``."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._base = cache_dir() / arch.debian
        self._apt = self._base / "apt"

    def system(self) -> Path:
        """Python, the tss2 libraries and busybox with all they depend on, as one tree."""
        with _made(self._base / "system") as target:
            if target is not None:
                self._prepare_apt()
                self._get("install", "-y", "--download-only", "--no-install-recommends", *SYSTEM)
                for package in sorted((self._apt / "cache" / "archives").glob("*.deb")):
                    run(["dpkg", "-x", package, target])
        return self._base / "system"

    def kernel(self) -> Path:
        """``vmlinuz`` and modules of Debian's cloud kernel (virtio, TPM and IMA, half the size of the generic one)."""
        with _made(self._base / "kernel") as target:
            if target is not None:
                self._prepare_apt()
                meta = f"linux-image-cloud-{self.arch.debian}"
                lines = run(["apt-cache", *self._options(), "depends", meta]).splitlines()
                name = next(line.split(": ")[1] for line in lines if line.strip().startswith("Depends: linux-image-"))
                self._unpack([name], target)
        return self._base / "kernel"

    def stub(self) -> Path:
        """systemd's UEFI stub."""
        with _made(self._base / "stub") as target:
            if target is not None:
                self._prepare_apt()
                self._unpack(["systemd-boot-efi"], target)
        return self._base / "stub" / "usr/lib/systemd/boot/efi" / f"linux{self.arch.efi}.efi.stub"

    def python(self) -> Path:
        """cryptography, cffi and tpm2-pytss (the versions of this environment) for the target, as one folder."""
        with _made(self._base / "python") as target:
            if target is not None:
                wheels = self._base / "wheels"
                self._download_wheels(wheels)
                self._build_pytss(wheels)
                for wheel in sorted(wheels.glob("*.whl")):
                    with zipfile.ZipFile(wheel) as archive:
                        archive.extractall(target)
        return self._base / "python"

    def _download_wheels(self, folder: Path) -> None:
        platforms = [word for tag in _GLIBC_TAGS for word in ("--platform", f"{tag}_{self.arch.machine}")]
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
        binary = [f"{name}=={metadata.version(name)}" for name in _WHEELS]
        run([*pip, "--python-version", "3.11", *platforms, *binary])

    def _build_pytss(self, folder: Path) -> None:
        root = self._base / "build-root"
        shutil.rmtree(root, ignore_errors=True)
        self._prepare_apt()
        self._unpack([*_BUILD, *_BUILD_LIBRARIES], root)
        libraries = root / "usr" / "lib" / self.arch.triplet
        (libraries / "pkgconfig" / "tss2-fapi.pc").unlink()
        environment = {
            **os.environ,
            "CC": self.arch.compiler,
            "LDSHARED": f"{self.arch.compiler} -shared -Wl,-s",
            "PKG_CONFIG_LIBDIR": str(libraries / "pkgconfig"),
            "PKG_CONFIG_SYSROOT_DIR": str(root),
            "CFLAGS": f"-O1 -I{root}/usr/include/python3.11 -I{root}/usr/include",
            "CPPFLAGS": f"-I{root}/usr/include",
            "LDFLAGS": f"-L{libraries} -Wl,-rpath-link,{libraries} -Wl,--allow-shlib-undefined",
        }
        package = f"tpm2-pytss=={metadata.version('tpm2-pytss')}"
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir", "--no-binary", "tpm2-pytss"]
        run([*pip, "-w", folder, package], env=environment)

    def _unpack(self, names: Sequence[str], target: Path) -> None:
        folder = self._apt / "single"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run(["apt-get", *self._options(), "download", *names], cwd=folder)
        target.mkdir(parents=True, exist_ok=True)
        for package in sorted(folder.glob("*.deb")):
            run(["dpkg", "-x", package, target])

    def _prepare_apt(self) -> None:
        if (self._apt / "ready").exists():
            return
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self._apt / folder).mkdir(parents=True, exist_ok=True)
        (self._apt / "status").write_bytes(b"")
        self._get("update")
        (self._apt / "ready").touch()

    def _get(self, *words: str) -> None:
        run(["apt-get", *self._options(), *words])

    def _options(self) -> list[str]:
        settings = {
            "APT::Architecture": self.arch.debian,
            "APT::Architectures::": self.arch.debian,
            "APT::Sandbox::User": "root",  # its own user could not enter a cache folder of mode 0700
            "Acquire::Languages": "none",
            "Dir::State": str(self._apt / "state"),
            "Dir::State::status": str(self._apt / "status"),
            "Dir::Cache": str(self._apt / "cache"),
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[Path | None]:
    """A new folder that gets its name only when it is complete; None where it is there already."""
    if folder.exists():
        yield None
        return
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    yield fresh
    fresh.rename(folder)
