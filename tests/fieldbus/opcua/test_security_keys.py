"""GetSecurityKeys: a real server answers, in key files that the loop follows; every answer that is none is named."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asyncua import ua
from typer.testing import CliRunner

from fieldbus.opcua import Identity, OpcUaError, TrustList, create_identity
from fieldbus.opcua.securitykeys import GET_SECURITY_KEYS, key_file_of
from fieldbus.opcua.server import secure_server
from fieldbus.uadp import SecurityPolicy, read_key_file
from sitsedge.cli.main import app
from tests.fieldbus.opcua.support import free_port

POLICY = SecurityPolicy.AES256_CTR
NOW = 1_796_000_000_500_000_000
KEYS = [bytes([number] * 68) for number in (1, 2, 3)]
GOOD: list[Any] = [POLICY.uri, 7, KEYS, 1_500.0, 60_000.0]


def test_an_answer_is_a_key_file() -> None:
    found = key_file_of(GOOD, group="mill", now_ns=NOW)
    assert (found.policy, found.first_token_id, [bytes(key) for key in found.keys]) == (POLICY, 7, KEYS)
    assert (found.ends_ns(7), found.lifetime_ns) == (1_796_000_002_000_000_000, 60_000_000_000)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256"), (0, None),
        (1, 0), (1, 2**32 - 2), (1, "7"), (1, True),
        (2, []), (2, None), (2, [b"short"]), (2, KEYS * 6), (2, ["text"]),
        (3, -1.0), (3, math.nan), (3, 60_001.0), (3, 5),
        (4, 0.0), (4, math.inf), (4, 1e15),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused_without_showing_a_key(place: int, value: object) -> None:
    with pytest.raises(OpcUaError, match="key-server") as caught:
        key_file_of([*GOOD[:place], value, *GOOD[place + 1 :]], group="mill", now_ns=NOW)
    assert KEYS[0].hex()[:8] not in str(caught.value)
    with pytest.raises(OpcUaError, match="key-server"):
        key_file_of(GOOD[:4], group="mill", now_ns=NOW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sks")


def identity(folder: Path, name: str) -> Identity:
    return create_identity(folder, name, application_uri=f"urn:tests:{name}", hosts=["127.0.0.1"])


@contextmanager
def key_server(folder: Path, port: int) -> Iterator[None]:
    """A server that has the group ``mill`` and says so to trusted applications."""
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    trusted = TrustList(folder / "trusted")
    trusted.add(identity(folder, "edge").certificate)
    me = identity(folder, "sks")

    async def answer(_: Any, group: Any, first: Any, count: Any) -> Any:
        if group.Value != "mill":
            return ua.StatusCode(ua.StatusCodes.BadNotFound)
        kinds = (ua.VariantType.String, ua.VariantType.UInt32, ua.VariantType.ByteString, ua.VariantType.Double)
        values = (POLICY.uri, 7, KEYS[: count.Value], 30_000.0, 60_000.0)
        return [ua.Variant(value, kind) for value, kind in zip(values, (*kinds, ua.VariantType.Double), strict=True)]

    async def serve() -> None:
        server = await secure_server(f"opc.tcp://127.0.0.1:{port}/", identity=me, trusted=trusted)
        server.link_method(server.get_node(GET_SECURITY_KEYS), answer)
        async with server:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()


def test_keys_are_fetched_into_a_file_of_mode_0600(folder: Path) -> None:
    port, file = free_port(), folder / "mill.keys"

    def fetch(group: str) -> Any:
        options = ["--group", group, "--server", f"opc.tcp://127.0.0.1:{port}/", "--count", "2", "--output", "json"]
        options += ["--server-certificate", str(folder / "sks.der"), "--certificate", str(folder / "edge.der")]
        return CliRunner().invoke(
            app, ["fieldbus", "keys", "fetch", str(file), *options, "--key", str(folder / "edge.key.pem")]
        )

    with key_server(folder, port):
        done = fetch("mill")
        assert done.exit_code == 0, done.output
        found = read_key_file(file)
        assert ([bytes(key) for key in found.keys], found.first_token_id, found.group) == (KEYS[:2], 7, "mill")
        assert file.stat().st_mode & 0o777 == 0o600
        assert KEYS[0].hex()[:8] not in done.output
        refused = fetch("pump")
        assert refused.exit_code != 0
        assert "BadNotFound" in refused.output + str(refused.exception)
        assert read_key_file(file) == found
