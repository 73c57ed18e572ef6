"""The OPC UA server of a replay: one AnalogItem per column, plus what is being played, under one namespace.

Every value of a row carries the same source timestamp: the instant it was played, to the microsecond, strictly
later than the row before. ``Replay/Row`` counts the rows played and is written last: the trigger for subscribers.
A cell without a number is published as a bad status with no value at all.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from pathlib import Path
from typing import Any

from asyncua import ua
from asyncua.common.callback import CallbackType

from fieldbus.opcua import TrustList, load_identity, secure_server
from sitsedge.replay.config import ReplayConfig
from sitsedge.replay.errors import ReplayError
from sitsedge.replay.recording import BadCell, Cell, Row

REPLAY_FOLDER = "Replay"
"""Folder of the nodes that describe the replay itself; no column may be played into it."""

_STATUS = {
    BadCell.MISSING: ua.StatusCodes.BadNoData,
    BadCell.NOT_A_NUMBER: ua.StatusCodes.BadSensorFailure,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NS_PER_US = 1_000


class ReplayServer:
    """Serves the columns of ``config``; paths in it are relative to ``base``."""

    def __init__(self, config: ReplayConfig, base: Path) -> None:
        if any(column.path.split("/")[0] == REPLAY_FOLDER for column in config.columns):
            raise ReplayError(
                "path", found=f"a column below {REPLAY_FOLDER!r}", expected="another folder", hint="it is reserved"
            )
        self._config = config
        self._base = base
        self._server: Any = None
        self._nodes: list[Any] = []
        self._about: dict[str, Any] = {}
        self._last_us = 0
        self._played = 0
        self._monitored: set[Any] = set()
        self.subscribed = asyncio.Event()
        """Set once every column has been put under subscription by a client."""

    async def start(self) -> None:
        """Build the address space and listen. Raises CertificateError, ReplayError ``listen``."""
        config = self._config
        server = await secure_server(
            config.endpoint,
            identity=load_identity(self._base / config.certificate, self._base / config.private_key),
            trusted=TrustList(self._base / config.trusted),
            name="SITS Edge replay",
        )
        await self._build(server)
        server.subscribe_server_callback(CallbackType.ItemSubscriptionCreated, self._on_items)
        try:
            await server.start()
        except OSError as error:
            raise ReplayError(
                "listen",
                found=f"{config.endpoint}: {error.strerror}",
                expected="a free address",
                hint="is another replay or PLC using the port?",
            ) from error
        self._server = server

    async def stop(self) -> None:
        """Close all sessions and stop listening; a second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def play(self, row: Row, *, number: int, recording: str) -> int:
        """Publish one row; returns its source timestamp in Unix ns."""
        self._last_us = max(time.time_ns() // _NS_PER_US, self._last_us + 1)
        moment = _EPOCH + dt.timedelta(microseconds=self._last_us)
        await self._say("Recording", recording, ua.VariantType.String, moment)
        await self._say("RecordedTime", row.time, ua.VariantType.DateTime, moment)
        for node, cell in zip(self._nodes, row.cells, strict=True):
            await self._server.write_attribute_value(node.nodeid, _data_value(cell, moment))
        # Last, and never the same twice in a row: whoever sees it change has been told the whole row.
        self._played += 1
        await self._say("RowInRecording", number, ua.VariantType.Int64, moment)
        await self._say("Row", self._played, ua.VariantType.Int64, moment)
        return self._last_us * _NS_PER_US

    async def finish(self) -> None:
        """Tell clients that the last row has been played."""
        await self._say("Finished", True, ua.VariantType.Boolean, dt.datetime.now(dt.UTC))

    async def _say(self, name: str, value: object, kind: Any, moment: dt.datetime) -> None:
        data = ua.DataValue(ua.Variant(value, kind), SourceTimestamp=moment)
        await self._server.write_attribute_value(self._about[name].nodeid, data)

    async def _build(self, server: Any) -> None:
        index = await server.register_namespace(self._config.namespace)
        folders: dict[tuple[str, ...], Any] = {(): server.nodes.objects}
        for column in self._config.columns:
            *parents, name = column.path.split("/")
            folder = await _folder(folders, tuple(parents), index)
            waiting = ua.DataValue(
                ua.Variant(None, ua.VariantType.Null), StatusCode=ua.StatusCode(ua.StatusCodes.BadWaitingForInitialData)
            )
            node = await folder.add_variable(
                ua.NodeId(column.path.replace("/", "."), index),
                ua.QualifiedName(name, index),
                ua.Variant(0.0, ua.VariantType.Double),
                datatype=ua.NodeId(ua.ObjectIds.Double),
            )
            await server.write_attribute_value(node.nodeid, waiting)
            unit = ua.EUInformation(
                DisplayName=ua.LocalizedText(column.unit), Description=ua.LocalizedText(column.unit)
            )
            await node.add_property(0, "EURange", ua.Range(column.low, column.high))
            await node.add_property(0, "EngineeringUnits", unit)
            self._nodes.append(node)
        about = await _folder(folders, (REPLAY_FOLDER,), index)
        for name, initial, kind in (
            ("Recording", "", ua.VariantType.String),
            ("RowInRecording", 0, ua.VariantType.Int64),
            ("Row", 0, ua.VariantType.Int64),
            ("RecordedTime", dt.datetime(1601, 1, 1, tzinfo=dt.UTC), ua.VariantType.DateTime),
            ("Finished", False, ua.VariantType.Boolean),
        ):
            self._about[name] = await about.add_variable(
                ua.NodeId(f"{REPLAY_FOLDER}.{name}", index), ua.QualifiedName(name, index), ua.Variant(initial, kind)
            )

    def _on_items(self, event: Any, _: object) -> None:
        for request, result in zip(event.request_params.ItemsToCreate, event.response_params, strict=True):
            if result.StatusCode.is_good():
                self._monitored.add(request.ItemToMonitor.NodeId)
        if all(node.nodeid in self._monitored for node in self._nodes):
            self.subscribed.set()


async def _folder(folders: dict[tuple[str, ...], Any], path: tuple[str, ...], index: int) -> Any:
    if path not in folders:
        parent = await _folder(folders, path[:-1], index)
        folders[path] = await parent.add_folder(ua.NodeId(".".join(path), index), ua.QualifiedName(path[-1], index))
    return folders[path]


def _data_value(cell: Cell, moment: dt.datetime) -> Any:
    if isinstance(cell, BadCell):
        return ua.DataValue(
            ua.Variant(None, ua.VariantType.Null),
            StatusCode=ua.StatusCode(_STATUS[cell]),
            SourceTimestamp=moment,
        )
    return ua.DataValue(ua.Variant(cell, ua.VariantType.Double), SourceTimestamp=moment)
