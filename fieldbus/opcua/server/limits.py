"""What one client, or all of them, may take of a server: every number with its reason."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fieldbus.opcua.errors import OpcUaError

CHUNK_BYTES_MIN = 8_192
"""The smallest chunk buffer a peer may state (OPC 10000-6, 7.1.2.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one server. Raises OpcUaError ``limit`` where one is below its least sensible value.

    Durations in seconds, intervals in milliseconds as the protocol has them, sizes in bytes.
    """

    connections: int = 64
    """TCP connections in total: each may hold two chunk buffers and one message."""

    pending: int = 32
    """Connections without an activated session; past this the oldest of them is closed, so that a flood of
    half-open ones cannot keep a client out that finishes its handshake."""

    pending_per_address: int = 16
    """The same from one address: a second flood would need a second address."""

    connections_per_s: int = 50
    """New connections per second and address (a burst of as many is free): each handshake costs RSA work."""

    handshakes_per_s: int = 20
    """OpenSecureChannel requests per second and address (a burst of twice as many is free): each is an RSA
    decryption and a signature, some 3 ms of this process."""

    activations_per_s: int = 5
    """ActivateSession requests per second and application (eight times as many at once): each is RSA work, and
    with a password a hash that is meant to be slow."""

    activation_s: float = 20.0
    """A connection without an activated session is closed after this long, each time it is without one; old panels
    take seconds for their RSA work."""

    chunk_s: float = 10.0
    """From the first byte of a chunk to its last: a slow sender holds a buffer no longer than this."""

    message_s: float = 30.0
    """From the first chunk of a message to its last."""

    stalled_s: float = 10.0
    """A client that does not read its answers is cut off after this long; nothing is computed for it meanwhile."""

    trust_check_s: float = 10.0
    """How often living connections are held against trust list and clock: a certificate taken from the list, or
    past its end, works no longer than this."""

    chunk_bytes: int = 65_535
    """One chunk, either direction; what every stack supports."""

    chunks: int = 32
    """Chunks of one message, either direction."""

    message_bytes: int = 1_048_576
    """One request or answer; asyncua's own limit of 100 MB is a way to fill the memory."""

    requests_before_activation: int = 32
    """Requests on a connection without an activated session: discovery and sign-in take five."""

    requests_per_s: int = 2_000
    """Requests of one connection (a burst of as many is free); a faster client waits. It takes a whole processor to ask
    at this rate."""

    string_bytes: int = 65_536
    """One String or ByteString of a request."""

    array_length: int = 10_000
    """Elements of one array of a request."""

    elements: int = 50_000
    """Values of one request in all: decoded, a one-byte Variant takes some 200 bytes of memory."""

    sessions: int = 32
    """Sessions in total."""

    sessions_per_application: int = 8
    """Sessions of one application certificate: one client gone wild leaves room for the others."""

    session_ms_min: float = 5_000.0
    session_ms_max: float = 600_000.0
    """Session timeout, revised into these."""

    channel_ms_min: int = 10_000
    channel_ms_max: int = 3_600_000
    """Life of a channel's security token, revised into these: keys must be renewed once an hour."""

    subscriptions: int = 64
    subscriptions_per_session: int = 8
    items: int = 4_096
    """Monitored items in total; a full address space of the appliance is a tenth of it."""

    items_per_subscription: int = 1_024
    queue_size: int = 100
    """Values queued for one monitored item; requests for more are revised to it."""

    queued_bytes: int = 2_097_152
    """Values queued in one subscription, about; over it each item keeps its newest only."""

    publishing_ms_min: float = 10.0
    publishing_ms_max: float = 60_000.0
    """Publishing interval, revised into these: asyncua takes 0 as "as fast as possible". At 10 ms one subscription
    of some hundred changing values is already a good part of a processor."""

    keep_alive_max: int = 1_000
    lifetime_max: int = 3_000
    """Publishing intervals; the lifetime is at least three keep-alives (OPC 10000-4, 5.13.2)."""

    notifications_per_publish: int = 1_000
    """Values in one Publish answer; what is left is sent in the next ones."""

    unacknowledged: int = 16
    """Answers kept for Republish, per subscription, and together no more than one message's bytes."""

    publish_requests: int = 32
    """Publish requests waiting on one session; past this the oldest is answered Bad_TooManyPublishRequests."""

    nodes_per_read: int = 1_000
    nodes_per_write: int = 100
    nodes_per_browse: int = 100
    nodes_per_translate: int = 500
    nodes_per_register: int = 1_000
    items_per_call: int = 1_000
    methods_per_call: int = 10
    """Operations of one request (OPC 10000-5, 6.3.11 OperationLimits, where clients read them)."""

    path_elements: int = 2_000
    """Steps of all browse paths of one request together: each looks at all references of a node."""

    references_per_node: int = 1_000
    references_per_answer: int = 4_000
    """References in one Browse answer, by node and in all; more are fetched with BrowseNext."""

    continuation_points: int = 100
    """Open Browse answers of one session, as many as nodes in a request; those of older requests make room."""

    clock_ahead_s: float = 60.0
    clock_behind_s: float = 86_400.0
    """A written source timestamp may be this far from this machine's clock."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 1:
                raise OpcUaError("limit", found=f"{field.name}={value}", expected="at least 1")
        if self.chunk_bytes < CHUNK_BYTES_MIN:
            raise OpcUaError("limit", found=f"chunk_bytes={self.chunk_bytes}", expected=f"at least {CHUNK_BYTES_MIN}")
