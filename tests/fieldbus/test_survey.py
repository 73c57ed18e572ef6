"""What controllers tell of themselves, who answers ListIdentity, and ``sitsctl fieldbus discover``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fieldbus.capture import Protocol
from fieldbus.cip import encapsulation as enip
from fieldbus.cip.discovery import identities, list_identity
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity, ListedIdentity
from sitsedge.cli.main import app
from tests.fieldbus.cip.test_tags import controller
from tests.fieldbus.fake_plc import FakePlc
from tests.fieldbus.vendor_cpus import MelsecCpu, S7Cpu

LISTED = ListedIdentity(1, bytes(16), Identity(1, 14, 54, 20, 11, 0x3060, 7, "1756-L61/B"), 3)


class Responder:
    """Answers one ListIdentity over UDP with each of ``answers`` (made from the question)."""

    def __init__(self, answers: list[Callable[[enip.Telegram], bytes]]) -> None:
        self._answers = answers
        self._link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._link.bind(("127.0.0.1", 0))
        self._link.settimeout(10)
        self.port: int = self._link.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        data, source = self._link.recvfrom(4_096)
        for answer in self._answers:
            self._link.sendto(answer(enip.decode(data)), source)

    def __enter__(self) -> Responder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._link.close()


def identity(serial: int = 7) -> Callable[[enip.Telegram], bytes]:
    item = replace(LISTED, identity=replace(LISTED.identity, serial=serial))
    return lambda asked: enip.encode(replace(asked, body=enip.Identities((item,))))


def test_devices_that_answer_are_listed_once_and_strange_answers_counted() -> None:
    answers = [
        identity(9),
        identity(7),
        identity(7),
        lambda _: b"\xff" * 40,
        lambda asked: enip.encode(replace(asked, context=b"another!", body=enip.Identities((LISTED,)))),
        lambda asked: enip.encode(replace(asked, status=1)),
    ]
    with Responder(answers) as there:
        found = list_identity("127.0.0.1", there.port, wait_s=0.3)
    assert [(item.address, item.identity.identity.serial) for item in found.devices] == [
        ("127.0.0.1", 7),
        ("127.0.0.1", 9),
    ]
    assert found.refused == {"command": 1, "reply-unmatched": 2}


def test_an_answer_to_another_question_is_none_to_this() -> None:
    data = enip.encode(enip.Telegram(enip.LIST_IDENTITY, enip.Identities((LISTED,)), context=b"question"))
    assert identities(data, b"question") == (LISTED,)
    with pytest.raises(CipError, match="reply-unmatched"):
        identities(data, b"other   ")


@contextlib.contextmanager
def serving(protocol: Protocol, answer: Callable[[bytes], bytes | None]) -> Iterator[int]:
    """A controller on a loop of its own, so that a command can ask it; its port."""
    loop = asyncio.new_event_loop()
    plc = FakePlc(protocol, answer)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(plc.start(), loop).result(10)
        yield plc.port
    finally:
        asyncio.run_coroutine_threadsafe(plc.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def discover(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["fieldbus", "discover", *arguments])


def asked(protocol: str, port: int, *more: str) -> Any:
    done = discover("127.0.0.1", "--protocol", protocol, "--port", str(port), "--output", "json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_logix_controller_tells_its_tags_and_types_and_nothing_is_written() -> None:
    plc = controller()
    before = dict(plc.tags)
    with serving(Protocol.CIP, plc.answer) as port:
        found = asked("cip", port)
        text = discover("127.0.0.1", "--protocol", "cip", "--port", str(port)).stdout
    tags = {tag["path"]: (tag["type"], tag["dimensions"]) for tag in found["tags"]}
    assert found["identity"]["name"] == "1756-L61/B LOGIX5561"
    assert (found["mode"], found["refused"]) == ("run", {})
    assert tags["Words"] == ("DINT", [10])
    assert tags["Grid"] == ("REAL", [3, 3])
    assert tags["Program:Mixer.State"] == ("INT", [])
    assert "Program:Mixer" not in tags
    members = {item["name"]: [member["path"] for member in item["members"]] for item in found["structures"]}
    assert members["Motor"] == ["Ready", "Fault", "Speed", "Counts"]
    assert "Lines" in text
    assert "mode run, key switch remote, no fault" in text
    assert plc.tags == before


def test_an_s7_cpu_tells_its_mode_and_blocks_and_what_it_refuses_is_named() -> None:
    with serving(Protocol.S7, S7Cpu().answer) as port:
        found = asked("s7", port)
        text = discover("127.0.0.1", "--protocol", "s7", "--port", str(port)).stdout
    assert found["names"] == {"system": "PLC_1", "serial": "S C-X4U421302009", "type": "CPU 315-2 PN/DP"}
    assert (found["state"]["mode"], found["blocks"]["DB"], found["data_blocks"]) == ("run", 2, [1, 7])
    assert found["refused"] == {"order number": "szl-refused"}
    assert "mode run" in text
    assert "not told: order number (szl-refused)" in text


@pytest.mark.parametrize("more", [(), ("--ascii",), ("--3e",)])
def test_a_melsec_cpu_tells_its_model_and_mode(more: tuple[str, ...]) -> None:
    with serving(Protocol.SLMP, MelsecCpu({("SD", 203): 0x12}).answer) as port:
        found = asked("slmp", port, *more)
    assert (found["model"]["name"], found["state"]["mode"]) == ("Q03UDVCPU", "stop")
    assert found["refused"] == {"clock": "clock-value"}


@pytest.mark.parametrize("arguments", [("--protocol", "s7"), ("127.0.0.1", "--protocol", "uadp")])
def test_what_cannot_be_discovered_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert discover(*arguments).exit_code == 2


def test_nobody_there_is_told_by_the_exit_code() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = str(silent.getsockname()[1])
        assert discover("--broadcast", "127.0.0.1", "--port", port, "--wait", "0.1").exit_code == 1
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        done = discover("127.0.0.1", "--protocol", "s7", "--port", str(closed.getsockname()[1]), "--output", "json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["error"]["code"] == "connect-failed"
