"""A started simulated TPM and a device on it, per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.tpm import Swtpm, TpmDevice
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm


@pytest.fixture
def swtpm(tmp_path: Path) -> Iterator[Swtpm]:
    simulator = fresh_swtpm(tmp_path / "tpm")
    simulator.start()
    yield simulator
    simulator.stop()


@pytest.fixture
def device(swtpm: Swtpm) -> Iterator[TpmDevice]:
    device = TpmDevice(swtpm.tcti, deadline_s=DEADLINE_S)
    yield device
    device.close()
