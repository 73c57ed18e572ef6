"""Limits of the UADP codec. Every one is far above a control DataSet and far below harm."""

MESSAGE_BYTES_MAX = 65_507
"""Largest UDP payload over IPv4 (65,535 minus IP and UDP headers); Ethernet frames are smaller still."""

FIELDS_MAX = 4_096
"""Fields of one DataSetMessage. Bounds the objects made from one datagram of one-byte Null fields."""

ARRAY_ELEMENTS_MAX = 8_192
"""Elements of one array field: 8,192 doubles already fill a whole datagram."""

STRING_BYTES_MAX = 16_384
"""Bytes of one String or ByteString; a longer one belongs in a file, not in a control message."""

PUBLISHER_ID_BYTES_MAX = 256
"""Bytes of a String PublisherId: it is compared on every frame and shown to people."""

PICOSECONDS_MAX = 9_999
"""PicoSeconds counts 10 ps steps below one 100 ns tick (OPC 10000-6, 5.2.2.17)."""
