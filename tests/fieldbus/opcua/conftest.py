"""Certificates of a small plant and its PLC, for the OPC UA tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldbus.opcua import Identity, ReconnectPolicy, SecureClient, TrustList, create_identity
from tests.fieldbus.opcua.support import NAMESPACE, TAGS, WILD_TAGS, MakeClient, Plc, Wild, free_port


@pytest.fixture(scope="session")
def plant(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Identities: plc, gate (may write), bridge (may read), stranger (not trusted)."""
    folder = tmp_path_factory.mktemp("plant")
    identities = {
        name: create_identity(folder, name, application_uri=f"urn:tests:{name}", hosts=["127.0.0.1", "localhost"])
        for name in ("plc", "gate", "bridge", "stranger")
    }
    for name in ("gate", "bridge"):
        TrustList(folder / "trusted").add(identities[name].certificate)
    TrustList(folder / "writers").add(identities["gate"].certificate)
    return identities


@pytest.fixture
def folder(plant: dict[str, Identity], tmp_path: Path) -> Path:
    """A copy of the plant's folder that a test may change."""
    copy = tmp_path / "plant"
    shutil.copytree(plant["plc"].certificate_path.parent, copy)
    return copy


@pytest.fixture(scope="session")
def shared_plc(plant: dict[str, Identity]) -> Iterator[Plc]:
    """A server that tests only use, for those that need not restart it."""
    plc = Plc(plant["plc"].certificate_path.parent, free_port())
    plc.start()
    yield plc
    plc.stop()


@pytest.fixture
def own_plc(folder: Path) -> Iterator[Plc]:
    """A server of the test's own; not started."""
    plc = Plc(folder, free_port())
    yield plc
    plc.stop(kill=True)


@pytest.fixture
def make_client(plant: dict[str, Identity]) -> MakeClient:
    """A client of ``plc``; keyword arguments replace those of SecureClient."""

    def make(plc: Plc, who: str = "gate", **changes: object) -> SecureClient:
        arguments: dict[str, object] = {
            "identity": plant[who],
            "server_certificate": plc.folder / "plc.der",
            "namespace_uri": NAMESPACE,
            "tags": TAGS,
            "deadline_s": 5.0,
        }
        return SecureClient(plc.url, **(arguments | changes))  # type: ignore[arg-type]

    return make


AS_IT_SHOULD = (
    *("set drop 0", "set forget 0", "set repeat 0", "set mute 0", "set refuse_deadbands 0", "state 0", "level 255"),
    *("set publishing_ms none", "set sampling_ms none", "set queue_max none", "skew 0", "set tell_renewals 0"),
)
CALM = ReconnectPolicy(first_s=0.02, max_s=0.1, health_s=30.0, verify_s=30.0)
"""Nothing but what the test does happens."""


@pytest.fixture(scope="session")
def running_wild(plant: dict[str, Identity]) -> Iterator[Wild]:
    server = Wild(plant["plc"].certificate_path.parent, free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def wild(running_wild: Wild) -> Iterator[Wild]:
    """The server of ``wild_server.py``, which behaves until the test says otherwise."""
    yield running_wild
    running_wild.do(*AS_IT_SHOULD)


@pytest.fixture
def make_wild_client(plant: dict[str, Identity]) -> MakeClient:
    """A client of ``wild``; keyword arguments replace those of SecureClient."""

    def client(wild: Wild, **changes: object) -> SecureClient:
        arguments: dict[str, object] = {
            "identity": plant["bridge"],
            "server_certificate": plant["plc"].certificate_path,
            "namespace_uri": NAMESPACE,
            "tags": WILD_TAGS,
            "deadline_s": 10.0,
            "reconnect": CALM,
        }
        return SecureClient(wild.url, **(arguments | changes))  # type: ignore[arg-type]

    return client
