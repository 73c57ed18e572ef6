"""The keys of a station as what goes over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fieldbus.capture import Protocol
from fieldbus.cip.path import Port, encode_path
from fieldbus.link import LinkError
from fieldbus.s7 import cotp, pdu
from fieldbus.slmp import frame
from fieldbus.slmp.model import Request
from fieldbus.slmp.wire import DataCode
from sitsedge.bridge.stations.connectors import cip_connector, make_connector
from sitsedge.config.stations import CipStation, S7Station, SlmpStation
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import MelsecCpu
from tests.sitsedge.bridge.controllers import LAYOUT, s7_cpu, s7_station

CALLED = 0xC2


@pytest.mark.parametrize(
    ("keys", "called"),
    [
        ({}, "0301"),
        ({"rack": 1, "slot": 2}, "0322"),
        ({"connection": "pg", "slot": 3}, "0103"),
        ({"tsap": "4d57"}, "4d57"),
    ],
)
async def test_the_cpu_is_called_by_rack_and_slot_or_its_selector(
    tmp_path: Path, keys: dict[str, Any], called: str
) -> None:
    (tmp_path / "state.xml").write_text(LAYOUT, encoding="utf-8")
    cpu, asked = s7_cpu(), list[bytes]()

    def answer(data: bytes) -> bytes | None:
        telegram = pdu.decode(data)
        if isinstance(telegram, cotp.Connect):
            asked.append(dict(telegram.parameters)[CALLED])
        return cpu.answer(data)

    async with running(Protocol.S7, answer) as plc:
        connector = make_connector(S7Station.model_validate(s7_station(plc, **keys)), tmp_path)
        await connector.connect()
        await connector.close()
    assert [selector.hex() for selector in asked] == [called]


def test_a_route_goes_hop_by_hop_by_slot_or_address() -> None:
    tags = [{"name": "a", "unit": "1", "path": "A", "type": "REAL"}]
    keys = {
        "name": "oven",
        "protocol": "cip",
        "host": "192.0.2.9",
        "route": [1, 3, 2, "192.0.2.10", 1, 0],
        "tags": tags,
    }
    route = cip_connector(CipStation.model_validate(keys))._client._route
    assert route == (Port(1, b"\x03"), Port(2, b"192.0.2.10"), Port(1, b"\x00"))
    assert encode_path(route).startswith(b"\x01\x03\x12\x0a192.0.2.10")


@pytest.mark.parametrize("kind", ["3e", "4e"])
@pytest.mark.parametrize("code", DataCode)
async def test_frames_and_data_code_are_those_of_the_module(kind: str, code: DataCode, tmp_path: Path) -> None:
    cpu, asked = MelsecCpu({("SD", 203): 0, ("D", 7): 41}, {}), list[Request]()

    def answer(data: bytes) -> bytes | None:
        telegram = frame.decode(data)
        assert isinstance(telegram, Request)
        asked.append(telegram)
        return cpu.answer(data) if code is DataCode.BINARY else None

    async with running(Protocol.SLMP, answer) as plc:
        keys = {"name": "tank", "protocol": "slmp", "host": "127.0.0.1", "port": plc.port, "series": "q", "frame": kind}
        tags = [{"name": "a", "unit": "1", "device": "D7", "type": "int"}]
        station = SlmpStation.model_validate({**keys, "data_code": code.value, "deadline_ms": 100.0, "tags": tags})
        connector = make_connector(station, tmp_path)
        if code is DataCode.BINARY:
            await connector.connect()
            assert (await connector.read())[0].value == 41
            await connector.close()
        else:  # the controller in memory speaks binary; what it was asked shows the code
            with pytest.raises(LinkError, match="reply-timeout"):
                await connector.connect()
    assert asked[0].data_code is code
    assert (asked[0].serial is not None) is (kind == "4e")
