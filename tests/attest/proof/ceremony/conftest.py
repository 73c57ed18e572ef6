"""A phase 1 and a phase 2 of the toy network on each curve, with two contributors each, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attest.proof import Curve, ceremony
from attest.proof.ceremony_folder import CeremonyFolder
from tests.attest.proof.ceremony.support import Made
from tests.attest.proof.support import toy_circuit


@pytest.fixture(scope="session")
def made(curve: Curve, tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp("ceremony")
    circuit, phase1 = toy_circuit(curve).encode(), base / "phase1"
    ceremony.new_phase1(phase1, curve=curve, power=ceremony.power_for(circuit))
    first = tuple(ceremony.contribute(phase1, name=name, entropy=b"dice") for name in ("ann", "bob"))
    folder = CeremonyFolder.create(base / "toy", circuit=circuit, phase1=phase1)
    second = tuple(ceremony.contribute(folder.transcript, name=name) for name in ("vendor", "operator"))
    return Made(circuit, phase1, folder, first, second)


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> CeremonyFolder:
    """The ceremony's folder, to be damaged."""
    return CeremonyFolder(Path(shutil.copytree(made.folder.path, tmp_path / "copy")))
