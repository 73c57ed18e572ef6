"""DiagnosticInfo on the wire (OPC 10000-6, 5.2.2.12): a chain of levels, each a mask and what it announces."""

from __future__ import annotations

from dataclasses import replace

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import DEPTH_MAX, STRING_BYTES_MAX
from fieldbus.uadp.packing import pack_fixed, pack_string, value_type_error
from fieldbus.uadp.types import STRUCT_CODES, BuiltinType, DiagnosticInfo

_SYMBOLIC_ID, _NAMESPACE_URI, _TEXT, _LOCALE, _ADDITIONAL, _STATUS, _INNER = (1 << bit for bit in range(7))
_RESERVED = 0x80


def decode_diagnostic_info(cursor: Cursor) -> DiagnosticInfo:
    """One DiagnosticInfo of at most DEPTH_MAX levels (the standard asks for 100; a DataSet has use for one).

    Raises ``diagnostic-reserved-bit``, ``nested-too-deep`` or a read error.
    """
    levels: list[DiagnosticInfo] = []
    more = True
    while more:
        at = cursor.pos
        mask = cursor.u8("DiagnosticInfo mask")
        if mask & _RESERVED:
            raise UadpError("diagnostic-reserved-bit", found=f"{mask:#04x}", expected="bit 7 zero", offset=at)
        if len(levels) == DEPTH_MAX:
            raise UadpError(
                "nested-too-deep", found=f"{DEPTH_MAX + 1} levels", expected=f"at most {DEPTH_MAX}", offset=at
            )
        levels.append(
            DiagnosticInfo(
                cursor.i32("SymbolicId") if mask & _SYMBOLIC_ID else None,
                cursor.i32("NamespaceUri") if mask & _NAMESPACE_URI else None,
                cursor.i32("Locale") if mask & _LOCALE else None,
                cursor.i32("LocalizedText") if mask & _TEXT else None,
                cursor.string(STRING_BYTES_MAX, "AdditionalInfo") if mask & _ADDITIONAL else None,
                cursor.u32("InnerStatusCode") if mask & _STATUS else None,
            )
        )
        more = bool(mask & _INNER)
    found = levels.pop()
    while levels:
        found = replace(levels.pop(), inner=found)
    return found


def encode_diagnostic_info(out: bytearray, value: object) -> None:
    """Append one DiagnosticInfo. Raises UadpError ``value-type``, ``value-range``, ``nested-too-deep``."""
    depth = 0
    while True:
        if not isinstance(value, DiagnosticInfo):
            raise value_type_error(BuiltinType.DIAGNOSTICINFO, value)
        if depth == DEPTH_MAX:
            raise UadpError("nested-too-deep", found=f"{depth + 1} levels", expected=f"at most {DEPTH_MAX}")
        _level(out, value)
        if value.inner is None:
            return
        value, depth = value.inner, depth + 1


def _level(out: bytearray, value: DiagnosticInfo) -> None:
    numbers = (
        (_SYMBOLIC_ID, value.symbolic_id),
        (_NAMESPACE_URI, value.namespace_uri),
        (_LOCALE, value.locale),
        (_TEXT, value.localized_text),
    )
    out.append(
        sum([bit for bit, number in numbers if number is not None])
        | (_ADDITIONAL if value.additional_info is not None else 0)
        | (_STATUS if value.inner_status is not None else 0)
        | (_INNER if value.inner is not None else 0)
    )
    for _, number in numbers:
        if number is not None:
            out += pack_fixed(BuiltinType.INT32, STRUCT_CODES[BuiltinType.INT32], number)
    if value.additional_info is not None:
        out += pack_string(BuiltinType.STRING, value.additional_info, STRING_BYTES_MAX)
    if value.inner_status is not None:
        out += pack_fixed(BuiltinType.STATUSCODE, STRUCT_CODES[BuiltinType.STATUSCODE], value.inner_status)
