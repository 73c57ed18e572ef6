"""Datagram transport with receive stamps: UDP over IPv4 and Ethernet frames of EtherType 0xB62C."""

from fieldbus.net.errors import NetError
from fieldbus.net.ethernet import EthernetReceiver, EthernetSender
from fieldbus.net.frames import ReceivedFrame, ReceiverCounts, Stamp, VlanTag
from fieldbus.net.receiver import FrameReceiver
from fieldbus.net.udp import UdpReceiver, UdpSender

__all__ = [
    "EthernetReceiver",
    "EthernetSender",
    "FrameReceiver",
    "NetError",
    "ReceivedFrame",
    "ReceiverCounts",
    "Stamp",
    "UdpReceiver",
    "UdpSender",
    "VlanTag",
]
