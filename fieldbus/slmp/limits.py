"""Limits of SLMP, from the SLMP reference manual (SH-080956ENG) where it names one."""

FRAME_BYTES_MAX = 16_384
"""A batch write of 3,584 bits in ASCII takes 3.6 KiB, of 960 words 3.8 KiB; the largest extended ones 8 KiB."""

WORDS_MAX = 960
"""Words of one batch read or write."""

BITS_MAX = 7_168
"""Bits of one batch read or write."""

RANDOM_MAX = 192
"""Words and double words of one random read or write together."""

ECHO_BYTES_MAX = 960
"""Bytes of a self test."""

NAME_BYTES = 16
"""Characters of the CPU model."""
