"""Who speaks EtherNet/IP on a network: ListIdentity over UDP (CIP Networks Library, volume 2, 2-4.2).

Asks only; nothing that is answered here changes anything in a device.
"""

from __future__ import annotations

import secrets
import socket
import time
from dataclasses import dataclass

from fieldbus.cip import encapsulation as enip
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import ListedIdentity

PORT = 44_818
BROADCAST = "255.255.255.255"
DELAY_MS = 500
"""Devices spread their answers over this time: the shortest that the standard lets be asked for."""
WAIT_S = 1.0
DEVICES_MAX = 1_024
"""Devices of one answer; a network of one broadcast domain has fewer."""
_DATAGRAM_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device that answered: where from, and what it says it is."""

    address: str
    identity: ListedIdentity


@dataclass(frozen=True, slots=True)
class Found:
    """The devices in order of address; ``refused``: answers that were none to this question, by code."""

    devices: tuple[FoundDevice, ...]
    refused: dict[str, int]


def list_identity(
    address: str = BROADCAST, port: int = PORT, *, wait_s: float = WAIT_S, local_address: str = ""
) -> Found:
    """Ask ``address``, one device or a broadcast address, and collect what comes within ``wait_s``.

    ``local_address``: of the interface to ask on, where there are several. Blocks. Raises OSError.
    """
    context = DELAY_MS.to_bytes(2, "little") + secrets.token_bytes(6)
    devices: dict[tuple[str, int], FoundDevice] = {}
    refused: dict[str, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        link.bind((local_address, 0))
        link.sendto(enip.encode(enip.Telegram(enip.LIST_IDENTITY, context=context)), (address, port))
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0 and len(devices) < DEVICES_MAX:
            link.settimeout(left)
            try:
                data, source = link.recvfrom(_DATAGRAM_BYTES)
                for item in identities(data, context):
                    devices[source[0], item.identity.serial] = FoundDevice(source[0], item)
            except TimeoutError:
                break
            except CipError as error:
                refused[error.code] = refused.get(error.code, 0) + 1
    return Found(tuple(devices[key] for key in sorted(devices)), refused)


def identities(data: bytes, context: bytes) -> tuple[ListedIdentity, ...]:
    """Identities in one answer. Raises CipError ``reply-unmatched`` (to another question), or what is wrong with it."""
    telegram = enip.decode(data)
    if telegram.command != enip.LIST_IDENTITY or telegram.context != context or telegram.status:
        raise CipError("reply-unmatched", found=telegram.context.hex(), expected=f"an identity for {context.hex()}")
    return telegram.body.items if isinstance(telegram.body, enip.Identities) else ()
