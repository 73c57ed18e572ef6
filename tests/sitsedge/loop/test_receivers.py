"""Where a deployment's frames come in: UDP from chosen senders, or Ethernet with a tag."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from fieldbus.net import EthernetReceiver, EthernetSender, UdpReceiver, UdpSender, VlanTag
from fieldbus.uadp import LayoutWriter
from sitsedge.config import Deployment, load_deployment
from sitsedge.config.sources import UadpEthernetSource, UadpSource
from sitsedge.loop.ingest import Ingest, layout_of, open_receiver
from tests.support.namespaces import Namespace

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rolling-mill" / "deployment.yaml"
GROUP = "01:00:5e:00:00:01"


def identity(deployment: Deployment) -> dict[str, object]:
    source = deployment.source
    assert isinstance(source, UadpSource)
    names = ("publisher_id", "writer_group_id", "data_set_writer_id", "fields")
    return {name: getattr(source, name) for name in names}


def with_source(source: UadpSource | UadpEthernetSource) -> Deployment:
    return load_deployment(EXAMPLE).model_copy(update={"source": source, "simulation": None})


def ethernet(**changes: object) -> UadpEthernetSource:
    given: dict[str, object] = {"protocol": "uadp-ethernet", "interface": "v1", "group": GROUP, "vlan_id": 5}
    return UadpEthernetSource.model_validate({**identity(load_deployment(EXAMPLE)), **given, **changes})


def test_a_tagged_ethernet_frame_is_a_sample_of_the_loop() -> None:
    deployment = with_source(ethernet())
    data = LayoutWriter(layout_of(deployment)).write(
        t_source_ns=time.time_ns(), values=(1.0,) * len(deployment.field_names), status=0
    )
    with Namespace() as network:
        network.veth()
        with network.run(lambda: open_receiver(deployment)) as receiver:
            assert isinstance(receiver, EthernetReceiver)
            for tag in (VlanTag(6, 0), VlanTag(5, 6)):
                with network.run(lambda tag=tag: EthernetSender("v0", GROUP, vlans=(tag,))) as sender:  # type: ignore[misc]
                    sender.send(data)
            frame = receiver.receive(5.0)
            assert frame is not None
            assert receiver.counts.foreign == 1
    sample = Ingest(deployment).decode(frame)
    assert sample.values == (1.0,) * len(deployment.field_names)
    assert frame.vlan == VlanTag(5, 6)


def test_udp_from_chosen_senders_alone() -> None:
    known = UadpSource.model_validate(
        {
            **identity(load_deployment(EXAMPLE)),
            "protocol": "uadp-udp",
            "address": "127.0.0.1",
            "port": 14_999,
            "sources": ["127.0.0.2"],
        }
    )
    with open_receiver(with_source(known)) as receiver:
        assert isinstance(receiver, UdpReceiver)
        for source in ("127.0.0.3", "127.0.0.2"):
            with UdpSender(*receiver.address, bind_address=source) as sender:
                sender.send(source.encode())
        frame = receiver.receive(5.0)
    assert frame is not None
    assert frame.data == b"127.0.0.2"


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "02:00:00:00:00:01"},
        {"group": "01:00:5E:00:00:01"},
        {"group": "nonsense"},
        {"vlan_id": 4096},
        {"interface": ""},
        {"interface": "a/b"},
        {"interface": "sixteen-letters-"},
        {"sources": []},
        {"sources": ["1.2.3.4"]},
    ],
)
def test_a_source_on_ethernet_is_checked(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ethernet(**changes)


def test_the_simulated_plant_and_a_source_on_ethernet_do_not_go_together() -> None:
    loaded = load_deployment(EXAMPLE)
    given = {**loaded.model_dump(), "source": ethernet().model_dump()}
    with pytest.raises(ValidationError, match="only with a 'uadp-udp' source"):
        Deployment.model_validate(given)
