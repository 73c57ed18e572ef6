"""Our S7 client against the server of python-snap7."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from fieldbus.s7.blocks import BlockKind
from fieldbus.s7.client import S7Client
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.s7.errors import S7Error
from fieldbus.s7.layout import BlockLayout, Member
from fieldbus.s7.model import Area, Item
from fieldbus.s7.values import DataType, TypeSpec
from fieldbus.sample import TimeSource
from tests.fieldbus.vendors import PROGRAMS, free_port, needs_peers, peer

pytestmark = needs_peers

LAYOUT = BlockLayout(
    1,
    "State",
    64,
    (
        Member("Temperature", 0, 0, TypeSpec(DataType.REAL)),
        Member("Speed", 4, 0, TypeSpec(DataType.INT)),
        Member("Running", 6, 0, TypeSpec(DataType.BOOL)),
        Member("Stamp", 8, 0, TypeSpec(DataType.DTL)),
    ),
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    port = free_port()
    with peer(port, str(PROGRAMS / "snap7_peer.py"), str(port)):
        yield port


async def test_tags_of_a_block_with_the_block_own_time(port: int) -> None:
    tags = (S7Tag("t", "Temperature", "°C"), S7Tag("n", "Speed", "1/min"), S7Tag("on", "Running"))
    connector = S7Connector(S7Client("127.0.0.1", port), LAYOUT, tags, time_member="Stamp", run_only=False)
    await connector.connect()
    samples = await connector.read()
    await connector.close()
    assert [sample.value for sample in samples] == [72.5, 1480, True]
    assert all(sample.good and sample.time_source is TimeSource.PLC for sample in samples)
    stamp = dt.datetime(2026, 11, 29, 15, 30, 45, tzinfo=dt.UTC)
    assert samples[0].t_source_ns == int(stamp.timestamp()) * 10**9 + 123_456_789


async def test_writes_are_read_back_and_refusals_are_named(port: int) -> None:
    client = S7Client("127.0.0.1", port)
    await client.connect()
    await client.write(Item(Area.DATA_BLOCK, 40, 4, block=1), b"\x01\x02\x03\x04")
    assert (await client.read((Item(Area.DATA_BLOCK, 40, 4, block=1),)))[0].data == b"\x01\x02\x03\x04"
    items = (Item(Area.DATA_BLOCK, 0, 4, block=1), Item(Area.DATA_BLOCK, 0, 2, block=99))
    assert [found.code for found in await client.read(items)] == [0xFF, 0x0A]
    with pytest.raises(S7Error, match="refused"):
        await client.write(Item(Area.DATA_BLOCK, 0, 4, block=99), bytes(4))
    assert abs(await client.clock_ns() - int(dt.datetime.now(dt.UTC).timestamp() * 1e9)) < 26 * 3600 * 10**9
    await client.close()


async def test_its_blocks_are_listed(port: int) -> None:
    client = S7Client("127.0.0.1", port)
    await client.connect()
    assert (await client.block_counts())[BlockKind.DB] == 1
    assert [entry.number for entry in await client.blocks(BlockKind.DB)] == [1]
    await client.close()
