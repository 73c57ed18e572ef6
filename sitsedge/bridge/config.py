"""The bridge's configuration file: which server, which tags, how one sample is made of them, and where it goes.

No secrets: the private key is named by its path. The file is JSON or YAML; ``sitsctl deploy`` writes it from the
deployment file.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fieldbus.uadp import BuiltinType, DataSetLayout, PublisherId, PublisherIdType
from sitsedge.config.strict import FIELDS_MAX, FieldName, Milliseconds, Port, Strict

UInt16 = Annotated[int, Field(ge=0, le=65535)]

ITEM_QUEUE_MAX = 1000
"""Values a server may be asked to keep per tag between two publishes: ten seconds at 100 Hz."""

TRIGGER = "(trigger)"
"""Name of a trigger that is no tag; no tag can be called so."""


class BridgeTag(Strict):
    """A subscribed variable. ``path``: browse path below Objects, every element in the configured namespace."""

    name: FieldName
    path: Annotated[str, Field(min_length=1, max_length=255)]


class SameTimestamp(Strict):
    """One sample per source timestamp, made when every tag has a value with exactly that timestamp.

    For servers that notify every tag each cycle. By default an OPC UA server says nothing about a tag whose value
    and status are what they were (OPC 10000-4, 7.22.2, trigger StatusValue); such a cycle is never complete.
    """

    policy: Literal["same-timestamp"] = "same-timestamp"


class OnTrigger(Strict):
    """One sample per new source timestamp of the variable at ``path``, with the latest value of each tag.

    ``path`` may be one of the tags' or another one: a row or cycle counter that the source writes last. A tag
    without news counts as unchanged while the connection lives, as the subscription promises; with ``skew_ms_max``
    a tag whose source timestamp differs by more from the trigger's makes the sample stale instead.
    """

    policy: Literal["trigger"]
    path: Annotated[str, Field(min_length=1, max_length=255)]
    skew_ms_max: Milliseconds | None = None


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
    """A whole bridge file, version 1. Paths are relative to the configuration file unless absolute.

    ``item_queue``: values the server keeps per tag between two publishes: room for a source faster than the
    publishing interval, and for a client that was held up. All tags get the same, and a trigger changes at least as
    often as any tag: when queues overflow, whole samples are lost, and no sample gets an older value than its own.

    ``source_age_ms_max``: a sample older than this is not forwarded (servers deliver what they kept during an
    outage as one burst).
    """

    version: Literal[1]
    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+(:\d+)?(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    certificate: str
    private_key: str
    server_certificate: str
    tags: Annotated[list[BridgeTag], Field(min_length=1, max_length=FIELDS_MAX)]
    alignment: Annotated[SameTimestamp | OnTrigger, Field(discriminator="policy")] = SameTimestamp()
    publishing_interval_ms: Milliseconds = 10.0
    item_queue: Annotated[int, Field(ge=1, le=ITEM_QUEUE_MAX)] = ITEM_QUEUE_MAX
    source_age_ms_max: Milliseconds
    future_ms_max: Milliseconds = 1000.0
    send_to: Loopback
    deadline_ms: Milliseconds = 2000.0
    reconnect_ms_max: Milliseconds = 5000.0
    run_dir: str
    log_dir: str | None = None

    @model_validator(mode="after")
    def _tags(self) -> BridgeConfig:
        names = [tag.name for tag in self.tags]
        if len(set(names)) != len(names):
            raise ValueError("each tag name once")
        return self

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Names in the order of the DataSet's fields."""
        return tuple(tag.name for tag in self.tags)

    @property
    def trigger(self) -> str | None:
        """Name under which the trigger is subscribed: a tag's own where it is one, else ``TRIGGER``."""
        if not isinstance(self.alignment, OnTrigger):
            return None
        path = self.alignment.path
        return next((tag.name for tag in self.tags if tag.path == path), TRIGGER)

    @property
    def paths(self) -> dict[str, str]:
        """Everything to subscribe to: name → browse path."""
        paths = {tag.name: tag.path for tag in self.tags}
        if isinstance(self.alignment, OnTrigger) and self.trigger == TRIGGER:
            paths[TRIGGER] = self.alignment.path
        return paths

    def layout(self) -> DataSetLayout:
        """The DataSet that is sent: every tag a Double, in order."""
        to = self.send_to
        return DataSetLayout(
            PublisherId(PublisherIdType.UINT16, to.publisher_id),
            to.writer_group_id,
            to.data_set_writer_id,
            tuple((name, BuiltinType.DOUBLE) for name in self.tag_names),
        )
