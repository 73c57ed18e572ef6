"""Our CIP client against cpppo's server (GPL, a process of its own)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fieldbus.cip.client import CipClient, backplane
from fieldbus.cip.connector import CipConnector, CipTag
from fieldbus.cip.discovery import list_identity
from fieldbus.cip.errors import CipError
from fieldbus.cip.path import Path
from fieldbus.cip.replies import TagValues
from fieldbus.cip.survey import survey
from fieldbus.sample import BAD_DEVICE_FAILURE, BAD_NOT_FOUND, BAD_TYPE_MISMATCH
from tests.fieldbus.vendors import free_port, needs_peers, peer

pytestmark = needs_peers


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    port = free_port()
    tags = ("Temp=REAL[10]", "Speed=INT[400]", "Count=DINT")
    with peer(port, "-m", "cpppo.server.enip", "--no-config", "-a", f"127.0.0.1:{port}", *tags):
        yield port


@pytest.mark.parametrize("route", [(), backplane(0)])
async def test_reads_writes_and_fragments(port: int, route: Path) -> None:
    client = CipClient("127.0.0.1", port, route=route)
    await client.connect()
    assert (await client.identity()).name == "1756-L61/B LOGIX5561"
    await client.write("Temp[2]", "REAL", 21.5)
    await client.write("Count", "DINT", -7)
    found = await client.read("Temp", 10)
    assert isinstance(found, TagValues)
    assert found.values[2] == 21.5
    if route:  # without one, cpppo takes service 0x52 for an unconnected send
        long = await client.read("Speed", 400)
        assert isinstance(long, TagValues)
        assert len(long.values) == 400
    with pytest.raises(CipError, match=r"status-05|encapsulation"):
        await client.read("Nope")
    await client.close()


async def test_tags_as_samples(port: int) -> None:
    tags = (
        CipTag("t", "Temp[2]", "REAL", "°C"),
        CipTag("n", "Count", "DINT"),
        CipTag("wrong", "Count", "REAL"),
        CipTag("nope", "Nope", "REAL"),
    )
    client = CipClient("127.0.0.1", port)
    await client.connect()
    await client.write("Temp[2]", "REAL", 21.5)
    await client.write("Count", "DINT", -7)
    await client.close()
    connector = CipConnector(client, tags)
    await connector.connect()
    samples = await connector.read()
    await connector.close()
    assert [sample.value for sample in samples] == [21.5, -7, None, None]
    assert samples[2].status == BAD_TYPE_MISMATCH
    assert samples[3].status in (BAD_NOT_FOUND, BAD_DEVICE_FAILURE)


async def test_it_answers_list_identity_and_lists_no_tags(port: int) -> None:
    found = list_identity("127.0.0.1", port, wait_s=0.5)
    assert [device.identity.identity.name for device in found.devices] == ["1756-L61/B LOGIX5561"]
    client = CipClient("127.0.0.1", port)
    await client.connect()
    told = await survey(client)
    await client.close()
    assert (told.identity.name, told.tags) == ("1756-L61/B LOGIX5561", ())
    assert set(told.refused) == {"tags of the controller"}
