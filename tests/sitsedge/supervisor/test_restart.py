"""A process that may end and be started again, beside those whose end is the deployment's."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sitsedge.supervisor.children import ChildError, Children


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    made = Children(tmp_path, tmp_path)
    yield made
    made.stop_all()


def kill(children: Children, name: str, *, restartable: bool) -> None:
    """Start a process that would run for ever, and kill it."""
    child = children.spawn(name, "http.server", ["0", "--bind", "127.0.0.1"], restartable=restartable)
    os.kill(child.process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while child.process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_restartable_process_is_reaped_once(children: Children) -> None:
    kill(children, "prover", restartable=True)
    children.check()
    said = children.reap("prover")
    assert said is not None
    assert said.startswith("-9")
    assert children.reap("prover") is None


def test_any_other_process_ends_the_deployment(children: Children) -> None:
    kill(children, "gate", restartable=False)
    with pytest.raises(ChildError, match="child-died"):
        children.check()
    assert children.reap("gate") is None


def test_one_that_was_asked_to_stop_is_not_reaped(children: Children) -> None:
    children.spawn("prover", "http.server", ["0", "--bind", "127.0.0.1"], restartable=True)
    children.stop("prover")
    children.check()
    assert children.reap("prover") is None
