"""Captures read offline: pcap, pcapng and JSON lines of UADP, S7, CIP and SLMP to decoded frames."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fieldbus.capture.errors import CaptureError
from fieldbus.capture.plain import plain
from fieldbus.capture.protocols import Protocol

if TYPE_CHECKING:
    from fieldbus.capture.decode import FrameResult, Options, decode_file
    from fieldbus.capture.dialogues import Decoded
    from fieldbus.capture.keys import KEY_FILE_BYTES_MAX, parse_keys

_LATER = {
    "FrameResult": "decode",
    "Options": "decode",
    "decode_file": "decode",
    "Decoded": "dialogues",
    "KEY_FILE_BYTES_MAX": "keys",
    "parse_keys": "keys",
}

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


def __getattr__(name: str) -> object:
    """Load the codecs only for who decodes: every command of ``sitsctl`` would pay for them."""
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module(f"fieldbus.capture.{_LATER[name]}"), name)
