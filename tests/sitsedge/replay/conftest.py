"""Certificates of a replay and of its listener."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldbus.opcua import TrustList, create_identity


@pytest.fixture(scope="session")
def replay_pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay-pki")
    create_identity(folder, "server", application_uri="urn:tests:replay", hosts=["127.0.0.1"])
    listener = create_identity(folder, "bridge", application_uri="urn:tests:listener")
    TrustList(folder / "trusted").add(listener.certificate)
    return folder
