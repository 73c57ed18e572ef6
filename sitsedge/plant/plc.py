"""The PLC's OPC UA server: who may write what, and how a write becomes a request image.

``fieldbus.opcua.secure_server`` decides who may connect. Here a Write service call is taken over as a whole or
refused as a whole:

1. every node is a writable one, attribute Value, no index range;
2. the certificate of the client's secure channel has the node's role;
3. every value is a scalar of the node's exact type with good status;
4. every number is finite.

asyncua's server by itself accepts NaN and arrays in scalars.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asyncua import ua
from asyncua.common.callback import CallbackType
from asyncua.crypto.permission_rules import User, UserRole
from asyncua.ua.uaerrors import (
    BadIndexRangeInvalid,
    BadNotWritable,
    BadOutOfRange,
    BadTypeMismatch,
    BadUserAccessDenied,
)
from cryptography import x509

from fieldbus.opcua import CertificateError, TrustList, load_identity, secure_server
from sitsedge.plant.arbiter import Applied, BlockMode, RequestImage
from sitsedge.plant.errors import PlantError
from sitsedge.plant.nodes import NAMESPACE, NODES, ROOT, NodeSpec, Role
from sitsedge.plant.parameters import MillParameters
from sitsedge.plant.stand import Measured

STATUS_PERIOD_S = 0.1
HEARTBEAT_SCANS = 50  # one count of Status/Heartbeat: 100 ms of PLC scans


@dataclass(frozen=True, slots=True)
class PlcSecurity:
    """The server's own certificate and key, and folders of trusted client certificates.

    ``trusted`` may connect and read; of these, the ones also in ``operator`` may write operator nodes and
    the ones also in ``gate`` (all others of ``trusted`` where it is ``None``) may write the request block.
    """

    certificate: Path
    private_key: Path
    trusted: Path
    gate: Path | None = None
    operator: Path | None = None


class PlcUser(User):  # type: ignore[misc]
    """A session's user with its role at this PLC."""

    plc_role: Role | None = None


class _Roles:
    """Asks the secure server's user manager first, then adds the role of the channel's certificate."""

    def __init__(self, inner: Any, security: PlcSecurity) -> None:
        self._inner = inner
        self._gate = None if security.gate is None else TrustList(security.gate)
        self._operator = None if security.operator is None else TrustList(security.operator)

    def get_user(
        self, iserver: Any, username: str | None = None, password: str | None = None, certificate: Any = None
    ) -> Any:
        """The user, or ``None`` to refuse the session."""
        user = self._inner.get_user(iserver, username=username, password=password, certificate=certificate)
        if user is None:
            return None
        known = PlcUser(role=UserRole.User, name=user.name)
        known.plc_role = self._role(x509.load_der_x509_certificate(certificate))
        return known

    def _role(self, certificate: x509.Certificate) -> Role | None:
        if self._operator is not None and _lists(self._operator, certificate):
            return Role.OPERATOR
        if self._gate is None or _lists(self._gate, certificate):
            return Role.GATE
        return None


def _lists(trust: TrustList, certificate: x509.Certificate) -> bool:
    try:
        trust.check(certificate, label="the client certificate")
    except CertificateError:
        return False
    return True


class PlcServer:
    """Serves :data:`NODES`; ``on_request`` gets a new request image after every accepted write."""

    def __init__(self, endpoint: str, security: PlcSecurity, on_request: Callable[[RequestImage], None]) -> None:
        self._endpoint = endpoint
        self._security = security
        self._on_request = on_request
        self._specs: dict[Any, NodeSpec] = {}
        self._ids: dict[str, Any] = {}
        self._values: dict[str, Any] = {spec.key: spec.initial for spec in NODES}
        self._server: Any = None
        self.writes = 0
        self.refused_writes = 0

    async def start(self) -> None:
        """Build the address space and listen. Raises CertificateError, PlantError ``plc-listen``."""
        s = self._security
        server = await secure_server(
            self._endpoint,
            identity=load_identity(s.certificate, s.private_key),
            trusted=TrustList(s.trusted),
            name="SITS Edge simulated PLC",
        )
        server.iserver.user_manager = _Roles(server.iserver.user_manager, s)
        await self._build(server)
        server.subscribe_server_callback(CallbackType.PreWrite, self._before_write)
        server.subscribe_server_callback(CallbackType.PostWrite, self._after_write)
        try:
            await server.start()
        except OSError as error:
            raise PlantError(
                "plc-listen",
                found=f"{self._endpoint}: {error.strerror}",
                expected="a free address",
                hint="is another plant running?",
            ) from error
        self._server = server

    async def stop(self) -> None:
        """Close all sessions and stop listening."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def mirror(self, applied: Applied) -> None:
        """Show the applied image; only what changed is written, so that subscribers see changes only."""
        await self._show("Applied/GapCorrection", applied.gap_correction_mm)
        await self._show("Applied/SpeedTrim", applied.speed_trim_percent)
        await self._show("Mode/AutoActive", applied.mode is BlockMode.AUTO)
        await self._show("Status/BlockMode", applied.mode.value)
        await self._show("Status/WatchdogTripped", applied.watchdog_tripped)
        await self._show("Status/LastRefusal", applied.refused.value)
        await self._show("Status/RefusedCount", applied.refused_count)
        await self._show("Status/ClampedCount", applied.clamped_count)
        await self._show("Status/TripCount", applied.trip_count)
        # Last, because a reader that waits for the sequence must find the values already there.
        await self._show("Applied/Sequence", applied.sequence)

    async def show_status(self, measured: Measured, scans: int) -> None:
        """Heartbeat and process values for an operator panel."""
        await self._show("Status/Heartbeat", scans // HEARTBEAT_SCANS % 2**32)
        await self._show("Status/ExitThickness", MillParameters().exit_mm + measured.exit_thickness_dev)
        await self._show("Status/RollForceDev", measured.roll_force_dev)
        await self._show("Status/GapPositionDev", measured.gap_position_dev)

    async def _build(self, server: Any) -> None:
        index = await server.register_namespace(NAMESPACE)
        root = await server.nodes.objects.add_object(ua.NodeId(ROOT, index), ua.QualifiedName(ROOT, index))
        folders: dict[str, Any] = {}
        for spec in NODES:
            if spec.folder not in folders:
                folders[spec.folder] = await root.add_folder(
                    ua.NodeId(f"{ROOT}.{spec.folder}", index), ua.QualifiedName(spec.folder, index)
                )
            node = await folders[spec.folder].add_variable(
                ua.NodeId(spec.path.replace("/", "."), index),
                ua.QualifiedName(spec.name, index),
                ua.Variant(spec.initial, spec.type),
                datatype=ua.NodeId(spec.type.value),
            )
            if spec.writer is not None:
                await node.set_writable(True)
            self._specs[node.nodeid] = spec
            self._ids[spec.key] = node.nodeid

    def _before_write(self, event: Any, _: object) -> None:
        """Raise for the first rule broken; asyncua turns it into a ServiceFault and writes nothing."""
        if not event.is_external:
            return
        try:
            for item in event.request_params.NodesToWrite:
                self._check(item, event.user)
        except ua.UaError:
            self.refused_writes += 1
            raise

    def _check(self, item: Any, user: Any) -> None:
        spec = self._specs.get(item.NodeId)
        if spec is None or spec.writer is None or item.AttributeId != ua.AttributeIds.Value:
            raise BadNotWritable
        if not isinstance(user, PlcUser) or user.plc_role is not spec.writer:
            raise BadUserAccessDenied
        if item.IndexRange:
            raise BadIndexRangeInvalid
        data, variant = item.Value, item.Value.Value
        if data.StatusCode is not None and not data.StatusCode.is_good():
            raise BadTypeMismatch
        if variant is None or variant.VariantType is not spec.type or variant.is_array or variant.Dimensions:
            raise BadTypeMismatch
        if variant.Value is None or isinstance(variant.Value, list):
            raise BadTypeMismatch
        if isinstance(variant.Value, float) and not math.isfinite(variant.Value):
            raise BadOutOfRange

    def _after_write(self, event: Any, _: object) -> None:
        if not event.is_external:
            return
        for item, result in zip(event.request_params.NodesToWrite, event.response_params, strict=True):
            spec = self._specs.get(item.NodeId)
            if spec is not None and result.is_good():
                self._values[spec.key] = item.Value.Value.Value
        self.writes += 1
        v = self._values
        self._on_request(
            RequestImage(
                gap_correction_mm=v["Request/GapCorrection"],
                speed_trim_percent=v["Request/SpeedTrim"],
                sequence=v["Request/Sequence"],
                heartbeat=v["Request/Heartbeat"],
                valid_until_ns=v["Request/ValidUntil"],
                auto_request=v["Mode/AutoRequest"],
                manual_selected=v["Mode/ManualSelected"],
            )
        )

    async def _show(self, key: str, value: bool | int | float | str) -> None:
        if self._values[key] == value or self._server is None:
            return
        self._values[key] = value
        node_id = self._ids[key]
        stamp = datetime.now(UTC)
        data = ua.DataValue(ua.Variant(value, self._specs[node_id].type), SourceTimestamp=stamp, ServerTimestamp=stamp)
        await self._server.iserver.aspace.write_attribute_value(node_id, ua.AttributeIds.Value, data)


async def mirror_forever(plc: PlcServer, *, changed: asyncio.Event, applied: Callable[[], Applied]) -> None:
    """Show every change of the applied image as soon as the event loop runs."""
    while True:
        await changed.wait()
        changed.clear()
        await plc.mirror(applied())
