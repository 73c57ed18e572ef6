"""The application measurement: what the device extends is what the verifier computes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attest.evidence.application import APPLICATION_PCRS, application_value
from attest.tpm import TpmDevice, TpmError
from attest.tpm.transport import DeadlineTcti
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm

PCR_RESET, PCR_READ, PCR_EXTEND = 0x13D, 0x17E, 0x182
MODULE, DEPLOYMENT = b"\x11" * 32, b"\x22" * 32


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    with (
        fresh_swtpm(tmp_path_factory.mktemp("application") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        yield device


@pytest.mark.parametrize("pcr", APPLICATION_PCRS)
def test_verifier_reproduces_the_value(shared: TpmDevice, pcr: int) -> None:
    for module in (MODULE, b"\x33" * 32, MODULE):  # a swap and back, without a reboot
        value = shared.measure_application(pcr, module_digest=module, deployment_digest=DEPLOYMENT)
        assert value == application_value(module_digest=module, deployment_digest=DEPLOYMENT)
        assert shared.read_pcrs([pcr]) == {pcr: value}


def test_foreign_extend_is_replaced(shared: TpmDevice) -> None:
    shared.extend(23, MODULE)
    value = shared.measure_application(23, module_digest=MODULE, deployment_digest=DEPLOYMENT)
    assert shared.read_pcrs([23])[23] == value


def test_same_application_again_changes_nothing(shared: TpmDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[int] = []
    transmit = DeadlineTcti.do_transmit

    def spy(self: DeadlineTcti, command: bytes) -> None:
        commands.append(int.from_bytes(command[6:10], "big"))
        transmit(self, command)

    monkeypatch.setattr(DeadlineTcti, "do_transmit", spy)
    shared.measure_application(23, module_digest=DEPLOYMENT, deployment_digest=MODULE)
    assert {PCR_RESET, PCR_EXTEND} <= set(commands)
    commands.clear()
    shared.measure_application(23, module_digest=DEPLOYMENT, deployment_digest=MODULE)
    assert set(commands) == {PCR_READ}


@pytest.mark.parametrize("pcr", [-1, 0, 10, 15, 17, 22, 24])
def test_pcr_that_cannot_be_reset_is_refused(shared: TpmDevice, pcr: int) -> None:
    with pytest.raises(TpmError) as caught:
        shared.measure_application(pcr, module_digest=MODULE, deployment_digest=DEPLOYMENT)
    assert caught.value.code == "tpm-argument"
