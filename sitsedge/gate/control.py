"""The gate's control socket: one JSON line each way, for the person at the appliance (socket mode 0600)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from attest import jsontext
from sitsedge.errors import SitsError

LINE_BYTES_MAX = 16 * 1024
TIMEOUT_S = 5.0


def request(path: Path, body: dict[str, Any], *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Send one request and return the answer. Raises :class:`SitsError` ``gate-unreachable``."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(timeout_s)
            channel.connect(str(path))
            channel.sendall(jsontext.dumps(body).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n") and len(data) <= LINE_BYTES_MAX:
                part = channel.recv(LINE_BYTES_MAX)
                if not part:
                    break
                data += part
        answer = jsontext.loads(data)
    except (OSError, ValueError) as error:
        raise SitsError(
            "gate-unreachable",
            found=f"{path.name}: {getattr(error, 'strerror', None) or error}",
            expected="a running gate",
            hint="start it with sitsctl deploy",
        ) from error
    if not isinstance(answer, dict):
        raise SitsError("gate-unreachable", found="an answer of another shape", expected="a JSON object")
    return answer


def request_mode(path: Path, to: str, approved_by: list[str], reason: str) -> dict[str, Any]:
    """Ask for a mode change; the answer has ``ok`` and either ``from``/``to`` or ``code``/``found``/``expected``."""
    return request(path, {"do": "mode", "to": to, "approved_by": approved_by, "reason": reason})


def request_step_down(path: Path, to: str, reason: str) -> dict[str, Any]:
    """The same for a lower mode only: what is not below the present one is refused (``mode-up``), names or not."""
    return request(path, {"do": "mode", "to": to, "approved_by": [], "reason": reason, "only_down": True})
