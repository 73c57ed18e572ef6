"""Every kind of MELSEC device as a tag, in binary and ASCII frames, and what stays good when the CPU stops."""

from __future__ import annotations

import pytest

from fieldbus.capture import Protocol
from fieldbus.sample import BAD_OUT_OF_SERVICE, GOOD
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Series
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.values import WordOrder, WordType
from fieldbus.slmp.wire import DataCode
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import MelsecCpu

TAGS = {
    SlmpTag("x", "X1F"): True,
    SlmpTag("m", "M3"): False,
    SlmpTag("contact", "TS5"): True,
    SlmpTag("inputs", "X10", WordType.UINT): 0x8001,
    SlmpTag("odd", "X1F", WordType.UINT): 1,
    SlmpTag("coils", "Y0", WordType.UDINT): 0x0001_0001,
    SlmpTag("timer", "TN5", WordType.UINT): 120,
    SlmpTag("count", "D100", WordType.INT): -2,
    SlmpTag("double", "D102", WordType.DINT): -70_000,
    SlmpTag("swapped", "D104", WordType.UDINT, order=WordOrder.HIGH_FIRST): 0x0001_0002,
    SlmpTag("real", "W1A", WordType.REAL): 72.5,
    SlmpTag("long", "R0", WordType.LREAL): 0.5,
    SlmpTag("text", "D200", WordType.TEXT, words=4): "MILL-7",
    SlmpTag("clock", "SD210", WordType.UINT): 0x2611,
    SlmpTag("always", "SM400"): True,
    SlmpTag("error", "SD0", WordType.UINT): 0,
}
KEPT = {"clock", "always", "error"}


def cpu() -> MelsecCpu:
    words = {
        ("TN", 5): 120,
        ("D", 100): 0xFFFE,
        ("D", 102): -70_000 & 0xFFFF,
        ("D", 103): -70_000 >> 16 & 0xFFFF,
        ("D", 104): 1,
        ("D", 105): 2,
        ("W", 0x1B): 0x4291,
        ("R", 3): 0x3FE0,
        ("SD", 210): 0x2611,
    }
    words |= {("D", 200 + at): int.from_bytes(b"MILL-7\0\0"[2 * at : 2 * at + 2], "little") for at in range(4)}
    bits = {("X", 0x1F): True, ("X", 0x10): True, ("TS", 5): True, ("Y", 0): True, ("Y", 16): True, ("SM", 400): True}
    return MelsecCpu(words, bits)


@pytest.mark.parametrize("code", list(DataCode))
@pytest.mark.parametrize("with_serial", [False, True])
async def test_bits_words_double_words_reals_and_text(code: DataCode, with_serial: bool) -> None:
    plc_cpu = cpu()
    async with running(Protocol.SLMP, plc_cpu.answer) as plc:
        client = SlmpClient(
            "127.0.0.1", plc.port, series=Series.Q, data_code=code, with_serial=with_serial, deadline_s=5.0
        )
        connector = SlmpConnector(client, tuple(TAGS))
        await connector.connect()
        found = {sample.tag: (sample.value, sample.status) for sample in await connector.read()}
        plc_cpu.words["SD", 203] = 0x12
        stopped = {sample.tag: sample.status for sample in await connector.read()}
        await connector.close()
    assert found == {tag.name: (value, GOOD) for tag, value in TAGS.items()}
    assert stopped == {tag.name: GOOD if tag.name in KEPT else BAD_OUT_OF_SERVICE for tag in TAGS}


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        (SlmpTag("a", "D3"), "bit-device"),
        (SlmpTag("a", "X0", WordType.TEXT, words=2), "bit-device"),
        (SlmpTag("a", "D3", WordType.TEXT), "text-length"),
        (SlmpTag("a", "XG", WordType.UINT), "device-name"),
        (SlmpTag("a", "M1F"), "device-radix"),
    ],
)
def test_a_tag_that_no_device_fits_is_refused_before_anything_is_asked(tag: SlmpTag, code: str) -> None:
    with pytest.raises(SlmpError, match=code):
        SlmpConnector(SlmpClient("127.0.0.1", 1, series=Series.Q), (tag,))
