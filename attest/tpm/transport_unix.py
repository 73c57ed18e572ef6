"""Connecting to a Unix socket by a path of any length."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def connect_unix(path: Path, *, timeout_s: float) -> socket.socket:
    """Connect to a stream socket whose path may be longer than ``sun_path`` (108 bytes)."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_s)
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")
        except OSError:
            connection.close()
            raise
    finally:
        os.close(folder)
    return connection
