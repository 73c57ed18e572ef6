"""The PLC's server against real clients: what is taken over, what is refused and by which status."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from asyncua import ua

from fieldbus.opcua import CertificateError, Identity, OpcUaError, SecureClient, TrustList, create_identity
from sitsedge.plant.arbiter import Arbiter, RequestImage
from sitsedge.plant.nodes import NAMESPACE, NODES
from sitsedge.plant.plc import PlcSecurity, PlcServer
from sitsedge.plant.stand import MillStand

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Site:
    """Certificates of one plant: the PLC's, and clients in different folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plc = create_identity(root, "plc", application_uri="urn:test:plc", hosts=["127.0.0.1"])
        self.clients = {
            name: create_identity(root, name, application_uri=f"urn:test:{name}")
            for name in ("gate", "operator", "watcher", "stranger")
        }
        for folder, names in (
            ("trusted", ("gate", "operator", "watcher")),
            ("gates", ("gate",)),
            ("operators", ("operator",)),
        ):
            for name in names:
                TrustList(root / folder).add(self.clients[name].certificate)

    @property
    def security(self) -> PlcSecurity:
        r = self.root
        return PlcSecurity(self.plc.certificate_path, self.plc.key_path, r / "trusted", r / "gates", r / "operators")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("pki"))


class Bench:
    """A listening PLC and the images it handed on."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.images: list[RequestImage] = []
        self.url = f"opc.tcp://127.0.0.1:{free_port()}/plc"
        self.plc = PlcServer(self.url, site.security, self.images.append)

    @contextlib.asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[SecureClient]:
        identity: Identity = self.site.clients[name]
        client = SecureClient(
            self.url,
            identity=identity,
            server_certificate=self.site.plc.certificate_path,
            namespace_uri=NAMESPACE,
            tags={spec.key: spec.path for spec in NODES},
            deadline_s=10.0,
        )
        async with client:
            yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listening(site: Site) -> AsyncIterator[Bench]:
    """One server for all tests here: building its address space takes seconds."""
    bench = Bench(site)
    await bench.plc.start()
    yield bench
    await bench.plc.stop()


@pytest.fixture
def bench(listening: Bench) -> Bench:
    """The server with its journal empty."""
    listening.images.clear()
    listening.plc.refused_writes = 0
    return listening


async def raw_write(client: SecureClient, key: str, variant: ua.Variant, **fields: Any) -> None:
    """A Write call that a well-meaning client would not make."""
    item = ua.WriteValue()
    item.NodeId = client._connection.nodes[key].node_id
    item.AttributeId = fields.pop("attribute", ua.AttributeIds.Value)
    item.IndexRange = fields.pop("index_range", None)
    item.Value = ua.DataValue(variant, **fields)
    good = ua.WriteValue()
    good.NodeId = client._connection.nodes["Request/Sequence"].node_id
    good.AttributeId = ua.AttributeIds.Value
    good.Value = ua.DataValue(ua.Variant(99, ua.VariantType.UInt64))
    params = ua.WriteParameters()
    params.NodesToWrite = [good, item]
    await client._connection.client.uaclient.session.write(params)


REQUEST = {
    "Request/GapCorrection": 0.05, "Request/SpeedTrim": -0.1, "Request/Sequence": 2**40, "Request/Heartbeat": 7,
    "Request/ValidUntil": 123, "Mode/AutoRequest": True,
}  # fmt: skip


async def test_one_write_call_becomes_one_image(bench: Bench) -> None:
    async with bench.client("gate") as gate:
        results = await gate.write_many(REQUEST)
        assert all(result.good for result in results)
    assert bench.images == [RequestImage(0.05, -0.1, 2**40, 7, 123, auto_request=True)]  # and not six


async def test_node_types_are_those_of_the_table(bench: Bench) -> None:
    async with bench.client("watcher") as watcher:
        for spec in NODES:
            assert watcher._connection.nodes[spec.key].variant_type is spec.type
        results = await watcher.read_many([spec.key for spec in NODES])
        assert [type(result.value) for result in results] == [type(spec.initial) for spec in NODES]


async def test_applied_image_is_readable(bench: Bench) -> None:
    arbiter = Arbiter()
    image = RequestImage(0.01, 0.02, 5, 1, auto_request=True)
    for _ in range(20):
        applied = arbiter.scan(image, 0)
    stand = MillStand(1)
    stand.step(0.0, 0.0)
    async with bench.client("watcher") as watcher:
        await bench.plc.mirror(applied)
        await bench.plc.show_status(stand.measured(), applied.scans + 100)
        keys = ["Applied/GapCorrection", "Applied/SpeedTrim", "Applied/Sequence", "Mode/AutoActive",
                "Status/BlockMode", "Status/Heartbeat"]  # fmt: skip
        values = [result.value for result in await watcher.read_many(keys)]
    assert values == [0.01, 0.02, 5, True, "AUTO", 2]


DOUBLE, U64, BOOL = ua.VariantType.Double, ua.VariantType.UInt64, ua.VariantType.Boolean
BAD_WRITES = {
    "nan": ("Request/GapCorrection", ua.Variant(float("nan"), DOUBLE), {}, "BadOutOfRange"),
    "inf": ("Request/SpeedTrim", ua.Variant(float("inf"), DOUBLE), {}, "BadOutOfRange"),
    "float-for-double": ("Request/GapCorrection", ua.Variant(0.1, ua.VariantType.Float), {}, "BadTypeMismatch"),
    "integer-for-double": ("Request/GapCorrection", ua.Variant(1, U64), {}, "BadTypeMismatch"),
    "array": ("Request/GapCorrection", ua.Variant([0.1, 0.2], DOUBLE), {}, "BadTypeMismatch"),
    "null": ("Request/GapCorrection", ua.Variant(None, ua.VariantType.Null), {}, "BadTypeMismatch"),
    "bad-status": (
        "Request/GapCorrection", ua.Variant(0.1, DOUBLE),
        {"StatusCode": ua.StatusCode(ua.StatusCodes.BadSensorFailure)}, "BadTypeMismatch",
    ),
    "index-range": ("Request/GapCorrection", ua.Variant(0.1, DOUBLE), {"index_range": "0"}, "BadIndexRangeInvalid"),
    "other-attribute": (
        "Request/GapCorrection", ua.Variant(0.1, DOUBLE),
        {"attribute": ua.AttributeIds.Historizing}, "BadNotWritable",
    ),
    "read-only-node": ("Applied/GapCorrection", ua.Variant(0.1, DOUBLE), {}, "BadNotWritable"),
    "operators-node": ("Mode/ManualSelected", ua.Variant(True, BOOL), {}, "BadUserAccessDenied"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_WRITES)
async def test_bad_write_is_refused_whole(bench: Bench, name: str) -> None:
    key, variant, fields, status = BAD_WRITES[name]
    async with bench.client("gate") as gate:
        with pytest.raises(ua.UaStatusCodeError) as caught:
            await raw_write(gate, key, variant, **fields)
        assert ua.StatusCode(caught.value.code).name == status
        (sequence,) = await gate.read_many(["Request/Sequence"])
        assert sequence.value != 99  # the good half of the call was not taken either
    assert bench.images == []
    assert bench.plc.refused_writes == 1


async def test_only_the_operator_selects_manual(bench: Bench) -> None:
    async with bench.client("operator") as operator:
        await operator.write_many({"Mode/ManualSelected": True})
        await operator.write_many({"Mode/ManualSelected": False})
        with pytest.raises(OpcUaError) as caught:
            await operator.write_many({"Request/GapCorrection": 0.1})
        assert caught.value.code == "access-denied"
    assert [image.manual_selected for image in bench.images] == [True, False]


async def test_watcher_writes_nothing(bench: Bench) -> None:
    async with bench.client("watcher") as watcher:
        with pytest.raises(OpcUaError) as caught:
            await watcher.write_many({"Request/Heartbeat": 1})
        assert caught.value.code == "access-denied"
    assert bench.images == []


async def test_stranger_does_not_get_in(bench: Bench) -> None:
    with pytest.raises(OpcUaError):
        async with bench.client("stranger"):
            pass
    assert bench.images == []


async def test_expired_server_certificate_is_refused_at_start(tmp_path: Path, site: Site) -> None:
    start = dt.datetime.now(dt.UTC) - dt.timedelta(days=10)
    old = create_identity(tmp_path, "old", application_uri="urn:test:old", days=5, not_before=start)
    security = PlcSecurity(old.certificate_path, old.key_path, site.root / "trusted")
    with pytest.raises(CertificateError, match="certificate-expired"):
        await PlcServer("opc.tcp://127.0.0.1:1/plc", security, lambda _: None).start()
