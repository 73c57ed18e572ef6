"""What a receiver hands over, whatever the wire: payload, receive stamp and its quality, tags, drops so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

Stamp: TypeAlias = Literal["hardware", "kernel", "user"]
"""Who took the receive stamp: the network card as the frame came in, the kernel, or (worst) this process on waking."""

STAMPS: tuple[Stamp, ...] = ("user", "kernel", "hardware")
"""From worst to best."""


@dataclass(frozen=True, slots=True)
class VlanTag:
    """One VLAN tag (IEEE 802.1Q, 9.6): ``vid`` 0 … 4095 (0: priority only), ``priority`` (PCP) 0 … 7, and whether the
    frame may be dropped first (DEI)."""

    vid: int
    priority: int
    drop_eligible: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.vid <= 0xFFF or not 0 <= self.priority <= 7:
            raise ValueError(f"vid {self.vid} and priority {self.priority} are not within 0 … 4095 and 0 … 7")

    @property
    def tci(self) -> int:
        """Tag control information, 16 bits."""
        return self.priority << 13 | self.drop_eligible << 12 | self.vid


@lru_cache(maxsize=64)
def tag_of_tci(tci: int) -> VlanTag:
    """The tag of a tag control information field (16 bits); kept, because a plant has few and every frame one."""
    return VlanTag(tci & 0xFFF, tci >> 13 & 7, bool(tci & 0x1000))


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """One datagram or Ethernet payload.

    ``t_rx_ns``: CLOCK_REALTIME ns at reception, taken by ``stamp``. ``dropped_total``: frames the kernel dropped at
    this socket so far (modulo 2^32). ``source``: sender's (address, port), or (MAC address, interface index).
    ``vlans``: tags of an Ethernet frame, outermost first; a datagram has none. ``padding_max``: how many zero bytes at
    the end of ``data`` may be there only because Ethernet has a least frame size.
    """

    data: bytes
    t_rx_ns: int
    stamp: Stamp
    dropped_total: int
    source: tuple[str, int]
    vlans: tuple[VlanTag, ...] = ()
    padding_max: int = 0

    @property
    def vlan(self) -> VlanTag | None:
        """The innermost tag: the one the publisher's network uses, where a provider put its own around it."""
        return self.vlans[-1] if self.vlans else None


@dataclass(slots=True)
class ReceiverCounts:
    """What a receiver threw away, since it was opened."""

    foreign: int = 0
    """from a sender, or with a VLAN tag or target, that is not admitted"""
    truncated: int = 0
    """longer than ``size_max``"""
    superseded: int = 0
    """replaced by a newer one before anybody read it"""
    malformed: int = 0
    """not the frame its EtherType promised (Ethernet only)"""
    unstamped: int = 0
    """hardware stamps that were refused because they are not by this machine's time"""
