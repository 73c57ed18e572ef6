"""A planted compiled file beside a measured source must not be what a production deployment runs."""

from __future__ import annotations

import importlib.util
import os
import py_compile
from pathlib import Path

import pytest

from sitsedge.supervisor.children import Children

HONEST = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('honest')\n"
PLANTED = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('EVIL!!')\n"


def plant(folder: Path) -> None:
    """A module whose bytecode was compiled from another text of the same size and time."""
    assert len(HONEST) == len(PLANTED)
    source = folder / "measured_module.py"
    source.write_text(PLANTED)
    os.utime(source, (1_700_000_000, 1_700_000_000))
    py_compile.compile(str(source), cfile=importlib.util.cache_from_source(str(source)), doraise=True)
    source.write_text(HONEST)
    os.utime(source, (1_700_000_000, 1_700_000_000))
    (folder / "started.py").write_text("import measured_module\n")  # Python compiles what -m names by itself


@pytest.mark.parametrize("protected", [False, True])
def test_planted_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    """Without the protection it runs: this test would notice if Python stopped doing so."""
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    code, run, logs = tmp_path / "code", tmp_path / "run", tmp_path / "logs"
    for folder in (code, run, logs):
        folder.mkdir()
    plant(code)
    monkeypatch.setenv("PYTHONPATH", str(code))
    children = Children(run, logs)
    if protected:
        (run / "bytecode").mkdir()
        (run / "bytecode" / "left-over").touch()
        children.without_old_bytecode()
        assert list((run / "bytecode").iterdir()) == []
    child = children.spawn("child", "started", [str(tmp_path / "said")], restartable=True)
    assert child.process.wait(30) == 0, child.log.read_text()
    assert (tmp_path / "said").read_text() == ("honest" if protected else "EVIL!!")
