"""The rig's own parts, without booting anything."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from attest.boot.measure import component_digest
from tests.boot.rig import image, needs, secureboot
from tests.boot.rig.scene import MARK, Files

STORE = bytes(72) + secureboot._STORE + (4096).to_bytes(4, "little") + bytes(8) + b"\xff" * 4068 + b"behind"


@pytest.mark.parametrize("arch", [needs.X86_64, needs.AARCH64], ids=str)
def test_what_is_missing_is_named_by_its_package(arch: needs.Arch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "_present", lambda name: name != arch.qemu and name != str(arch.firmware))
    packages = {"x86_64": "ovmf qemu-system-x86", "aarch64": "qemu-efi-aarch64 qemu-system-arm"}
    assert needs.missing(arch) == f"apt-get install {packages[arch.machine]}"
    monkeypatch.setattr(needs, "_present", lambda _name: True)
    assert needs.missing(arch) == ""


def test_measured_digest_of_a_package_is_predicted_from_its_files() -> None:
    files = image.application_files(("fieldbus",))
    assert image.component_digests(files) == {"fieldbus": component_digest([image.REPOSITORY / "fieldbus"])}


@pytest.mark.skipif(shutil.which("cpio") is None, reason="SKIPPED: needs cpio (apt-get install cpio)")
def test_cpio_reads_our_archives(tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "program").write_bytes(b"\x7fELF" + b"x" * 1001)
    (root / "bin" / "program").chmod(0o755)
    (root / "bin" / "link").symlink_to("program")
    out.mkdir()
    for archive in (gzip.decompress(image.compress(image.pack_cpio(root))), image.marked_cpio(MARK)):
        subprocess.run(["cpio", "-idm", "--quiet"], cwd=out, input=archive, check=True)
    assert (out / "bin" / "program").read_bytes() == (root / "bin" / "program").read_bytes()
    assert (out / "bin" / "program").stat().st_mode == (root / "bin" / "program").stat().st_mode
    assert (out / "bin" / "link").readlink() == Path("program")
    assert (out / "etc" / "rig-mark").read_bytes() == MARK


def test_each_change_is_one_bit() -> None:
    package = {"sitsedge/gate/core.py": b"def f():\n    return 1\n"}
    files = Files(b"kernel #1 SMP", b"initrd" + MARK + bytes(2), "quiet rig.mark=a", package)
    changed = (
        files.with_kernel_changed().kernel,
        files.with_initrd_changed().initrd,
        files.with_cmdline_changed().cmdline.encode(),
        files.with_package_changed().application["sitsedge/gate/core.py"],
    )
    before = (files.kernel, files.initrd, files.cmdline.encode(), package["sitsedge/gate/core.py"])
    for old, new in zip(before, changed, strict=True):
        assert len(old) == len(new)
        assert sum((a ^ b).bit_count() for a, b in zip(old, new, strict=True)) == 1


def test_keys_lie_in_the_store_and_go_again(tmp_path: Path) -> None:
    key = secureboot.make_key("db", tmp_path)
    assert key.key.stat().st_mode & 0o077 == 0
    enrolled = secureboot.enrol(STORE, platform=key, exchange=key, signing=key)
    assert len(enrolled) == len(STORE)
    assert enrolled.count(key.der) == 3
    assert secureboot.emptied(enrolled) == STORE
    with pytest.raises(AssertionError, match="not empty"):
        secureboot.enrol(enrolled, platform=key, exchange=key, signing=key)
