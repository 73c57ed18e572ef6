"""Limits of the S7 codec. Every one is what the protocol itself can carry, or what a CPU can hold."""

TELEGRAM_BYTES_MAX = 8_192
"""TPKT could say 65,535; the largest PDU any CPU negotiates is 960 bytes, and COTP's largest TPDU 8,192."""

ITEMS_MAX = 20
"""Items of one read or write: the most that classic CPUs accept in a PDU of 480 bytes."""

TSAP_BYTES_MAX = 16
"""Bytes of a transport selector in COTP (ISO 8073, 13.3.4 names no limit; S7 uses 2, names up to 16)."""

SZL_BYTES_MAX = 65_536
"""One system state list put together from its parts: 3,200 diagnostic entries."""

SZL_PARTS_MAX = 256
"""Parts of one list: of at least 200 bytes each for the same size."""

LAYOUT_BYTES_MAX = 16 * 1024 * 1024
"""A block's export: TIA Portal writes about 500 bytes a member."""

MEMBERS_MAX = 65_536
"""Elementary members of one block, arrays counted by element: a bit each would be 8 KiB of data."""

STEPS_MAX = 1_000_000
"""XML elements looked at for one layout: sixteen for each of the most members, so that a small file stays quick."""

DEPTH_MAX = 16
"""Structures within structures; TIA Portal stops at 8."""

BLOCK_BYTES_MAX = 65_536
"""Largest data block with standard access: its addresses have 16 bits for the byte."""
