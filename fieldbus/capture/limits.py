"""Limits of reading captures: enough for hours of control traffic, little enough for any laptop."""

FILE_BYTES_MAX = 1 << 30
"""Size of one capture file; it is read a record at a time, so this bounds time, not memory."""

RECORD_BYTES_MAX = 262_144
"""One captured packet: libpcap's own largest snapshot length."""

LINE_BYTES_MAX = 1_048_576
"""One line of JSON: a frame of 64 KiB in hexadecimal, a decoding of it, and room."""

INTERFACES_MAX = 256
"""Interfaces of one pcapng section."""

FLOWS_MAX = 4_096
"""TCP connections followed at once; the oldest is forgotten."""

AHEAD_BYTES_MAX = 262_144
"""Bytes of one direction kept while an earlier segment is missing; four receive windows of a small PLC."""

AHEAD_SEGMENTS_MAX = 256
"""And segments, so that many tiny ones cost no more."""

BUFFER_BYTES_MAX = 131_072
"""Bytes of one direction that do not make a whole telegram yet: the longest telegram has 64 KiB."""
