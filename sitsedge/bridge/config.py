"""The bridge's configuration file: which stations, how one sample is made of their values, and where it goes.

No secrets: keys are named by their paths. The file is JSON or YAML; ``sitsctl deploy`` writes it from the deployment
file.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from fieldbus.uadp import BuiltinType, DataSetLayout, PublisherId, PublisherIdType
from sitsedge.config.sources import STATIONS_MAX
from sitsedge.config.stations import OpcUaStation, Station, StationName
from sitsedge.config.strict import FIELDS_MAX, FieldName, Milliseconds, Port, Strict

UInt16 = Annotated[int, Field(ge=0, le=65535)]


class Loopback(Strict):
    """Where the datagrams go and the identifiers they carry; the defaults are those the loop expects of the bridge."""

    address: str = "127.0.0.1"
    port: Port
    publisher_id: UInt16 = 1
    writer_group_id: UInt16 = 1
    data_set_writer_id: Annotated[int, Field(ge=1, le=65535)] = 1

    @field_validator("address")
    @classmethod
    def _loopback(cls, address: str) -> str:
        try:
            local = ipaddress.IPv4Address(address).is_loopback
        except ValueError:
            local = False
        if not local:
            # The datagrams are neither signed nor encrypted, so they must not leave the machine.
            raise ValueError("a loopback address, 127.0.0.0/8")
        return address


class BridgeConfig(Strict):
    """A whole bridge file, version 2. Paths are relative to the configuration file unless absolute.

    ``trigger``: the station whose samples make samples of the whole. ``skew_ms_max``: by how much the time of another
    station's values may differ from the trigger's. ``order``: the tags as the DataSet has them. ``certificate`` and
    ``private_key``: this client's, where a station speaks OPC UA.

    ``source_age_ms_max``: a sample older than this is not forwarded (servers deliver what they kept during an
    outage as one burst), nor one that is ahead by more than ``future_ms_max`` (at least a second). It is also the claim
    that stations are held to: a server whose revised interval, or a controller whose poll, takes longer cannot keep it.
    """

    version: Annotated[int, Field(ge=2, le=2)]
    stations: Annotated[list[Station], Field(min_length=1, max_length=STATIONS_MAX)]
    trigger: StationName
    skew_ms_max: Milliseconds | None = None
    order: Annotated[list[FieldName], Field(min_length=1, max_length=FIELDS_MAX)]
    certificate: str | None = None
    private_key: str | None = None
    source_age_ms_max: Milliseconds
    future_ms_max: Milliseconds = 1000.0
    poll_ms: Milliseconds
    send_to: Loopback
    run_dir: str
    log_dir: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> BridgeConfig:
        names = [station.name for station in self.stations]
        if len(set(names)) != len(names) or self.trigger not in names:
            raise ValueError("each station's name once, and one of them as 'trigger'")
        tags = [tag.name for station in self.stations for tag in station.tags]
        if sorted(tags) != sorted(self.order) or len(set(tags)) != len(tags):
            raise ValueError("each tag name once, and all of them in 'order'")
        if len(names) > 1 and self.skew_ms_max is None:
            raise ValueError("'skew_ms_max' where there are several stations")
        if len({station.renew for station in self.stations if isinstance(station, OpcUaStation)}) > 1:
            raise ValueError("'renew' the same at every OPC UA station: they know this client by one certificate")
        for station in self.stations:
            pinned = isinstance(station, OpcUaStation) and station.server_certificate is None
            if isinstance(station, OpcUaStation) and (pinned or self.certificate is None or self.private_key is None):
                raise ValueError("'certificate', 'private_key' and the 'server_certificate' of each OPC UA station")
            if isinstance(station, OpcUaStation) and station.renew and not self._renewable:
                raise ValueError("'renew' only for files NAME.der and NAME.key.pem in one folder")
        return self

    @property
    def _renewable(self) -> bool:
        certificate, key = Path(self.certificate or ""), Path(self.private_key or "")
        return certificate.suffix == ".der" and key == certificate.with_name(f"{certificate.stem}.key.pem")

    def layout(self) -> DataSetLayout:
        """The DataSet that is sent: every tag a Double, in order."""
        to = self.send_to
        return DataSetLayout(
            PublisherId(PublisherIdType.UINT16, to.publisher_id),
            to.writer_group_id,
            to.data_set_writer_id,
            tuple((name, BuiltinType.DOUBLE) for name in self.order),
        )
