"""Certificates, a source server and a bridge for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldbus.opcua import TrustList, create_identity
from tests.sitsedge.bridge.support import TAGS, Bridge, MakeBridge, Source, free_port, server_station

BAD_WAITING = 0x8032_0000


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the identities ``source``, ``bridge``, ``other`` and the trust list of the source."""
    folder = tmp_path_factory.mktemp("pki")
    made = {
        name: create_identity(folder, name, application_uri=f"urn:tests:{name}", hosts=["127.0.0.1"])
        for name in ("source", "bridge", "other")
    }
    TrustList(folder / "trusted").add(made["bridge"].certificate)
    return folder


@pytest.fixture
def folder(pki: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "site"
    shutil.copytree(pki, copy)
    return copy


@pytest.fixture
def own_source(folder: Path) -> Iterator[Source]:
    """A server of the test's own, not started."""
    server = Source(folder, free_port())
    yield server
    server.stop(kill=True)


@pytest.fixture(scope="session")
def running_source(pki: Path) -> Iterator[Source]:
    """One server for all tests that do not restart it."""
    server = Source(pki, free_port())
    server.start((*TAGS, "count"))
    yield server
    server.stop()


@pytest.fixture
def source(running_source: Source) -> Source:
    """That server as if it had just started: every tag waits for its first value."""
    running_source.write(None, **dict.fromkeys((*TAGS, "count"), (0.0, BAD_WAITING)))
    return running_source


@pytest.fixture
def make_bridge(folder: Path) -> Iterator[MakeBridge]:
    """Makes bridges configured for a server, not started."""
    made: list[Bridge] = []

    def make(server: Source) -> Bridge:
        made.append(Bridge(folder, server_station(server.port)))
        return made[-1]

    yield make
    for bridge in made:
        bridge.close()


@pytest.fixture
def bridge(source: Source, make_bridge: MakeBridge) -> Bridge:
    """A running bridge."""
    process = make_bridge(source)
    process.start()
    process.running()
    return process
