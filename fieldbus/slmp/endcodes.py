"""End codes in words (SH-080956ENG, appendix; MELSEC communication protocol SH-080008, 11). The ones people meet."""

from __future__ import annotations

from fieldbus.sample import BAD_DEVICE_FAILURE, BAD_NOT_FOUND, BAD_OUT_OF_SERVICE, BAD_TYPE_MISMATCH, GOOD

_TEXTS = {
    0x0000: "success",
    0x4000: "serial communication: checksum error",
    0x4001: "request not supported by the CPU",
    0x4002: "request not supported by the CPU",
    0x4004: "the CPU's mode forbids the request",
    0x4005: "data of the request are too long",
    0x4010: "not possible while the CPU is in RUN",
    0x4030: "device not supported by the CPU",
    0x4031: "device number outside the CPU's range",
    0x4080: "request data abnormal",
    0x4A00: "no route to the station",
    0x4A01: "the network of the route does not exist",
    0xC035: "no answer from the peer in time",
    0xC050: "characters that are no binary data (data code ASCII and binary mixed up)",
    0xC051: "number of points outside the range",
    0xC052: "number of points outside the range",
    0xC053: "number of points outside the range",
    0xC054: "number of points outside the range",
    0xC056: "points beyond the last address",
    0xC058: "data length does not match the points",
    0xC059: "command or subcommand not supported",
    0xC05B: "device cannot be read or written",
    0xC05C: "content of the request wrong (device, unit or number)",
    0xC05D: "monitoring before registration",
    0xC05E: "the CPU did not answer within the monitoring timer",
    0xC05F: "request not possible for this CPU",
    0xC060: "content of the request wrong (bit data)",
    0xC061: "length of the request does not match its content",
    0xC06F: "ASCII received where binary is set, or the other way round",
    0xC070: "device extension not possible for this station",
    0xC0B5: "data that the CPU cannot handle",
    0xC200: "remote password wrong",
    0xC201: "locked by the remote password",
    0xC204: "unlocked by another connection",
    0xCEE0: "another request is being processed",
    0xCEE1: "request too large",
    0xCEE2: "answer too large",
}
_STATUS = {
    0x0000: GOOD,
    0x4030: BAD_NOT_FOUND,
    0x4031: BAD_NOT_FOUND,
    0xC056: BAD_NOT_FOUND,
    0xC05B: BAD_NOT_FOUND,
    0xC05C: BAD_TYPE_MISMATCH,
    0x4004: BAD_OUT_OF_SERVICE,
    0x4010: BAD_OUT_OF_SERVICE,
    0xC201: BAD_OUT_OF_SERVICE,
}


def end_code_text(code: int) -> str:
    """An end code in words, or its number where it is not listed."""
    return _TEXTS.get(code, f"end code {code:04X}")


def quality(code: int) -> int:
    """StatusCode of values that were refused with this end code."""
    return _STATUS.get(code, BAD_DEVICE_FAILURE)
