"""One guarded server for all tests of this folder, and a plant of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fieldbus.opcua import Identity, TrustList, create_identity
from fieldbus.opcua.server import Role, UserBook
from tests.fieldbus.opcua.server.shop import PASSWORDS, Shop
from tests.fieldbus.opcua.support import free_port

ROLES = {"olga": Role.OPERATOR, "ed": Role.ENGINEER, "vera": Role.OBSERVER}


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Applications: panel and desk (writers), screen (reader), evil (trusted, and hostile)."""
    folder = tmp_path_factory.mktemp("shop")
    names = ("plc", "panel", "desk", "screen", "evil")
    identities = {
        name: create_identity(folder, name, application_uri=f"urn:tests:{name}", hosts=["127.0.0.1"]) for name in names
    }
    for name in names[1:]:
        TrustList(folder / "trusted").add(identities[name].certificate)
    for name in ("panel", "desk", "evil"):
        TrustList(folder / "writers").add(identities[name].certificate)
    book = UserBook()
    for name, password in PASSWORDS.items():
        book.set(name, bytearray(password.encode()), ROLES[name])
    book.set_application("urn:tests:desk", Role.ENGINEER)
    book.save(folder / "users.json")
    return identities


@pytest.fixture(scope="session")
def shop(people: dict[str, Identity]) -> Iterator[Shop]:
    """The server process."""
    shop = Shop(people["plc"].certificate_path.parent, free_port())
    yield shop
    shop.stop()
