"""Limits of the EtherNet/IP and CIP codec."""

TELEGRAM_BYTES_MAX = 65_535 + 24
"""What the encapsulation header can say; large forward-open connections carry 4,000 bytes."""

CPF_ITEMS_MAX = 16
"""Items of one common packet format list; four are defined for any telegram of ours."""

PATH_BYTES_MAX = 510
"""A path's length byte counts words."""

SEGMENTS_MAX = 64
"""Segments of one path: a tag of eight nested structures with three indices each has 32."""

SERVICES_MAX = 255
"""Messages of one multiple service packet: they share 504 bytes, or 4,000."""

NESTING_MAX = 3
"""Messages within messages: unconnected send, multiple service packet, the service itself."""

NAME_BYTES_MAX = 255
"""Bytes of a symbol; Logix names have 40 characters, program-scoped ones about 90."""

IDENTITIES_MAX = 64
"""Identity items of one answer; a device sends one."""

MEMBERS_MAX = 4_096
"""Members of one template; Logix allows 512 of its own."""

TEMPLATE_BYTES_MAX = 65_535
"""Size of one template's definition."""

STRUCTURE_DEPTH_MAX = 16
"""Structures within structures."""

ELEMENTS_MAX = 65_536
"""Elementary values made of one structure or array."""

SYMBOLS_MAX = 65_536
"""Tags of one controller."""

TEMPLATES_MAX = 256
"""Templates read for the tags of one connector."""
