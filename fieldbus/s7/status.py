"""Return codes of items and error codes of jobs in words."""

from __future__ import annotations

from fieldbus.sample import BAD_DEVICE_FAILURE, BAD_NOT_FOUND, BAD_OUT_OF_SERVICE, BAD_TYPE_MISMATCH, GOOD

RETURN_CODES = {
    0x00: "reserved",
    0x01: "hardware fault",
    0x03: "access not allowed",
    0x05: "address outside the area or block, or an optimised block",
    0x06: "data type not supported",
    0x07: "data type inconsistent",
    0x0A: "object does not exist",
    0xFF: "success",
}
OPTIMISED_HINT = (
    "in TIA Portal turn off 'optimised block access' of the block and allow PUT/GET in the CPU's protection"
)
_STATUS = {
    0x01: BAD_DEVICE_FAILURE,
    0x03: BAD_OUT_OF_SERVICE,
    0x05: BAD_NOT_FOUND,
    0x06: BAD_TYPE_MISMATCH,
    0x07: BAD_TYPE_MISMATCH,
    0x0A: BAD_NOT_FOUND,
    0xFF: GOOD,
}
_CLASSES = {
    0x81: "application relationship",
    0x82: "object definition",
    0x83: "no resources",
    0x84: "service processing",
    0x85: "supplies",
    0x87: "access",
}
_ERRORS = {
    0x0000: "no error",
    0x8104: "context not supported",
    0x8304: "out of resources",
    0x8404: "error in service processing",
    0x8500: "wrong PDU size",
    0x8702: "address not valid",
    0xD401: "system state list not known",
    0xD402: "index of the system state list not known",
    0xD403: "system state list does not exist now",
    0xD602: "wrong password",
    0xD605: "protection level forbids it",
}


def return_code(code: int) -> str:
    """Return code of an item in words."""
    return RETURN_CODES.get(code, f"return code {code:#04x}")


def quality(code: int) -> int:
    """StatusCode of an item by its return code."""
    return _STATUS.get(code, BAD_DEVICE_FAILURE)


def header_error(error: int) -> str:
    """Error of a whole job in words."""
    known = _ERRORS.get(error)
    return known or f"{_CLASSES.get(error >> 8, 'error')} {error:#06x}"
