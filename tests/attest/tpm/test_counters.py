"""NV counters: they go up, they stay apart, and nothing else at their index is touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_NT, TPMA_NV
from tpm2_pytss.types import TPM2B_NV_PUBLIC, TPMS_NV_PUBLIC

from attest.tpm import TpmDevice, TpmError
from attest.tpm.counters import MAX_ADVANCE, Counter, NvCounter
from tests.attest.tpm.rig import DEADLINE_S, fresh_swtpm


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpmDevice]:
    with (
        fresh_swtpm(tmp_path_factory.mktemp("counters") / "tpm") as simulator,
        TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device,
    ):
        yield device


def test_counters_only_go_up_and_stay_apart(shared: TpmDevice) -> None:
    deployment, ledger = shared.deployment_counter, shared.ledger_counter
    with pytest.raises(TpmError) as caught:
        deployment.value()
    assert caught.value.code == "tpm-counter"
    first, other = deployment.create(), ledger.create()
    assert deployment.create() == first
    assert deployment.increment() == first + 1
    assert deployment.advance_to(first + 5) == deployment.value() == first + 5
    assert ledger.value() == other


def test_counter_refuses_to_go_down(shared: TpmDevice) -> None:
    counter = shared.ledger_counter
    value = counter.create()
    with pytest.raises(TpmError) as caught:
        counter.advance_to(value - 1)
    assert caught.value.code == "tpm-counter-rollback"
    assert counter.require(value) == counter.value() == value


def test_step_that_would_wear_the_tpm_is_refused(shared: TpmDevice) -> None:
    counter = shared.ledger_counter
    value = counter.create()
    with pytest.raises(TpmError) as caught:
        counter.advance_to(value + MAX_ADVANCE + 1)
    assert caught.value.code == "tpm-counter-step"
    assert counter.value() == value


def test_removed_counter_comes_back_above_what_it_was(shared: TpmDevice) -> None:
    counter = shared.deployment_counter
    counter.create()
    before = counter.increment()
    with shared.connection.call() as esapi:
        esapi.nv_undefine_space(esapi.tr_from_tpmpublic(counter.index), auth_handle=ESYS_TR.OWNER)
    assert counter.create() > before


@pytest.mark.parametrize(
    ("kind", "size", "index"),
    [(TPM2_NT.ORDINARY, 8, 0x0181F001), (TPM2_NT.BITS, 8, 0x0181F002), (TPM2_NT.EXTEND, 32, 0x0181F003)],
)
def test_index_of_another_program_is_left_alone(shared: TpmDevice, kind: TPM2_NT, size: int, index: int) -> None:
    attributes = int(TPMA_NV.OWNERWRITE | TPMA_NV.OWNERREAD | TPMA_NV.AUTHREAD | TPMA_NV.NO_DA)
    _define(shared, index, attributes | int(kind) << TPMA_NV.TPM2_NT_SHIFT, size)
    for use in (NvCounter.create, NvCounter.value, NvCounter.increment):
        with pytest.raises(TpmError) as caught:
            use(NvCounter(shared.connection, index))
        assert caught.value.code == "tpm-counter-collision"


def test_counter_that_others_may_write_is_a_collision(shared: TpmDevice) -> None:
    attributes = int(TPMA_NV.OWNERWRITE | TPMA_NV.AUTHWRITE | TPMA_NV.AUTHREAD | TPMA_NV.NO_DA)
    _define(shared, 0x0181F004, attributes | int(TPM2_NT.COUNTER) << TPMA_NV.TPM2_NT_SHIFT, 8)
    with pytest.raises(TpmError) as caught:
        NvCounter(shared.connection, 0x0181F004).create()
    assert caught.value.code == "tpm-counter-collision"


def test_certificate_index_is_no_counter(shared: TpmDevice) -> None:
    with pytest.raises(TpmError) as caught:
        NvCounter(shared.connection, 0x01C00002).increment()
    assert caught.value.code == "tpm-counter-collision"


def test_indices_are_distinct() -> None:
    assert len(set(Counter)) == 3
    assert all(0x01800000 <= index <= 0x01BFFFFF for index in Counter)


def test_state_put_back_is_seen_by_what_was_remembered_elsewhere(tmp_path: Path) -> None:
    simulator = fresh_swtpm(tmp_path / "tpm")
    with simulator, TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device:
        device.ledger_counter.create()
        reset_count = device.clock().reset_count
    shutil.copytree(tmp_path / "tpm", tmp_path / "copy")
    with simulator, TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device:
        remembered = device.ledger_counter.increment()
        assert device.clock().reset_count > reset_count
    shutil.rmtree(tmp_path / "tpm")
    (tmp_path / "copy").rename(tmp_path / "tpm")
    with simulator, TpmDevice(simulator.tcti, deadline_s=DEADLINE_S) as device:
        with pytest.raises(TpmError) as caught:
            device.ledger_counter.require(remembered)
        assert caught.value.code == "tpm-counter-rollback"
        assert device.ledger_counter.require(remembered - 1) == remembered - 1


def _define(device: TpmDevice, index: int, attributes: int, size: int) -> None:
    public = TPMS_NV_PUBLIC(nvIndex=index, nameAlg=TPM2_ALG.SHA256, attributes=attributes, dataSize=size)
    with device.connection.call() as esapi:
        esapi.nv_define_space(None, TPM2B_NV_PUBLIC(nvPublic=public), auth_handle=ESYS_TR.OWNER)
