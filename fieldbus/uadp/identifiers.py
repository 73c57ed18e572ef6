"""NodeId, ExpandedNodeId, QualifiedName, LocalizedText, XmlElement, ExtensionObject (OPC 10000-6, 5.2.2.9 to 5.2.2.15).

Decoders take every form the standard allows; encoders write the shortest.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.diagnostics import decode_diagnostic_info, encode_diagnostic_info
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import STRING_BYTES_MAX
from fieldbus.uadp.packing import pack_header, pack_string, value_type_error
from fieldbus.uadp.types import (
    Builtin,
    BuiltinType,
    ExpandedNodeId,
    ExtensionObject,
    LocalizedText,
    NodeId,
    QualifiedName,
)

_TWO_BYTE, _FOUR_BYTE, _NUMERIC, _STRING, _GUID, _OPAQUE = range(6)
_HAS_URI, _HAS_SERVER = 0x80, 0x40
_HAS_LOCALE, _HAS_TEXT = 1, 2
_NO_BODY, _BINARY_BODY, _XML_BODY = range(3)
_U8, _U16, _U32 = 0xFF, 0xFFFF, 0xFFFF_FFFF


def decode_node_id(cursor: Cursor) -> NodeId:
    """One NodeId in any of its six forms. Raises ``node-id-encoding`` or a read error."""
    at = cursor.pos
    return _node_id(cursor, cursor.u8("NodeId encoding byte"), at)


def _node_id(cursor: Cursor, form: int, at: int) -> NodeId:
    if form == _TWO_BYTE:
        return NodeId(0, cursor.u8("NodeId"))
    if form == _FOUR_BYTE:
        return NodeId(cursor.u8("namespace index"), cursor.u16("NodeId"))
    if form > _OPAQUE:
        raise UadpError("node-id-encoding", found=f"{form:#04x}", expected="0 (two bytes) … 5 (opaque)", offset=at)
    namespace = cursor.u16("namespace index")
    if form == _NUMERIC:
        return NodeId(namespace, cursor.u32("NodeId"))
    if form == _STRING:
        return NodeId(namespace, cursor.string(STRING_BYTES_MAX, "NodeId"))
    if form == _GUID:
        return NodeId(namespace, cursor.guid("NodeId"))
    return NodeId(namespace, cursor.byte_string(STRING_BYTES_MAX, "NodeId") or b"")


def decode_expanded_node_id(cursor: Cursor) -> ExpandedNodeId:
    """One ExpandedNodeId: a NodeId whose encoding byte may announce a namespace URI and a server index."""
    at = cursor.pos
    form = cursor.u8("NodeId encoding byte")
    node = _node_id(cursor, form & ~(_HAS_URI | _HAS_SERVER), at)
    uri = cursor.string(STRING_BYTES_MAX, "namespace URI") if form & _HAS_URI else None
    return ExpandedNodeId(node, uri, cursor.u32("server index") if form & _HAS_SERVER else None)


def decode_qualified_name(cursor: Cursor) -> QualifiedName:
    return QualifiedName(cursor.u16("namespace index"), cursor.string(STRING_BYTES_MAX, "name"))


def decode_localized_text(cursor: Cursor) -> LocalizedText:
    """One LocalizedText. Raises ``localized-text-mask`` for reserved bits, or a read error."""
    at = cursor.pos
    mask = cursor.u8("LocalizedText mask")
    if mask & ~(_HAS_LOCALE | _HAS_TEXT):
        raise UadpError("localized-text-mask", found=f"{mask:#04x}", expected="bits 2-7 zero", offset=at)
    locale = cursor.string(STRING_BYTES_MAX, "locale") if mask & _HAS_LOCALE else None
    return LocalizedText(cursor.string(STRING_BYTES_MAX, "text") if mask & _HAS_TEXT else None, locale)


def decode_extension_object(cursor: Cursor) -> ExtensionObject:
    """One ExtensionObject, its body as bytes. Raises ``extension-object-encoding`` or a read error."""
    type_id = decode_node_id(cursor)
    at = cursor.pos
    form = cursor.u8("ExtensionObject encoding")
    if form == _NO_BODY:
        return ExtensionObject(type_id)
    if form > _XML_BODY:
        raise UadpError("extension-object-encoding", found=str(form), expected="0, 1 or 2", offset=at)
    size = cursor.end - cursor.pos  # bounded by the message, not by the limit of strings: it may hold many
    return ExtensionObject(type_id, cursor.byte_string(size, "ExtensionObject"), form == _XML_BODY)


def encode_node_id(out: bytearray, value: object) -> None:
    if not isinstance(value, NodeId):
        raise value_type_error(BuiltinType.NODEID, value)
    _encode_node_id(out, value, 0)


def _encode_node_id(out: bytearray, node: NodeId, extra: int) -> None:
    namespace, identifier = pack_header("H", node.namespace, _U16), node.identifier
    if isinstance(identifier, bool):
        raise value_type_error(BuiltinType.NODEID, identifier)
    if isinstance(identifier, int):
        number = pack_header("I", identifier, _U32)
        if node.namespace == 0 and identifier <= _U8:
            out += bytes((_TWO_BYTE | extra, identifier))
        elif node.namespace <= _U8 and identifier <= _U16:
            out += bytes((_FOUR_BYTE | extra, node.namespace)) + number[:2]
        else:
            out += bytes((_NUMERIC | extra,)) + namespace + number
    elif isinstance(identifier, UUID):
        out += bytes((_GUID | extra,)) + namespace + identifier.bytes_le
    elif isinstance(identifier, bytes):
        out += bytes((_OPAQUE | extra,)) + namespace
        out += pack_string(BuiltinType.BYTESTRING, identifier, STRING_BYTES_MAX)
    else:
        out += bytes((_STRING | extra,)) + namespace + pack_string(BuiltinType.STRING, identifier, STRING_BYTES_MAX)


def encode_expanded_node_id(out: bytearray, value: object) -> None:
    if not isinstance(value, ExpandedNodeId):
        raise value_type_error(BuiltinType.EXPANDEDNODEID, value)
    extra = _HAS_URI if value.namespace_uri is not None else 0
    _encode_node_id(out, value.node, extra | (_HAS_SERVER if value.server_index is not None else 0))
    if value.namespace_uri is not None:
        out += pack_string(BuiltinType.STRING, value.namespace_uri, STRING_BYTES_MAX)
    if value.server_index is not None:
        out += pack_header("I", value.server_index, _U32)


def encode_qualified_name(out: bytearray, value: object) -> None:
    if not isinstance(value, QualifiedName):
        raise value_type_error(BuiltinType.QUALIFIEDNAME, value)
    out += pack_header("H", value.namespace, _U16) + pack_string(BuiltinType.STRING, value.name, STRING_BYTES_MAX)


def encode_localized_text(out: bytearray, value: object) -> None:
    if not isinstance(value, LocalizedText):
        raise value_type_error(BuiltinType.LOCALIZEDTEXT, value)
    out.append((_HAS_LOCALE if value.locale is not None else 0) | (_HAS_TEXT if value.text is not None else 0))
    for text in (value.locale, value.text):
        if text is not None:
            out += pack_string(BuiltinType.STRING, text, STRING_BYTES_MAX)


def encode_extension_object(out: bytearray, value: object) -> None:
    if not isinstance(value, ExtensionObject):
        raise value_type_error(BuiltinType.EXTENSIONOBJECT, value)
    _encode_node_id(out, value.type_id, 0)
    if value.body is None:
        out.append(_NO_BODY)
        return
    out.append(_XML_BODY if value.xml else _BINARY_BODY)
    out += pack_header("i", len(value.body), 2**31 - 1) + value.body


DECODERS: dict[BuiltinType, Callable[[Cursor], Builtin]] = {
    BuiltinType.XMLELEMENT: lambda cursor: cursor.string(STRING_BYTES_MAX, "XmlElement"),
    BuiltinType.NODEID: decode_node_id,
    BuiltinType.EXPANDEDNODEID: decode_expanded_node_id,
    BuiltinType.QUALIFIEDNAME: decode_qualified_name,
    BuiltinType.LOCALIZEDTEXT: decode_localized_text,
    BuiltinType.EXTENSIONOBJECT: decode_extension_object,
    BuiltinType.DIAGNOSTICINFO: decode_diagnostic_info,
}


def _encode_xml(out: bytearray, value: object) -> None:
    out += pack_string(BuiltinType.STRING, value, STRING_BYTES_MAX)


ENCODERS: dict[BuiltinType, Callable[[bytearray, object], None]] = {
    BuiltinType.XMLELEMENT: _encode_xml,
    BuiltinType.NODEID: encode_node_id,
    BuiltinType.EXPANDEDNODEID: encode_expanded_node_id,
    BuiltinType.QUALIFIEDNAME: encode_qualified_name,
    BuiltinType.LOCALIZEDTEXT: encode_localized_text,
    BuiltinType.EXTENSIONOBJECT: encode_extension_object,
    BuiltinType.DIAGNOSTICINFO: encode_diagnostic_info,
}
