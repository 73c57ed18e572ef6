"""The machine-code cache: used when it fits exactly, ignored otherwise, never read from an open folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sitsedge.sandbox import Sandbox, SandboxError, SandboxLimits
from sitsedge.sandbox.cache import CodeCache
from sitsedge.sandbox.engine import configuration_key
from tests.sitsedge.sandbox.test_sandbox import guest, sample

KEY = configuration_key("jit", SandboxLimits())


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.cwasm")
    return path


def run(folder: Path, **options: object) -> tuple[int, ...]:
    with Sandbox(sample(), cache_dir=folder, **options) as sandbox:  # type: ignore[arg-type]
        return sandbox.infer([9, 4])


def test_second_load_uses_the_cached_code(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run(folder) == (5,)
    path = only_file(folder)
    before = (path.stat().st_ino, path.stat().st_mtime_ns)
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(folder) == (5,)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before


def test_each_engine_limit_and_module_has_its_own_file(tmp_path: Path) -> None:
    run(tmp_path / "c")
    run(tmp_path / "c", engine="pulley")
    run(tmp_path / "c", limits=SandboxLimits(memory_bytes=1 << 20))
    Sandbox(guest(), cache_dir=tmp_path / "c").close()
    assert len(list((tmp_path / "c").glob("*.cwasm"))) == 4


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign-header"])
def test_damaged_code_is_compiled_again(tmp_path: Path, damage: str) -> None:
    run(tmp_path / "c")
    path = only_file(tmp_path / "c")
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "truncate":
        del data[-100:]
    elif damage == "empty":
        data.clear()
    else:
        data[8] ^= 1
    path.write_bytes(data)
    assert CodeCache(tmp_path / "c").load(Sandbox(sample()).digest, KEY) is None
    assert run(tmp_path / "c") == (5,)
    assert CodeCache(tmp_path / "c").load(Sandbox(sample()).digest, KEY) is not None


def test_code_of_another_module_under_this_name_is_not_used(tmp_path: Path) -> None:
    run(tmp_path / "c")
    path = only_file(tmp_path / "c")
    Sandbox(guest(), cache_dir=tmp_path / "other").close()
    path.write_bytes(only_file(tmp_path / "other").read_bytes())
    assert run(tmp_path / "c") == (5,)


def test_code_of_another_version_is_not_used(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path / "c")
    digest = bytes(32)
    cache.store(digest, "wasmtime 49", b"code")
    assert cache.load(digest, "wasmtime 49") == b"code"
    assert cache.load(digest, "wasmtime 50") is None
    assert cache.load(bytes([1]) + bytes(31), "wasmtime 49") is None


def test_code_wasmtime_rejects_is_compiled_again(tmp_path: Path) -> None:
    """A well-formed cache entry whose payload is no machine code: only wasmtime itself can tell."""
    sandbox = Sandbox(sample())
    CodeCache(tmp_path / "c").store(sandbox.digest, KEY, b"not an ELF file")
    assert run(tmp_path / "c") == (5,)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_folder_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(SandboxError) as refused:
        run(folder)
    assert refused.value.code == "sandbox-cache"


def test_link_instead_of_a_file_or_folder_is_not_followed(tmp_path: Path) -> None:
    run(tmp_path / "c")
    path = only_file(tmp_path / "c")
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    assert CodeCache(tmp_path / "c").load(Sandbox(sample()).digest, KEY) is None
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with pytest.raises(SandboxError):
        run(tmp_path / "link")


def test_file_others_may_write_is_not_read(tmp_path: Path) -> None:
    run(tmp_path / "c")
    only_file(tmp_path / "c").chmod(0o666)
    assert CodeCache(tmp_path / "c").load(Sandbox(sample()).digest, KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: changing an owner needs root")
def test_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(SandboxError):
        run(folder)
