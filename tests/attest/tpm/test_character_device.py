"""A TPM behind a device file: a terminal in raw mode stands in for /dev/tpmrm0, with a simulated TPM at its far end."""

from __future__ import annotations

import contextlib
import os
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest import structures
from attest.tpm import Swtpm, TpmDeadline, TpmDevice, TpmMissing
from attest.tpm.transport_unix import connect_unix
from tests.attest.tpm.rig import DEADLINE_S


@contextlib.contextmanager
def device_file(simulator: Swtpm | None) -> Iterator[tuple[Path, int]]:
    """A device that passes commands on to ``simulator``, or never answers; and the near end's descriptor."""
    far, near = os.openpty()
    tty.setraw(near)
    thread = threading.Thread(target=_relay, args=(far, simulator), daemon=True) if simulator else None
    if thread:
        thread.start()
    try:
        yield Path(os.ttyname(near)), near
    finally:
        os.close(near)
        if thread:
            thread.join(10)  # reading from the far end of a closed terminal is an error, and the end
        os.close(far)


def _relay(far: int, simulator: Swtpm) -> None:
    with connect_unix(simulator.socket_path, timeout_s=20) as upstream, contextlib.suppress(OSError):
        while True:
            command = b""
            while len(command) < 10 or len(command) < int.from_bytes(command[2:6], "big"):
                command += os.read(far, 4096)
            upstream.sendall(command)
            response = b""
            while len(response) < 10 or len(response) < int.from_bytes(response[2:6], "big"):
                response += upstream.recv(4096)
            os.write(far, response)


def test_device_file_serves_like_a_socket_and_software_stays_visible(swtpm: Swtpm) -> None:
    with device_file(swtpm) as (path, _), TpmDevice(f"device:{path}", deadline_s=DEADLINE_S) as device:
        assert device.kind == "swtpm", "whatever it hides behind"
        assert structures.parse_quote(device.quote([0, 7], b"x").attest).extra_data == b"x"
        assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}


def test_objects_of_others_are_not_flushed_behind_a_resource_manager(swtpm: Swtpm) -> None:
    with device_file(swtpm) as (path, _):
        with TpmDevice(f"device:{path}", deadline_s=DEADLINE_S) as first, first.connection.call() as esapi:
            esapi.create_primary(None, "ecc256")
        with TpmDevice(f"device:{path}", deadline_s=DEADLINE_S) as second:
            assert second.handles_in_use()["transient"] == 1


def test_silent_device_file_meets_the_deadline() -> None:
    with (
        device_file(None) as (path, _),
        TpmDevice(f"device:{path}", deadline_s=0.05) as device,
        pytest.raises(TpmDeadline),
    ):
        device.clock()


def test_device_file_that_takes_no_command_is_late() -> None:
    with device_file(None) as (path, near), TpmDevice(f"device:{path}", deadline_s=DEADLINE_S) as device:
        os.set_blocking(near, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(near, bytes(1024))
        with pytest.raises(TpmDeadline):  # at once: nothing was sent that an answer could come to
            device.clock()


def test_vanished_device_file_is_missing(tmp_path: Path) -> None:
    with TpmDevice(f"device:{tmp_path / 'gone'}") as device, pytest.raises(TpmMissing) as caught:
        device.clock()
    assert caught.value.code == "tpm-unreachable"
