"""From descriptions to nodes of a running asyncua server (written against asyncua 2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from asyncua import ua

from sitsedge.errors import SitsError
from sitsedge.server.model.spec import (
    ARRAY,
    BUILT_IN,
    HAS_MODELLING_RULE,
    LOCAL,
    UA,
    Argument,
    Id,
    Name,
    Node,
)

LOCAL_INDEX: Final = 1  # the server's own namespace (OPC 10000-3, 8.2.2)


class ModelError(SitsError):
    """A model that a server does not take. Codes: ``model-node``, ``model-reference``."""


class Space:
    """The numbers that one server gives to namespaces."""

    def __init__(self, server: Any, indices: dict[str, int]) -> None:
        self._server = server
        self._indices = indices

    @classmethod
    async def of(cls, server: Any, namespaces: Sequence[str]) -> Space:
        """Register the namespaces that are not there yet."""
        indices = {UA: 0, LOCAL: LOCAL_INDEX}
        for uri in namespaces:
            indices[uri] = await server.register_namespace(uri)
        return cls(server, indices)

    def node_id(self, node: Id) -> ua.NodeId:
        """The NodeId on this server."""
        return ua.NodeId(node.identifier, self._indices[node.namespace])

    def name(self, name: Name) -> ua.QualifiedName:
        """The BrowseName on this server."""
        return ua.QualifiedName(name.text, self._indices[name.namespace])

    def variant(self, data_type: Id, value: Any, *, array: bool = False) -> ua.Variant:
        """A plain value of a DataType; ``Id`` and ``Name`` become this server's."""
        kind = BUILT_IN.get(data_type, ua.VariantType.Int32)
        plain = [self._plain(item) for item in value] if array else self._plain(value)
        return ua.Variant(plain, kind, is_array=array)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Id):
            return self.node_id(value)
        if isinstance(value, Name):
            return self.name(value)
        return value

    async def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes, parents before children. Raises :class:`ModelError`; then the server is of no use any more."""
        listed = tuple(nodes)
        session = self._server.iserver.isession
        added = await session.add_nodes([self._item(node) for node in listed])
        for node, result in zip(listed, added, strict=True):
            if not result.StatusCode.is_good():
                raise ModelError("model-node", found=f"{node.id.identifier}: {result.StatusCode.name}", expected="Good")
        references = [reference for node in listed for reference in self._references(node)]
        for item, status in zip(references, await session.add_references(references), strict=True):
            if not status.is_good():
                found = f"{item.SourceNodeId.to_string()} to {item.TargetNodeId.to_string()}: {status.name}"
                raise ModelError("model-reference", found=found, expected="Good")

    def _item(self, node: Node) -> ua.AddNodesItem:
        return ua.AddNodesItem(
            ParentNodeId=self.node_id(node.parent),
            ReferenceTypeId=self.node_id(node.reference),
            RequestedNewNodeId=self.node_id(node.id),
            BrowseName=self.name(node.name),
            NodeClass=node.kind,
            NodeAttributes=self._attributes(node),
            TypeDefinition=ua.NodeId() if node.type is None else self.node_id(node.type),
        )

    def _attributes(self, node: Node) -> Any:
        kind = node.kind
        if kind is ua.NodeClass.Object:
            notifier = ua.EventNotifier.SubscribeToEvents.mask if node.notifies else 0
            attributes: Any = ua.ObjectAttributes(EventNotifier=ua.Byte(notifier))
        elif kind is ua.NodeClass.ObjectType:
            attributes = ua.ObjectTypeAttributes(IsAbstract=node.abstract)
        elif kind is ua.NodeClass.Method:
            attributes = ua.MethodAttributes(Executable=True, UserExecutable=True)
        elif kind is ua.NodeClass.DataType:
            attributes = ua.DataTypeAttributes(IsAbstract=node.abstract)
            attributes.DataTypeDefinition = enum_definition(node)
        else:
            attributes = self._variable(node)
        attributes.DisplayName = ua.LocalizedText(node.name.text)
        attributes.Description = ua.LocalizedText(node.description)
        return attributes

    def _variable(self, node: Node) -> Any:
        assert node.data_type is not None
        array = node.rank == ARRAY
        shape = {
            "DataType": self.node_id(node.data_type),
            "ValueRank": ua.Int32(node.rank),
            "ArrayDimensions": [ua.UInt32(0)] if array else [],
        }
        if node.kind is ua.NodeClass.VariableType:
            return ua.VariableTypeAttributes(**shape, IsAbstract=node.abstract)
        value = [self._argument(argument) for argument in node.arguments] if node.arguments else node.value
        attributes = ua.VariableAttributes(**shape)
        attributes.AccessLevel = attributes.UserAccessLevel = ua.AccessLevel.CurrentRead.mask
        if value is not None:
            attributes.Value = self.variant(node.data_type, value, array=array)
        return attributes

    def _argument(self, argument: Argument) -> ua.Argument:
        return ua.Argument(
            Name=argument.name,
            DataType=self.node_id(argument.data_type),
            ValueRank=ua.Int32(argument.rank),
            ArrayDimensions=[ua.UInt32(0)] if argument.rank == ARRAY else [],
            Description=ua.LocalizedText(argument.description),
        )

    def _references(self, node: Node) -> Iterable[ua.AddReferencesItem]:
        for link in node.links:
            yield self._reference(node.id, link.reference, link.target)
            if link.target.namespace != UA:  # types of the base namespace would collect one for every instance
                yield self._reference(link.target, link.reference, node.id, forward=False)
        for link in node.inverse:
            yield self._reference(link.target, link.reference, node.id)
            yield self._reference(node.id, link.reference, link.target, forward=False)
        if node.rule is not None:
            yield self._reference(node.id, HAS_MODELLING_RULE, node.rule)

    def _reference(self, source: Id, reference: Id, target: Id, *, forward: bool = True) -> ua.AddReferencesItem:
        return ua.AddReferencesItem(
            SourceNodeId=self.node_id(source),
            ReferenceTypeId=self.node_id(reference),
            TargetNodeId=self.node_id(target),
            IsForward=forward,
        )


def enum_definition(node: Node) -> ua.EnumDefinition:
    """The definition of an enumeration (OPC 10000-3, 8.50)."""
    return ua.EnumDefinition(
        Fields=[
            ua.EnumField(
                Value=value.value,
                DisplayName=ua.LocalizedText(value.name),
                Description=ua.LocalizedText(value.description),
                Name=value.name,
            )
            for value in node.values
        ]
    )
