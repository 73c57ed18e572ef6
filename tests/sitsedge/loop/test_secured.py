"""The loop's side of message security: refusals by name, keys that change, and what is remembered over a restart."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from fieldbus.net import ReceivedFrame, UdpReceiver, UdpSender
from fieldbus.uadp import (
    KeyFile,
    KeyRing,
    LayoutWriter,
    ReplayMark,
    SecureWriter,
    SecurityError,
    SecurityMode,
    SecurityPolicy,
    write_key_file,
)
from sitsedge.config import Deployment, load_deployment
from sitsedge.errors import SitsError
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.ingest import Ingest, layout_of
from sitsedge.loop.secured import Secured, read_mark, write_mark
from sitsedge.supervisor.groupkeys import ensure_group_keys
from sitsedge.supervisor.state import StateDir
from tests.sitsedge.conftest import replace

POLICY = SecurityPolicy.AES128_CTR
S = 1_000_000_000
SECURITY = """
  security: {mode: sign-encrypt, policy: PubSub-Aes128-CTR, group: mill, keys: mill.keys, overlap_s: 10.0}
  fields:"""
ZEROS = (0.0,) * 8


def keys(first: int, count: int) -> KeyFile:
    """Keys whose data says their token."""
    return KeyFile("mill", POLICY, first, [bytearray([first + index] * 52) for index in range(count)])


class Rig:
    """Ingest with keys from a file, and a publisher with the same ones."""

    def __init__(self, mill: Path, folder: Path) -> None:
        text = mill.read_text(encoding="utf-8")
        mill.write_text(text[: text.index("simulation:")].replace("\n  fields:", SECURITY), encoding="utf-8")
        self.deployment: Deployment = load_deployment(mill)
        self.state = StateDir(folder)
        self.state.create()
        self.path = self.state.keys / "mill.keys"
        write_key_file(self.path, keys(7, 2))
        self.open()
        self.writer = self.publisher(7)

    def open(self) -> None:
        """As a loop does at its start."""
        secured = Secured.of(self.deployment, self.state, now_ns=time.time_ns())
        assert secured is not None
        self.secured = secured
        self.ingest = Ingest(self.deployment, security=secured.reader)

    def publisher(self, token: int, mode: SecurityMode = SecurityMode.SIGN_AND_ENCRYPT) -> LayoutWriter:
        ring = KeyRing(POLICY)
        ring.install(token, keys(token, 1).keys)
        return LayoutWriter(layout_of(self.deployment), security=SecureWriter(ring, mode, token))

    def frame(self, writer: LayoutWriter | None = None) -> bytes:
        return (writer or self.writer).write(t_source_ns=time.time_ns(), values=ZEROS)

    def code(self, data: bytes) -> str:
        """Name of the refusal, or ``taken``."""
        try:
            self.ingest.decode(ReceivedFrame(data, time.time_ns(), "kernel", 0, ("127.0.0.1", 1)))
        except CycleRefused as refused:
            return refused.code
        return "taken"


@pytest.fixture
def rig(mill: Path, tmp_path: Path) -> Rig:
    return Rig(mill, tmp_path / "s")


def test_every_refusal_has_its_own_name(rig: Rig) -> None:
    good, signed = rig.frame(), rig.frame(rig.publisher(7, SecurityMode.SIGN))
    plain = LayoutWriter(layout_of(rig.deployment)).write(t_source_ns=time.time_ns(), values=ZEROS)
    assert rig.code(good) == "taken"
    assert rig.code(good) == "frame-nonce-replayed"
    assert rig.code(plain) == "frame-unsecured"
    assert rig.code(signed) == "frame-security-mode"
    assert rig.code(rig.frame(rig.publisher(9))) == "frame-token-unknown"
    assert rig.code(rig.frame()[:-1] + b"\0") == "frame-signature"
    before = rig.ingest.delta_e.figures()
    assert rig.code(plain) == "frame-unsecured"
    assert rig.ingest.delta_e.figures() == before  # forgeries do not choose what is measured
    assert rig.code(b"") == "frame"


def test_keys_change_while_it_runs_and_a_damaged_file_changes_nothing(rig: Rig) -> None:
    now, old, new = time.time_ns(), rig.writer, rig.publisher(9)
    write_key_file(rig.path, keys(8, 2))
    rig.secured.poll(now)
    assert (rig.code(rig.frame(new)), rig.code(rig.frame(old))) == ("taken", "taken")  # the old one for its overlap
    assert rig.secured.summary()["used_token"] is None  # as of the last poll
    rig.secured.poll(now + 1)
    assert rig.secured.summary()["used_token"] == 9
    rig.path.write_text("damaged", encoding="utf-8")
    rig.secured.poll(now + 2)
    assert str(rig.secured.summary()["problem"]).startswith("key-file")
    assert rig.code(rig.frame(new)) == "taken"
    rig.secured.poll(now + 11 * S)
    assert rig.secured.summary()["tokens"] == [9]
    assert rig.code(rig.frame(old)) == "frame-token-unknown"


def test_what_came_in_before_a_restart_does_not_come_in_after_it(rig: Rig) -> None:
    seen = [rig.frame() for _ in range(3)]
    assert [rig.code(data) for data in seen] == ["taken"] * 3
    rig.secured.close(time.time_ns())
    rig.open()
    assert [rig.code(data) for data in seen] == ["frame-nonce-replayed"] * 3
    assert rig.code(rig.frame()) == "taken"


def test_what_was_seen_is_written_down_every_few_seconds_and_no_key_with_it(rig: Rig) -> None:
    now = time.time_ns()
    assert rig.code(rig.frame()) == "taken"
    rig.secured.poll(now + S)
    assert not rig.state.replay_mark.exists()
    rig.secured.poll(now + 6 * S)
    body = json.loads(rig.state.replay_mark.read_text())
    assert body == {"group": "mill", "oldest": 0, "current": 7, "tops": {"7": 1}}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"group": "mill", "oldest": -1, "current": 1, "tops": {}}', '{"group": 1}']
)
def test_a_mark_that_is_damaged_or_of_another_group_is_not_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mark.json"
    assert read_mark(path, "mill") is None
    mark = ReplayMark(3, 4, ((4, 99),))
    write_mark(path, "mill", mark)
    assert (read_mark(path, "mill"), read_mark(path, "pump")) == (mark, None)
    path.write_text(text, encoding="utf-8")
    assert read_mark(path, "mill") is None


def test_a_missing_credential_and_a_missing_file_are_named_before_anything_starts(
    rig: Rig, mill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    replace(mill, "keys: mill.keys", "credential: mill.keys")
    deployment = load_deployment(mill)
    with pytest.raises(SitsError, match="no-credential"):
        ensure_group_keys(deployment, rig.state, now_ns=0)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(rig.state.keys))
    ensure_group_keys(deployment, rig.state, now_ns=0)
    rig.path.unlink()
    with pytest.raises(SecurityError, match="key-file"):
        ensure_group_keys(deployment, rig.state, now_ns=0)


def test_the_newest_frames_are_kept_in_order() -> None:
    with UdpReceiver("127.0.0.1", 0) as receiver, UdpSender(*receiver.address) as sender:
        for number in range(5):
            sender.send(bytes((number,)))
        frames, superseded = receiver.drain_newest(3)
        assert ([frame.data for frame in frames], superseded) == ([b"\2", b"\3", b"\4"], 2)
        assert receiver.drain_newest(3) == ([], 0)
