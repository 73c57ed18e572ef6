"""Limits of the UADP codec. Every one is far above a control DataSet and far below harm."""

MESSAGE_BYTES_MAX = 65_507
"""Largest UDP payload over IPv4 (65,535 minus IP and UDP headers); Ethernet frames are smaller still."""

FIELDS_MAX = 4_096
"""Fields of one DataSetMessage. Bounds the objects made from one datagram of one-byte Null fields."""

ARRAY_ELEMENTS_MAX = 8_192
"""Elements of one array field: 8,192 doubles already fill a whole datagram."""

DIMENSIONS_MAX = 8
"""Dimensions of one matrix; its elements count against the limit of arrays."""

DEPTH_MAX = 8
"""Variants or DataValues inside one another: the standard allows 100, a control DataSet has use for one or two."""

STRING_BYTES_MAX = 16_384
"""Bytes of one String or ByteString; a longer one belongs in a file, not in a control message."""

PUBLISHER_ID_BYTES_MAX = 256
"""Bytes of a String PublisherId: it is compared on every frame and shown to people."""

NONCE_BYTES_MAX = 32
"""Bytes of a MessageNonce. The standard's policies use 8; a longer one can only be somebody else's."""

PICOSECONDS_MAX = 9_999
"""PicoSeconds counts 10 ps steps below one 100 ns tick (OPC 10000-6, 5.2.2.17)."""

PAYLOAD_BYTES_MAX = 1 << 20
"""Bytes of one payload put together from chunks: far above a DataSet, room for the metadata of a large one."""

CHUNKS_MAX = 1_024
"""Chunks of one payload: 1 MiB in the payloads of 1,024-byte frames."""

ASSEMBLIES_MAX = 16
"""Payloads being put together at a time; the oldest gives way to a new one."""

ASSEMBLY_BYTES_MAX = 4 << 20
"""Bytes held by all unfinished payloads together."""

ASSEMBLY_AGE_NS = 5_000_000_000
"""An unfinished payload is forgotten after this time: chunks of one payload follow each other at once."""

RAW_DEPTH_MAX = 16
"""Structures inside one another in RawData."""

FILE_BYTES_MAX = 16 << 20
"""Bytes of a PubSub configuration file."""
