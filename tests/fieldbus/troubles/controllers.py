"""One small controller of each vendor with two tags, and the connector that polls them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fieldbus.capture import Protocol
from fieldbus.cip.client import CipClient
from fieldbus.cip.connector import CipConnector, CipTag
from fieldbus.polling import Connector
from fieldbus.s7.client import S7Client
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.s7.layout import BlockLayout, Member
from fieldbus.s7.values import DataType, TypeSpec
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Series
from fieldbus.slmp.values import WordType
from tests.fieldbus.vendor_cpus import LogixController, MelsecCpu, S7Cpu

LAYOUT = BlockLayout(
    1, "State", 64, (Member("Level", 0, 0, TypeSpec(DataType.DINT)), Member("Other", 40, 0, TypeSpec(DataType.DINT)))
)


@dataclass(frozen=True)
class Vendor:
    """``lose`` takes the object of the tag ``level`` away, ``restore`` brings it back."""

    protocol: Protocol
    controller: Callable[[], Any]
    connector: Callable[[int, float], Connector]
    lose: Callable[[Any], None]
    restore: Callable[[Any], None]


def _s7(port: int, deadline_s: float) -> Connector:
    tags = (S7Tag("level", "Level", "m"), S7Tag("other", "Other"))
    return S7Connector(S7Client("127.0.0.1", port, deadline_s=deadline_s), LAYOUT, tags)


def _cip(port: int, deadline_s: float) -> Connector:
    tags = (CipTag("level", "Level", "DINT", "m"), CipTag("other", "Other", "DINT"))
    return CipConnector(CipClient("127.0.0.1", port, deadline_s=deadline_s), tags)


def _slmp(port: int, deadline_s: float) -> Connector:
    tags = (SlmpTag("level", "D1000", WordType.DINT, "m"), SlmpTag("other", "D2000", WordType.DINT))
    return SlmpConnector(SlmpClient("127.0.0.1", port, series=Series.Q, deadline_s=deadline_s), tags)


def _logix() -> LogixController:
    return LogixController({name: b"\xc4\0" + struct.pack("<i", 7) for name in ("Level", "Other")})


VENDORS = {
    "s7": Vendor(Protocol.S7, S7Cpu, _s7, lambda cpu: cpu.codes.update({0: 0x0A}), lambda cpu: cpu.codes.clear()),
    "cip": Vendor(
        Protocol.CIP,
        _logix,
        _cip,
        lambda plc: plc.tags.pop("Level"),
        lambda plc: plc.tags.update(Level=b"\xc4\0\x08\0\0\0"),
    ),
    "slmp": Vendor(
        Protocol.SLMP,
        MelsecCpu,
        _slmp,
        lambda cpu: cpu.refused.update({1_000: 0xC056}),
        lambda cpu: cpu.refused.clear(),
    ),
}
