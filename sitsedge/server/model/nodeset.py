"""Our namespace as a UANodeSet file (OPC 10000-6, Annex F), the same bytes each time.

References are written from the child to its parent; Annex F asks for one direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from asyncua import ua

from sitsedge.server.model.appliance import appliance_types
from sitsedge.server.model.names import DI, MACHINERY, SITS, SITS_EDITION, Edition
from sitsedge.server.model.spec import (
    ARRAY,
    BUILT_IN,
    HAS_MODELLING_RULE,
    HAS_TYPE_DEFINITION,
    SCALAR,
    UA,
    Argument,
    Id,
    Name,
    Node,
)

FILE_NAME: Final = "SitsEdge.Appliance.NodeSet2.xml"
_URIS: Final = (SITS, DI, MACHINERY)  # of the file, from index 1 on
_SCHEMA: Final = "http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"
_TYPES: Final = "http://opcfoundation.org/UA/2008/02/Types.xsd"
_ALIASES: Final = {
    ua.ObjectIds.Boolean: "Boolean",
    ua.ObjectIds.Int32: "Int32",
    ua.ObjectIds.UInt32: "UInt32",
    ua.ObjectIds.UInt64: "UInt64",
    ua.ObjectIds.Double: "Double",
    ua.ObjectIds.String: "String",
    ua.ObjectIds.DateTime: "DateTime",
    ua.ObjectIds.ByteString: "ByteString",
    ua.ObjectIds.LocalizedText: "LocalizedText",
    ua.ObjectIds.IdType: "IdType",
    ua.ObjectIds.NumericRange: "NumericRange",
    ua.ObjectIds.UtcTime: "UtcTime",
    ua.ObjectIds.Duration: "Duration",
    ua.ObjectIds.Range: "Range",
    ua.ObjectIds.EUInformation: "EUInformation",
    ua.ObjectIds.Argument: "Argument",
    ua.ObjectIds.KeyValuePair: "KeyValuePair",
    ua.ObjectIds.GeneratesEvent: "GeneratesEvent",
    ua.ObjectIds.HasComponent: "HasComponent",
    ua.ObjectIds.HasProperty: "HasProperty",
    ua.ObjectIds.HasSubtype: "HasSubtype",
    ua.ObjectIds.HasAddIn: "HasAddIn",
    ua.ObjectIds.HasTypeDefinition: "HasTypeDefinition",
    ua.ObjectIds.HasModellingRule: "HasModellingRule",
}
_TAGS: Final = {
    ua.NodeClass.Object: "UAObject",
    ua.NodeClass.Variable: "UAVariable",
    ua.NodeClass.Method: "UAMethod",
    ua.NodeClass.ObjectType: "UAObjectType",
    ua.NodeClass.VariableType: "UAVariableType",
    ua.NodeClass.DataType: "UADataType",
}


def nodeset_xml() -> bytes:
    """The whole file, UTF-8."""
    return ("\n".join(_lines()) + "\n").encode()


def _lines() -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield f'<UANodeSet xmlns="{_SCHEMA}" xmlns:uax="{_TYPES}" LastModified="{_date(SITS_EDITION.published)}">'
    yield "  <NamespaceUris>"
    yield from (f"    <Uri>{escape(uri)}</Uri>" for uri in _URIS)
    yield "  </NamespaceUris>"
    yield "  <Models>"
    yield f"    <Model {_edition(SITS_EDITION)}>"
    yield from (f"      <RequiredModel {_edition(needed)}/>" for needed in SITS_EDITION.needs)
    yield "    </Model>"
    yield "  </Models>"
    yield "  <Aliases>"
    yield from (f'    <Alias Alias="{name}">i={number}</Alias>' for number, name in sorted(_ALIASES.items()))
    yield "  </Aliases>"
    for node in appliance_types():
        yield from _node(node)
    yield "</UANodeSet>"


def _edition(edition: Edition) -> str:
    return f'ModelUri="{edition.uri}" Version="{edition.version}" PublicationDate="{_date(edition.published)}"'


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _id(node: Id) -> str:
    kind = "i" if isinstance(node.identifier, int) else "s"
    if node.namespace == UA:
        return f"i={node.identifier}"
    return f"ns={_URIS.index(node.namespace) + 1};{kind}={node.identifier}"


def _alias(node: Id) -> str:
    """The alias where there is one: some importers know HasTypeDefinition by name alone."""
    if node.namespace == UA and isinstance(node.identifier, int) and node.identifier in _ALIASES:
        return _ALIASES[node.identifier]
    return _id(node)


def _name(name: Name) -> str:
    return name.text if name.namespace == UA else f"{_URIS.index(name.namespace) + 1}:{name.text}"


def _node(node: Node) -> Iterator[str]:
    tag = _TAGS[node.kind]
    yield f"  <{tag} {_attributes(node)}>"
    yield f"    <DisplayName>{escape(node.name.text)}</DisplayName>"
    yield f"    <Description>{escape(node.description)}</Description>"
    yield "    <References>"
    if node.type is not None:
        yield _reference(HAS_TYPE_DEFINITION, node.type)
    if node.rule is not None:
        yield _reference(HAS_MODELLING_RULE, node.rule)
    yield _reference(node.reference, node.parent, forward=False)
    yield from (_reference(link.reference, link.target) for link in node.links)
    yield "    </References>"
    yield from _value(node)
    yield from _definition(node)
    yield f"  </{tag}>"


def _attributes(node: Node) -> str:
    given = {"NodeId": _id(node.id), "BrowseName": _name(node.name)}
    if node.kind in (ua.NodeClass.Object, ua.NodeClass.Variable, ua.NodeClass.Method) and node.parent.namespace == SITS:
        given["ParentNodeId"] = _id(node.parent)
    if node.data_type is not None:
        given["DataType"] = _alias(node.data_type)
    if node.rank != SCALAR:
        given |= {"ValueRank": str(node.rank), "ArrayDimensions": "0"}
    if node.abstract:
        given["IsAbstract"] = "true"
    return " ".join(f"{key}={quoteattr(text)}" for key, text in given.items())


def _reference(reference: Id, target: Id, *, forward: bool = True) -> str:
    direction = "" if forward else ' IsForward="false"'
    return f'      <Reference ReferenceType="{_alias(reference)}"{direction}>{escape(_id(target))}</Reference>'


def _value(node: Node) -> Iterator[str]:
    if node.arguments:
        yield from _wrapped("ListOfExtensionObject", (_argument(argument) for argument in node.arguments))
    elif node.value is not None and node.data_type is not None:
        tag = BUILT_IN.get(node.data_type, ua.VariantType.Int32).name
        if node.rank == ARRAY:
            yield from _wrapped(f"ListOf{tag}", (_plain(tag, item) for item in node.value))
        else:
            yield f"    <Value>{_plain(tag, node.value)}</Value>"


def _wrapped(tag: str, items: Iterable[str]) -> Iterator[str]:
    yield "    <Value>"
    yield f"      <uax:{tag}>"
    yield from (f"        {item}" for item in items)
    yield f"      </uax:{tag}>"
    yield "    </Value>"


def _plain(tag: str, value: Any) -> str:
    if isinstance(value, ua.LocalizedText):
        body = f"<uax:Text>{escape(value.Text or '')}</uax:Text>"
    elif isinstance(value, bool):
        body = str(value).lower()
    elif isinstance(value, datetime):
        body = _date(value)
    else:
        body = escape(str(value))
    return f"<uax:{tag}>{body}</uax:{tag}>"


def _argument(argument: Argument) -> str:
    dimensions = "<uax:UInt32>0</uax:UInt32>" if argument.rank == ARRAY else ""
    return (
        f"<uax:ExtensionObject><uax:TypeId><uax:Identifier>i={ua.ObjectIds.Argument_Encoding_DefaultXml}"
        "</uax:Identifier></uax:TypeId><uax:Body><uax:Argument>"
        f"<uax:Name>{escape(argument.name)}</uax:Name>"
        f"<uax:DataType><uax:Identifier>{escape(_id(argument.data_type))}</uax:Identifier></uax:DataType>"
        f"<uax:ValueRank>{argument.rank}</uax:ValueRank>"
        f"<uax:ArrayDimensions>{dimensions}</uax:ArrayDimensions>"
        f"<uax:Description><uax:Text>{escape(argument.description)}</uax:Text></uax:Description>"
        "</uax:Argument></uax:Body></uax:ExtensionObject>"
    )


def _definition(node: Node) -> Iterator[str]:
    if not node.values:
        return
    yield f"    <Definition Name={quoteattr(_name(node.name))}>"
    for value in node.values:
        meaning = f"<Description>{escape(value.description)}</Description>"
        yield f'      <Field Name="{value.name}" Value="{value.value}">{meaning}</Field>'
    yield "    </Definition>"
