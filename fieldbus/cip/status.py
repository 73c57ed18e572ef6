"""General and extended status in words (CIP Networks Library, volume 1, appendix B; Rockwell 1756-PM020)."""

from __future__ import annotations

GENERAL = {
    0x00: "success",
    0x01: "connection failure",
    0x02: "resource unavailable",
    0x03: "invalid parameter value",
    0x04: "path segment error: no such tag",
    0x05: "path destination unknown",
    0x06: "partial transfer",
    0x07: "connection lost",
    0x08: "service not supported",
    0x09: "invalid attribute value",
    0x0A: "attribute list error",
    0x0B: "already in requested mode or state",
    0x0C: "object state conflict",
    0x0D: "object already exists",
    0x0E: "attribute not settable",
    0x0F: "privilege violation",
    0x10: "device state conflict",
    0x11: "reply data too large",
    0x12: "fragmentation of a primitive value",
    0x13: "not enough data",
    0x14: "attribute not supported",
    0x15: "too much data",
    0x16: "object does not exist",
    0x1A: "bridge: request too large",
    0x1B: "bridge: response too large",
    0x1C: "attribute list shortage",
    0x1E: "service error inside a multiple service packet",
    0x1F: "connection related failure",
    0x20: "invalid parameter",
    0x25: "key failure in path",
    0x26: "path size invalid",
    0x27: "unexpected attribute in list",
    0x28: "invalid member id",
    0x29: "member not settable",
    0xFF: "general error",
}

_CONNECTION = {
    0x0100: "connection in use or duplicate forward open",
    0x0103: "transport class and trigger not supported",
    0x0106: "ownership conflict",
    0x0107: "connection not found",
    0x0109: "invalid connection size",
    0x0111: "packet interval not supported",
    0x0113: "out of connections",
    0x0114: "vendor or product code mismatch",
    0x0115: "device type mismatch",
    0x0116: "revision mismatch",
    0x0203: "connection timed out",
    0x0204: "unconnected send timed out",
    0x0205: "parameter error in unconnected send",
    0x0311: "port not available",
    0x0312: "link address not available",
    0x0315: "invalid segment in connection path",
}
_LOGIX = {
    0x2104: "offset beyond the end of the tag",
    0x2105: "elements beyond the end of the tag",
    0x2107: "another type than the tag has",
    0x2802: "safety tags cannot be written now",
}


def refusal(status: int, extended: tuple[int, ...]) -> str:
    """Both codes in words; a number where there are none."""
    text = GENERAL.get(status, f"general status {status:#04x}")
    if not extended:
        return text
    table = _CONNECTION if status == 0x01 else _LOGIX
    return f"{text}: {table.get(extended[0], f'extended status {extended[0]:#06x}')}"
