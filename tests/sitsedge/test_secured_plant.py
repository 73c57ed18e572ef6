"""A whole deployment whose plant publishes signed and encrypted: it runs, nobody else gets in, and the key changes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fieldbus.uadp import (
    KeyFile,
    KeyRing,
    LayoutWriter,
    SecureWriter,
    SecurityMode,
    SecurityPolicy,
    make_keys,
    read_key_file,
    write_key_file,
)
from sitsedge.cli.status import as_data
from sitsedge.config import load_deployment
from sitsedge.loop.ingest import layout_of
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.conftest import replace

WAIT_S = 60.0
SECURITY = """
  security: {mode: sign-encrypt, policy: PubSub-Aes256-CTR, group: mill, keys: mill.keys, overlap_s: 1.0}
  fields:"""


class Tap:
    """Between publisher and loop: passes every frame on and keeps it, as anybody on that network can."""

    def __init__(self, port: int) -> None:
        self._inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._inbox.bind(("127.0.0.1", 0))
        self.port: int = self._inbox.getsockname()[1]
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._target = ("127.0.0.1", port)
        self.frames: list[bytes] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while data := self._inbox.recv(2_000):
            self.frames.append(data)
            self.send(data)

    def send(self, data: bytes) -> None:
        self._out.sendto(data, self._target)

    def close(self) -> None:
        self._out.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._inbox.close()
        self._out.close()


@contextmanager
def tapped(port: int) -> Iterator[Tap]:
    tap = Tap(port)
    try:
        yield tap
    finally:
        tap.close()


def loop_of(state: StateDir) -> dict[str, Any]:
    snapshot = read_snapshot(state.run, "sitsd")
    return {} if snapshot is None else snapshot.data


def until(state: StateDir, wanted: Any, doing: Any = lambda: None) -> dict[str, Any]:
    """The first snapshot of the loop that is as wanted, while something is done again and again."""
    end = time.monotonic() + WAIT_S
    while not wanted(data := loop_of(state)):
        assert time.monotonic() < end, data
        doing()
        time.sleep(0.02)
    return data


def refused(data: dict[str, Any], code: str) -> int:
    return int(data.get("refused", {}).get(code, 0))


def test_a_secured_plant_runs_and_nobody_else_is_heard(
    mill: Path, mill_files: tuple[Path, Path], tmp_path: Path
) -> None:
    replace(mill, "\n  fields:", SECURITY)
    deployment, state = load_deployment(mill), StateDir(tmp_path / "s")
    forger = LayoutWriter(layout_of(deployment))
    thief = KeyRing(SecurityPolicy.AES256_CTR)
    thief.install(1, make_keys("mill", SecurityPolicy.AES256_CTR).keys)
    stranger = LayoutWriter(layout_of(deployment), security=SecureWriter(thief, SecurityMode.SIGN_AND_ENCRYPT, 1))
    zeros = (0.0,) * len(deployment.field_names)

    with tapped(deployment.source.port) as tap:  # type: ignore[union-attr]
        bundle, publisher = mill_files
        options = SessionOptions(attestation_mode="none", publish_port=tap.port, bundle=bundle, publisher=publisher)
        with Session(mill, state, options, say=lambda _: None) as session:
            session.prepare()
            session.start()
            until(state, lambda data: data.get("accepted", 0) > 20)

            def attack() -> None:
                tap.send(forger.write(t_source_ns=time.time_ns(), values=zeros))
                tap.send(stranger.write(t_source_ns=time.time_ns(), values=zeros))
                tap.send(tap.frames[-2])
                tap.send(tap.frames[-1][:-1] + bytes((tap.frames[-1][-1] ^ 1,)))

            codes = ("frame-unsecured", "frame-signature", "frame-nonce-replayed")
            data = until(state, lambda data: all(refused(data, code) > 5 for code in codes), attack)
            assert data["accepted"] > 20
            until(state, lambda later: later["accepted"] > data["accepted"] + 20, attack)

            path, old = state.keys / "mill.keys", tap.frames[-1]
            before = read_key_file(path)
            next_token = before.first_token_id + 1
            fresh = make_keys("mill", SecurityPolicy.AES256_CTR).keys[0]
            write_key_file(path, KeyFile("mill", before.policy, next_token, [before.keys[1], fresh]))
            data = until(state, lambda data: data["source_security"]["used_token"] == next_token)
            tokens = [next_token, next_token + 1]
            data = until(state, lambda data: data["source_security"]["tokens"] == tokens)  # the overlap is over
            unknown = refused(data, "frame-token-unknown")
            data = until(state, lambda data: refused(data, "frame-token-unknown") > unknown, lambda: tap.send(old))
            until(state, lambda later: later["accepted"] > data["accepted"] + 20)
            path.write_text("sits-pubsub-keys 1\nnothing\n")
            data = until(state, lambda data: data["source_security"]["problem"] is not None)
            until(state, lambda later: later["accepted"] > data["accepted"] + 20)
            assert as_data(state)["processes"]["sitsd"]["source_security"]["group"] == "mill"
    log = "".join(file.read_text(errors="replace") for file in state.logs.iterdir())
    assert not any(key.hex() in log for key in (*before.keys, fresh))
