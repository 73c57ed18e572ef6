"""The PLC's request block over OPC UA, S7, EtherNet/IP or SLMP (docs/request-block.md)."""

from sitsedge.gate.plc.port import Applied, OutcomeUnknown, PlcError, PlcPort, ReadBackMismatch

__all__ = ["Applied", "OutcomeUnknown", "PlcError", "PlcPort", "ReadBackMismatch"]
