"""Captures read offline: pcap, pcapng and JSON lines of UADP, S7, CIP and SLMP to decoded frames."""

from fieldbus.capture.decode import FrameResult, Options, decode_file
from fieldbus.capture.dialogues import Decoded, Protocol
from fieldbus.capture.errors import CaptureError
from fieldbus.capture.keys import KEY_FILE_BYTES_MAX, parse_keys
from fieldbus.capture.plain import plain

__all__ = [
    "KEY_FILE_BYTES_MAX",
    "CaptureError",
    "Decoded",
    "FrameResult",
    "Options",
    "Protocol",
    "decode_file",
    "parse_keys",
    "plain",
]
