"""Datagram transport with receive stamps. UDP over IPv4; Ethernet (0xB62C) comes with the TSN step."""

from fieldbus.net.errors import NetError
from fieldbus.net.udp import ReceivedFrame, ReceiverCounts, Stamp, UdpReceiver, UdpSender

__all__ = ["NetError", "ReceivedFrame", "ReceiverCounts", "Stamp", "UdpReceiver", "UdpSender"]
