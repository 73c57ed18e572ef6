"""Faults of files: codes, the path in every message, and the checkers' answer to a path that is not there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from attest.archive.__main__ import main as archive
from attest.disclosure.__main__ import main as disclosure
from attest.files import FileError, named, require
from attest.ledger.__main__ import main as ledger
from attest.proof.__main__ import main as proof


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, "file-missing"),
        (errno.EISDIR, "file-kind"),
        (errno.ENOTDIR, "file-kind"),
        (errno.EEXIST, "file-exists"),
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EIO, "file"),
    ],
)
def test_a_fault_without_a_name_gets_one(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(FileError) as fault, named(tmp_path / "it", needed=5 << 20):
        raise OSError(number, os.strerror(number))
    assert (fault.value.code, str(tmp_path / "it") in fault.value.found) == (code, True)
    assert fault.value.hint
    assert (fault.value.expected == "about 5.0 MiB free") is (code == "disk-full")


def test_a_fault_keeps_the_name_it_has(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="other"), named(tmp_path / "it"):
        (tmp_path / "other").read_bytes()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    require(tmp_path, folder=True)
    require(tmp_path / "file")
    for path, folder in ((tmp_path, False), (tmp_path / "file", True)):
        with pytest.raises(FileError, match="file-kind"):
            require(path, folder=folder)


def test_every_checker_says_alike_that_a_path_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing")
    files = ["--key", missing, "--public", missing, "--proof", missing, "--unpinned"]
    for check, arguments in (
        (archive, [missing]),
        (archive, [str(tmp_path), "--ledger", missing]),
        (disclosure, [missing]),
        (disclosure, [str(tmp_path), "--opening", missing]),
        (ledger, [missing]),
        (proof, ["verify", *files]),
    ):
        assert check(arguments) == 2
        said = json.loads(capsys.readouterr().out)
        assert (said["ok"], said["failed"], missing in said["found"]) == (False, "file-missing", True)
