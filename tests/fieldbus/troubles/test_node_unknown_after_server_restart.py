"""Public trouble: after a restart or download a tag's object is unknown, and the client stays broken for good.

OPC UA servers: ``tests/fieldbus/opcua`` (restart with other NodeIds and namespaces, nodes gone and back).
"""

from __future__ import annotations

import pytest

from fieldbus.sample import BAD_NOT_FOUND, GOOD, Sample
from tests.fieldbus.fake_plc import running
from tests.fieldbus.troubles.controllers import VENDORS


def statuses(samples: tuple[Sample, ...]) -> list[int]:
    return [sample.status for sample in samples]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_lost_object_is_bad_alone_and_good_again_without_a_reconnect(vendor: str) -> None:
    case = VENDORS[vendor]
    controller = case.controller()
    async with running(case.protocol, controller.answer) as plc:
        connector = case.connector(plc.port, 5.0)
        await connector.connect()
        assert statuses(await connector.read()) == [GOOD, GOOD]
        case.lose(controller)
        for _ in range(2):
            lost = await connector.read()
            assert statuses(lost) == [BAD_NOT_FOUND, GOOD]
            assert lost[0].value is None
        case.restore(controller)
        assert statuses(await connector.read()) == [GOOD, GOOD]
        assert plc.connections == 1
        await connector.close()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_controller_that_comes_back_without_the_object_is_still_read(vendor: str) -> None:
    case = VENDORS[vendor]
    controller = case.controller()
    async with running(case.protocol, controller.answer) as plc:
        await plc.stop()
        case.lose(controller)
        await plc.start()
        connector = case.connector(plc.port, 5.0)
        await connector.connect()
        assert statuses(await connector.read()) == [BAD_NOT_FOUND, GOOD]
        await connector.close()
