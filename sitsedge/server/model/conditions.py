"""The nodes of an alarm condition (OPC 10000-9, 5.5 to 5.8): what a client may read of it between two events.

A condition is an instance of one of DI's alarm types for device health (OPC 10000-100, 4.12). Its methods are those of
the condition types themselves, as OPC 10000-9, 5.5.2, allows: a client calls Acknowledge with the condition's NodeId.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.config import ConditionConfig
from sitsedge.server.model.device_integration import HEALTH_ALARMS
from sitsedge.server.model.names import sits_name
from sitsedge.server.model.spec import (
    BOOLEAN,
    BYTE_STRING,
    CONDITION_VARIABLE,
    HAS_COMPONENT,
    HAS_CONDITION,
    HAS_PROPERTY,
    LOCAL,
    LOCALIZED_TEXT,
    NODE_ID,
    PROPERTY,
    STATUS_CODE,
    STRING,
    TWO_STATE,
    UA,
    UINT16,
    UTC_TIME,
    Id,
    Link,
    Name,
    Node,
    base,
)

METHODS: Final = {
    "Enable": base(ua.ObjectIds.ConditionType_Enable),
    "Disable": base(ua.ObjectIds.ConditionType_Disable),
    "AddComment": base(ua.ObjectIds.ConditionType_AddComment),
    "Acknowledge": base(ua.ObjectIds.AcknowledgeableConditionType_Acknowledge),
    "Confirm": base(ua.ObjectIds.AcknowledgeableConditionType_Confirm),
}
_CLASS: Final = base(ua.ObjectIds.SystemConditionClassType)
_CLASS_NAME: Final = "SystemConditionClassType"


@dataclass(frozen=True, slots=True)
class _Row:
    """One variable of a condition: its path below the condition, how it is encoded, and what it means."""

    path: str
    type: Id
    data_type: Id
    meaning: str
    value: Any = None


_TEXT, _TIME = ua.LocalizedText(""), UTC_TIME
_ROWS: Final = (
    _Row("EventId", PROPERTY, BYTE_STRING, "Of the newest event of this condition."),
    _Row("Time", PROPERTY, _TIME, "When that event happened."),
    _Row("ReceiveTime", PROPERTY, _TIME, "When the server had it."),
    _Row("Message", PROPERTY, LOCALIZED_TEXT, "What happened, in words.", _TEXT),
    _Row("Severity", PROPERTY, UINT16, "How urgent it is, 1 to 1000.", 1),
    _Row("BranchId", PROPERTY, NODE_ID, "Null: this condition keeps no branches.", ua.NodeId()),
    _Row("Retain", PROPERTY, BOOLEAN, "Whether it is of interest now.", value=False),
    _Row("EnabledState", TWO_STATE, LOCALIZED_TEXT, "Whether it is watched.", ua.LocalizedText("Enabled")),
    _Row("EnabledState.Id", PROPERTY, BOOLEAN, "True: enabled.", value=True),
    _Row("EnabledState.EffectiveDisplayName", PROPERTY, LOCALIZED_TEXT, "All its states in words."),
    _Row("Quality", CONDITION_VARIABLE, STATUS_CODE, "Quality of the values behind it.", ua.StatusCode()),
    _Row("Quality.SourceTimestamp", PROPERTY, _TIME, "When the quality changed."),
    _Row("LastSeverity", CONDITION_VARIABLE, UINT16, "Severity before the last change.", 1),
    _Row("LastSeverity.SourceTimestamp", PROPERTY, _TIME, "When the severity changed."),
    _Row("Comment", CONDITION_VARIABLE, LOCALIZED_TEXT, "The last comment.", _TEXT),
    _Row("Comment.SourceTimestamp", PROPERTY, _TIME, "When it was made."),
    _Row("ClientUserId", PROPERTY, STRING, "Who did the last thing to it.", ""),
    _Row("AckedState", TWO_STATE, LOCALIZED_TEXT, "Whether somebody has seen it.", ua.LocalizedText("Acknowledged")),
    _Row("AckedState.Id", PROPERTY, BOOLEAN, "True: acknowledged.", value=True),
    _Row("AckedState.TransitionTime", PROPERTY, _TIME, "When that changed; null where it never did."),
    _Row("ConfirmedState", TWO_STATE, LOCALIZED_TEXT, "Whether somebody has acted.", ua.LocalizedText("Confirmed")),
    _Row("ConfirmedState.Id", PROPERTY, BOOLEAN, "True: confirmed.", value=True),
    _Row("ConfirmedState.TransitionTime", PROPERTY, _TIME, "When that changed; null where it never did."),
    _Row("ActiveState", TWO_STATE, LOCALIZED_TEXT, "Whether it is so now.", ua.LocalizedText("Inactive")),
    _Row("ActiveState.Id", PROPERTY, BOOLEAN, "True: active.", value=False),
    _Row("ActiveState.TransitionTime", PROPERTY, _TIME, "When that changed; null where it never did."),
    _Row("ActiveState.EffectiveDisplayName", PROPERTY, LOCALIZED_TEXT, "The same in words."),
    _Row("InputNode", PROPERTY, NODE_ID, "The value that is watched; null where it is not one value.", ua.NodeId()),
    _Row("SuppressedOrShelved", PROPERTY, BOOLEAN, "Never: nothing can be suppressed here.", value=False),
    _Row("NormalState", PROPERTY, NODE_ID, "Null: the normal state is no value of a node.", ua.NodeId()),
)
PATHS: Final = (
    "EventType",
    "SourceNode",
    "SourceName",
    "ConditionClassId",
    "ConditionClassName",
    "ConditionName",
    *(row.path for row in _ROWS),
)
"""Variables of a condition, by path."""


def condition_id(name: str, path: str = "") -> Id:
    """Node of a condition, or of one of its variables."""
    return Id(LOCAL, f"Condition.{name}.{path}" if path else f"Condition.{name}")


def condition_nodes(condition: ConditionConfig, *, parent: Id, source: Id, source_name: str) -> Iterator[Node]:
    """The condition and its variables, parents before children."""
    kind = HEALTH_ALARMS[condition.health]
    top = Node(
        condition_id(condition.name),
        sits_name(condition.name),
        ua.NodeClass.Object,
        condition.meaning,
        parent,
        HAS_COMPONENT,
        type=kind,
        links=tuple(Link(HAS_COMPONENT, method) for method in METHODS.values()),
        inverse=(Link(HAS_CONDITION, source),),
    )
    yield top
    fixed = (
        _Row("EventType", PROPERTY, NODE_ID, "Type of its events.", kind),
        _Row("SourceNode", PROPERTY, NODE_ID, "What it is about: the appliance.", source),
        _Row("SourceName", PROPERTY, STRING, "Name of the appliance.", source_name),
        _Row("ConditionClassId", PROPERTY, NODE_ID, "What kind of matter it is.", _CLASS),
        _Row("ConditionClassName", PROPERTY, LOCALIZED_TEXT, "The same in words.", ua.LocalizedText(_CLASS_NAME)),
        _Row("ConditionName", PROPERTY, STRING, "Its own name.", condition.name),
    )
    for row in (*fixed, *_ROWS):
        above, _, name = row.path.rpartition(".")
        yield Node(
            condition_id(condition.name, row.path),
            Name(UA, name),
            ua.NodeClass.Variable,
            row.meaning,
            condition_id(condition.name, above),
            HAS_PROPERTY if row.type == PROPERTY else HAS_COMPONENT,
            type=row.type,
            data_type=row.data_type,
            value=row.value,
        )
