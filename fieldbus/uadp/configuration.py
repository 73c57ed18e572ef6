"""PubSub configuration as structures (OPC 10000-14, 6.2): connections, groups, writers, readers and their settings.

Settings of mappings this package does not read (brokers, JSON) stay ExtensionObjects, byte for byte.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fieldbus.uadp.metadata import NO_GUID, NULL_VARIANT, DataSetMetaData, KeyValuePair
from fieldbus.uadp.structures import ArrayOf, Settings, structure
from fieldbus.uadp.types import BuiltinType as B
from fieldbus.uadp.types import LocalizedText, NodeId, QualifiedName, Variant

SECURITY_NONE, SECURITY_SIGN, SECURITY_SIGN_AND_ENCRYPT = 1, 2, 3
"""MessageSecurityMode (OPC 10000-4, 7.20)."""


@structure(B.STRING, B.STRING, B.LOCALIZEDTEXT, B.INT32, B.STRING, B.STRING, ArrayOf(B.STRING))
class ApplicationDescription:
    """OPC 10000-4, 7.2."""

    application_uri: str | None = None
    product_uri: str | None = None
    application_name: LocalizedText = LocalizedText()
    application_type: int = 0
    gateway_server_uri: str | None = None
    discovery_profile_uri: str | None = None
    discovery_urls: tuple[str | None, ...] = ()


@structure(B.STRING, B.INT32, B.STRING, B.STRING, B.STRING)
class UserTokenPolicy:
    """OPC 10000-4, 7.42."""

    policy_id: str | None = None
    token_type: int = 0
    issued_token_type: str | None = None
    issuer_endpoint_url: str | None = None
    security_policy_uri: str | None = None


@structure(
    B.STRING,
    ApplicationDescription,
    B.BYTESTRING,
    B.INT32,
    B.STRING,
    ArrayOf(UserTokenPolicy),
    B.STRING,
    B.BYTE,
)
class EndpointDescription:
    """OPC 10000-4, 7.14."""

    endpoint_url: str | None = None
    server: ApplicationDescription = ApplicationDescription()
    server_certificate: bytes | None = None
    security_mode: int = SECURITY_NONE
    security_policy_uri: str | None = None
    user_identity_tokens: tuple[UserTokenPolicy, ...] = ()
    transport_profile_uri: str | None = None
    security_level: int = 0


@structure(B.STRING, B.STRING, encoding=21152)
class NetworkAddressUrl:
    """6.2.7.5.3: ``opc.udp://host:port`` or ``opc.eth://mac[:vid[.pcp]]``."""

    network_interface: str | None = None
    url: str | None = None


@structure(Settings, encoding=17468)
class DatagramConnectionTransport:
    """6.4.1.1: where discovery messages go."""

    discovery_address: Any = None


@structure(B.BYTE, B.DOUBLE, encoding=21155)
class DatagramWriterGroupTransport:
    """6.4.1.2. ``message_repeat_delay`` in ms."""

    message_repeat_count: int = 0
    message_repeat_delay: float = 0.0


@structure(B.UINT32, B.INT32, B.UINT32, B.DOUBLE, ArrayOf(B.DOUBLE), encoding=15715)
class UadpWriterGroupMessage:
    """6.3.1.1. Offsets in ms within the publishing interval; ``sampling_offset`` -1 unknown."""

    group_version: int = 0
    data_set_ordering: int = 0
    network_message_content_mask: int = 0
    sampling_offset: float = -1.0
    publishing_offset: tuple[float, ...] = ()


@structure(B.UINT32, B.UINT16, B.UINT16, B.UINT16, encoding=15717)
class UadpDataSetWriterMessage:
    """6.3.1.3. ``configured_size`` and ``data_set_offset`` in bytes, 0 dynamic."""

    data_set_message_content_mask: int = 0
    configured_size: int = 0
    network_message_number: int = 0
    data_set_offset: int = 0


@structure(B.UINT32, B.UINT16, B.UINT16, B.GUID, B.UINT32, B.UINT32, B.DOUBLE, B.DOUBLE, B.DOUBLE, encoding=15718)
class UadpDataSetReaderMessage:
    """6.3.1.4. Interval and offsets in ms."""

    group_version: int = 0
    network_message_number: int = 0
    data_set_offset: int = 0
    class_id: UUID = NO_GUID
    network_message_content_mask: int = 0
    data_set_message_content_mask: int = 0
    publishing_interval: float = 0.0
    receive_offset: float = 0.0
    processing_offset: float = 0.0


@structure(B.STRING, B.BOOLEAN, B.UINT16, B.UINT32, B.UINT32, B.STRING, ArrayOf(KeyValuePair), Settings, Settings)
class DataSetWriter:
    """6.2.4.5."""

    name: str | None = None
    enabled: bool = False
    data_set_writer_id: int = 0
    field_content_mask: int = 0
    key_frame_count: int = 0
    data_set_name: str | None = None
    properties: tuple[KeyValuePair, ...] = ()
    transport_settings: Any = None
    message_settings: Any = None


@structure(
    B.STRING,
    B.BOOLEAN,
    B.INT32,
    B.STRING,
    ArrayOf(EndpointDescription),
    B.UINT32,
    ArrayOf(KeyValuePair),
    B.UINT16,
    B.DOUBLE,
    B.DOUBLE,
    B.BYTE,
    ArrayOf(B.STRING),
    B.STRING,
    Settings,
    Settings,
    ArrayOf(DataSetWriter),
)
class WriterGroup:
    """6.2.6.7. Intervals in ms; ``max_network_message_size`` in bytes, 0 unknown."""

    name: str | None = None
    enabled: bool = False
    security_mode: int = SECURITY_NONE
    security_group_id: str | None = None
    security_key_services: tuple[EndpointDescription, ...] = ()
    max_network_message_size: int = 0
    properties: tuple[KeyValuePair, ...] = ()
    writer_group_id: int = 0
    publishing_interval: float = 0.0
    keep_alive_time: float = 0.0
    priority: int = 0
    locale_ids: tuple[str | None, ...] = ()
    header_layout_uri: str | None = None
    transport_settings: Any = None
    message_settings: Any = None
    writers: tuple[DataSetWriter, ...] = ()


@structure(
    B.STRING,
    B.BOOLEAN,
    B.VARIANT,
    B.UINT16,
    B.UINT16,
    DataSetMetaData,
    B.UINT32,
    B.DOUBLE,
    B.UINT32,
    B.STRING,
    B.INT32,
    B.STRING,
    ArrayOf(EndpointDescription),
    ArrayOf(KeyValuePair),
    Settings,
    Settings,
    Settings,
)
class DataSetReader:
    """6.2.9.13. ``message_receive_timeout`` in ms."""

    name: str | None = None
    enabled: bool = False
    publisher_id: Variant = NULL_VARIANT
    writer_group_id: int = 0
    data_set_writer_id: int = 0
    metadata: DataSetMetaData = DataSetMetaData()
    field_content_mask: int = 0
    message_receive_timeout: float = 0.0
    key_frame_count: int = 0
    header_layout_uri: str | None = None
    security_mode: int = SECURITY_NONE
    security_group_id: str | None = None
    security_key_services: tuple[EndpointDescription, ...] = ()
    properties: tuple[KeyValuePair, ...] = ()
    transport_settings: Any = None
    message_settings: Any = None
    subscribed_data_set: Any = None


@structure(
    B.STRING,
    B.BOOLEAN,
    B.INT32,
    B.STRING,
    ArrayOf(EndpointDescription),
    B.UINT32,
    ArrayOf(KeyValuePair),
    Settings,
    Settings,
    ArrayOf(DataSetReader),
)
class ReaderGroup:
    """6.2.8.4."""

    name: str | None = None
    enabled: bool = False
    security_mode: int = SECURITY_NONE
    security_group_id: str | None = None
    security_key_services: tuple[EndpointDescription, ...] = ()
    max_network_message_size: int = 0
    properties: tuple[KeyValuePair, ...] = ()
    transport_settings: Any = None
    message_settings: Any = None
    readers: tuple[DataSetReader, ...] = ()


@structure(
    B.STRING,
    B.BOOLEAN,
    B.VARIANT,
    B.STRING,
    Settings,
    ArrayOf(KeyValuePair),
    Settings,
    ArrayOf(WriterGroup),
    ArrayOf(ReaderGroup),
)
class PubSubConnection:
    """6.2.7.5."""

    name: str | None = None
    enabled: bool = False
    publisher_id: Variant = NULL_VARIANT
    transport_profile_uri: str | None = None
    address: Any = None
    properties: tuple[KeyValuePair, ...] = ()
    transport_settings: Any = None
    writer_groups: tuple[WriterGroup, ...] = ()
    reader_groups: tuple[ReaderGroup, ...] = ()


@structure(B.UINT16, B.STRING, B.LOCALIZEDTEXT)
class ActionTarget:
    """6.2.3.10.3: one of the objects that an Action can be asked of."""

    target_id: int
    name: str | None = None
    description: LocalizedText = LocalizedText()


@structure(B.NODEID, B.NODEID)
class ActionMethod:
    """6.2.3.10.5: the Method behind an Action's target."""

    object_id: NodeId = NodeId()
    method_id: NodeId = NodeId()


@structure(B.NODEID, B.UINT32, B.DOUBLE, B.UINT32, B.DOUBLE, B.STRING, B.VARIANT, ArrayOf(B.QUALIFIEDNAME))
class PublishedVariable:
    """6.2.3.7. ``sampling_interval_hint`` in ms."""

    variable: NodeId = NodeId()
    attribute_id: int = 13
    sampling_interval_hint: float = 0.0
    deadband_type: int = 0
    deadband_value: float = 0.0
    index_range: str | None = None
    substitute_value: Variant = NULL_VARIANT
    metadata_properties: tuple[QualifiedName, ...] = ()


@structure(ArrayOf(PublishedVariable), encoding=15679)
class PublishedDataItems:
    """6.2.3.7: one published variable for each field."""

    variables: tuple[PublishedVariable, ...] = ()


@structure(B.STRING, ArrayOf(B.STRING), DataSetMetaData, ArrayOf(KeyValuePair), Settings)
class PublishedDataSet:
    """6.2.3.6."""

    name: str | None = None
    folder: tuple[str | None, ...] = ()
    metadata: DataSetMetaData = DataSetMetaData()
    extension_fields: tuple[KeyValuePair, ...] = ()
    source: Any = None


@structure(ArrayOf(PublishedDataSet), ArrayOf(PubSubConnection), B.BOOLEAN, encoding=21154)
class PubSubConfiguration:
    """6.2.12.1."""

    published_data_sets: tuple[PublishedDataSet, ...] = ()
    connections: tuple[PubSubConnection, ...] = ()
    enabled: bool = False


@structure(B.STRING, ArrayOf(B.STRING), DataSetMetaData, Settings)
class StandaloneSubscribedDataSet:
    """6.2.10.4."""

    name: str | None = None
    folder: tuple[str | None, ...] = ()
    metadata: DataSetMetaData = DataSetMetaData()
    subscribed_data_set: Any = None


@structure(B.NODEID, B.UINT32)
class RolePermission:
    """OPC 10000-3, 8.55."""

    role_id: NodeId = NodeId()
    permissions: int = 0


@structure(
    B.STRING,
    ArrayOf(B.STRING),
    B.DOUBLE,
    B.STRING,
    B.UINT32,
    B.UINT32,
    B.STRING,
    ArrayOf(RolePermission),
    ArrayOf(KeyValuePair),
)
class SecurityGroup:
    """6.2.12.2: a group of keys. ``key_lifetime`` in ms."""

    name: str | None = None
    folder: tuple[str | None, ...] = ()
    key_lifetime: float = 0.0
    security_policy_uri: str | None = None
    max_future_key_count: int = 0
    max_past_key_count: int = 0
    security_group_id: str | None = None
    role_permissions: tuple[RolePermission, ...] = ()
    properties: tuple[KeyValuePair, ...] = ()


@structure(
    B.STRING,
    ArrayOf(B.STRING),
    B.STRING,
    B.STRING,
    UserTokenPolicy,
    B.UINT16,
    B.DOUBLE,
    ArrayOf(KeyValuePair),
    ArrayOf(B.STRING),
)
class PubSubKeyPushTarget:
    """6.2.12.3."""

    application_uri: str | None = None
    folder: tuple[str | None, ...] = ()
    endpoint_url: str | None = None
    security_policy_uri: str | None = None
    user_token_type: UserTokenPolicy = UserTokenPolicy()
    requested_key_count: int = 0
    retry_interval: float = 0.0
    properties: tuple[KeyValuePair, ...] = ()
    security_groups: tuple[str | None, ...] = ()


@structure(
    ArrayOf(PublishedDataSet),
    ArrayOf(PubSubConnection),
    B.BOOLEAN,
    ArrayOf(StandaloneSubscribedDataSet),
    ArrayOf(DataSetMetaData),
    ArrayOf(EndpointDescription),
    ArrayOf(SecurityGroup),
    ArrayOf(PubSubKeyPushTarget),
    B.UINT32,
    ArrayOf(KeyValuePair),
    encoding=23854,
)
class PubSubConfiguration2:
    """6.2.12.1, with security groups and the version of the configuration."""

    published_data_sets: tuple[PublishedDataSet, ...] = ()
    connections: tuple[PubSubConnection, ...] = ()
    enabled: bool = False
    subscribed_data_sets: tuple[StandaloneSubscribedDataSet, ...] = ()
    data_set_classes: tuple[DataSetMetaData, ...] = ()
    default_security_key_services: tuple[EndpointDescription, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    key_push_targets: tuple[PubSubKeyPushTarget, ...] = ()
    configuration_version: int = 0
    properties: tuple[KeyValuePair, ...] = ()
