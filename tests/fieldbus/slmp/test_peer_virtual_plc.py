"""Our SLMP client against virtual-plc."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Device, Series
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.values import WordType, encode_words
from fieldbus.slmp.wire import DataCode
from tests.fieldbus.vendors import free_port, needs_peers, peer

pytestmark = needs_peers


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    port = free_port()
    with peer(port, "-m", "virtual_plc", "--port", str(port), "--limit", "D:0-1000"):
        yield port


@pytest.mark.parametrize("with_serial", [False, True])
@pytest.mark.parametrize("code", DataCode)
async def test_both_frames_and_both_codes(port: int, code: DataCode, with_serial: bool) -> None:
    client = SlmpClient("127.0.0.1", port, series=Series.Q, data_code=code, with_serial=with_serial)
    await client.connect()
    await client.write_words(Device("D", 100), (1480, 65491, *encode_words(WordType.REAL, 72.5)))
    await client.write_bits(Device("M", 3), (True, False, True))
    assert await client.bits(Device("M", 3), 3) == (True, False, True)
    assert (await client.random((Device("D", 100), Device("D", 101)))).words == (1480, 65491)
    assert (await client.model()).name == "VirtualPLC-Q"
    with pytest.raises(SlmpError, match="end-code"):
        await client.words(Device("D", 5_000), 1)
    assert client.connected
    tags = (
        SlmpTag("speed", "D100", WordType.INT, "1/min"),
        SlmpTag("t", "D102", WordType.REAL, "°C"),
        SlmpTag("m", "M3"),
    )
    connector = SlmpConnector(client, tags, run_only=False)  # its SD203 is not that of a CPU
    assert [sample.value for sample in await connector.read()] == [1480, 72.5, True]
    await connector.close()
