"""The gate reads its revocation list while it runs: nothing in that place may stop it or count as "no list"."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attest.evidence.revocation import MAX_LIST_BYTES
from sitsedge.gate.evidence import REVOCATIONS, UNREADABLE, revocation_list
from sitsedge.supervisor.state import StateDir


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "s")
    made.create()
    return made


def test_a_list_is_read_and_none_is_none(state: StateDir) -> None:
    assert revocation_list(state) is None
    (state.trust / REVOCATIONS).write_bytes(b"a list")
    assert revocation_list(state) == b"a list"


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop"])
def test_what_is_no_file_never_stops_the_gate_and_is_no_valid_list(state: StateDir, kind: str) -> None:
    path = state.trust / REVOCATIONS
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    assert revocation_list(state) == UNREADABLE


def test_of_a_huge_file_only_so_much_is_read_that_it_is_refused(state: StateDir) -> None:
    with (state.trust / REVOCATIONS).open("wb") as stream:
        stream.truncate(1 << 32)
    assert len(revocation_list(state) or b"") == MAX_LIST_BYTES + 1
