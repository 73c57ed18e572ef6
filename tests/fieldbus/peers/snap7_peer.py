"""A server of python-snap7 with one data block, run by the interpreter that has it: ``snap7_peer.py PORT``."""

import struct
import sys
import time

import snap7
from snap7.type import SrvArea

block = bytearray(64)
struct.pack_into(">fhB", block, 0, 72.5, 1480, 1)
block[8:20] = bytes.fromhex("07ea0b1d010f1e2d075bcd15")
server = snap7.Server()
server.register_area(SrvArea.DB, 1, block)
server.start_to("127.0.0.1", int(sys.argv[1]))
while True:
    time.sleep(1)
