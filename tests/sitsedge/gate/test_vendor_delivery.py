"""Receipts and alarms of commands for a vendor's controller that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from attest.command import ReadBack, Receipt
from attest.ledger import RecordKind
from sitsedge.gate.delivery import Delivery, DeliverySetup
from tests.sitsedge.gate.test_delivery import MS, SCALES, Rig, receipt, rig
from tests.sitsedge.gate.test_vendor_plcs import EVERY, Falter, rigged
from tests.sitsedge.gate.test_vendor_plcs import Rig as Controller

__all__ = ["rig"]


@contextlib.asynccontextmanager
async def delivering(rig: Rig, protocol: str, *, readback_ms: int = 20_000) -> AsyncIterator[Controller]:
    """``rig`` with a delivery to a controller in AUTO."""
    async with rigged(protocol) as controller:
        setup = DeliverySetup(SCALES, silence_ns=5_000 * MS, readback_ns=readback_ms * MS)
        rig.delivery = Delivery(setup, plc=controller.port, book=rig.book)
        rig.delivery.request_auto(True)
        yield controller
        await rig.delivery.drain()


async def deliver(rig: Rig, sequence: int) -> Receipt:
    await rig.deliver(sequence)
    return await receipt(rig)


def alarms(rig: Rig) -> list[str]:
    return [alarm.code for alarm in rig.records(RecordKind.ALARM)]


@EVERY
async def test_applied_then_stopped_is_one_alarm_and_a_receipt_each(rig: Rig, protocol: str) -> None:
    async with delivering(rig, protocol) as controller:
        got = await deliver(rig, 7)
        assert (got.state, got.applied, got.read_back) == (ReadBack.OK, (100, -20), (100, -20))
        assert rig.delivery.plant_outputs() == (100, -20)
        controller.stop_cpu()
        async with asyncio.timeout(60):
            while not controller.port.standstill:
                await asyncio.sleep(0.005)
        for sequence in (8, 9):
            got = await deliver(rig, sequence)
            assert (got.state, got.applied, got.t_written_ns) == (ReadBack.NOT_APPLIED, (), 0)
        assert alarms(rig) == ["plc-stopped"]


@EVERY
@pytest.mark.parametrize("taken", [True, False])
async def test_no_answer_to_the_sequence_is_settled_after_the_reconnect(rig: Rig, protocol: str, taken: bool) -> None:
    async with delivering(rig, protocol, readback_ms=20_000 if taken else 300) as controller:
        assert (await deliver(rig, 1)).state is ReadBack.OK
        Falter(controller, "close", taken=taken)
        rig.plc.write_gate.clear()  # the next receipt waits for the reconnect, so nobody waits for the writer here
        await rig.deliver(2)
        await controller.reconnected_after_fault()
        got = await receipt(rig)
        not_taken = (ReadBack.NOT_APPLIED, ReadBack.PENDING)  # by how long the reconnect took
        assert got.state in ((ReadBack.OK,) if taken else not_taken)
        assert got.applied == (100, -20), "it may have been applied: the receipt must not say that it was never written"
        assert alarms(rig)[0] == "plc-unknown"


async def test_a_controller_that_is_gone_after_the_write_leaves_it_pending(rig: Rig) -> None:
    async with delivering(rig, "s7", readback_ms=100) as controller:
        await rig.deliver(1)
        await controller.plc.stop()
        got = await receipt(rig)
        assert got.state is ReadBack.PENDING
        got = await deliver(rig, 2)
        assert (got.state, got.applied) == (ReadBack.NOT_APPLIED, ())
        assert alarms(rig) == ["plc-not-connected"]


async def test_the_plc_s_own_man_is_not_applied(rig: Rig) -> None:
    async with delivering(rig, "slmp", readback_ms=60) as controller:
        controller.block.program.manual = True
        assert (await deliver(rig, 1)).state is ReadBack.NOT_APPLIED
        assert alarms(rig) == ["not-applied"]
