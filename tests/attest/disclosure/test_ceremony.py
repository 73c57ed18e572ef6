"""A sealed circuit goes through the set-up ceremony, and the ceremony's key is no development key."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.disclosure import Keys
from attest.disclosure.write import sealed_circuit
from attest.proof import Curve, ceremony
from attest.proof.ceremony import CeremonyError
from attest.proof.ceremony_folder import CeremonyFolder
from tests.attest.disclosure.exports import manifest_of, report
from tests.attest.disclosure.test_export import writer
from tests.attest.ledger.scenario import CIRCUIT, RULES, Scenario


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CeremonyFolder:
    base = tmp_path_factory.mktemp("ceremony")
    circuit = sealed_circuit(CIRCUIT, RULES, Curve.BN254)
    power = ceremony.power_for(circuit)
    ceremony.new_phase1(base / "p0", curve=Curve.BN254, power=power)
    ceremony.contribute(base / "p0", base / "p1", name="vendor", entropy=b"")
    made = CeremonyFolder.create(base / "setup", circuit=circuit, phase1=base / "p1")
    ceremony.contribute(made.transcript, base / "t1", name="operator", entropy=b"")
    (base / "t1").replace(made.transcript)
    return made


def test_production_exports_with_them(folder: CeremonyFolder, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "ledgers", profile="production")
    scenario.open_epoch()
    scenario.run(1)
    scenario.close()
    made = folder.verify(sealed_circuit(CIRCUIT, RULES, Curve.BN254))
    keys = Keys(made.proving_key, made.verification_key, made.contributions)
    writer(tmp_path / "ledgers").write(tmp_path / "out", tmp_path / "s", keys)
    assert report(tmp_path / "out").ok
    assert (manifest_of(tmp_path / "out").development, manifest_of(tmp_path / "out").contributors) == (False, 1)


def test_ceremony_of_another_sealed_circuit(folder: CeremonyFolder) -> None:
    with pytest.raises(CeremonyError) as caught:
        folder.verify(sealed_circuit(CIRCUIT, RULES, Curve.BLS12_381))
    assert caught.value.code == "setup-circuit"
