"""Monitored items of one subscription: one request a tag, filters, and what the server made of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncua import ua

from fieldbus.opcua.findings import Finding, ItemRevision, named
from fieldbus.opcua.options import Deadband, DeadbandKind, ItemOptions, SubscriptionOptions, Trigger

ITEMS_PER_CALL = 250
"""Items in one service call: small servers refuse calls with more than a few hundred."""

SAMPLING_MS_MAX = 3.6e6
"""A revised sampling interval above an hour is nonsense."""

QUEUE_MAX = 0xFFFF_FFFF

FILTER_REFUSED = frozenset(
    {
        ua.StatusCodes.BadDeadbandFilterInvalid,
        ua.StatusCodes.BadFilterNotAllowed,
        ua.StatusCodes.BadMonitoredItemFilterInvalid,
        ua.StatusCodes.BadMonitoredItemFilterUnsupported,
    }
)
"""The item would do, its filter does not."""

_TRIGGERS = {
    Trigger.STATUS: ua.DataChangeTrigger.Status,
    Trigger.STATUS_VALUE: ua.DataChangeTrigger.StatusValue,
    Trigger.STATUS_VALUE_TIMESTAMP: ua.DataChangeTrigger.StatusValueTimestamp,
}
_DEADBANDS = {
    DeadbandKind.ABSOLUTE: ua.DeadbandType.Absolute,
    DeadbandKind.PERCENT: ua.DeadbandType.Percent,
}


@dataclass(frozen=True, slots=True)
class Item:
    """A tag that the server monitors. ``threshold``: its deadband as a difference of values, None without one or where
    only the server knows the range."""

    identifier: int
    revision: ItemRevision
    threshold: float | None = None


@dataclass(slots=True)
class Monitored:
    """What came of monitoring some tags."""

    items: dict[str, Item] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    no_range: list[str] = field(default_factory=list)
    no_filter: list[str] = field(default_factory=list)
    here: list[str] = field(default_factory=list)

    def findings(self) -> list[Finding]:
        """Findings ``deadband-no-range``, ``deadband-refused``, ``deadband-here``."""
        texts = (
            ("deadband-no-range", self.no_range, "a deadband in percent needs an EURange, which is missing for"),
            ("deadband-refused", self.no_filter, "the server refuses the deadband of"),
            ("deadband-here", self.here, "the server has no such deadband; filtered on this side:"),
        )
        return [Finding(code, f"{text} {named(tags)}") for code, tags, text in texts if tags]


async def monitor(
    session: Any, identifier: int, tags: Sequence[str], nodes: Mapping[str, Any], options: SubscriptionOptions
) -> Monitored:
    """Have subscription ``identifier`` monitor every tag that has a node; handles are positions in ``tags``.

    A tag whose deadband the server cannot do is in ``refused`` (Bad_DeadbandFilterInvalid or the server's own code),
    unless its options let it be filtered here.
    """
    result = Monitored()
    wanted = {tag: options.of(tag) for tag in tags if tag in nodes}
    percent = {tag: nodes[tag] for tag, item in wanted.items() if _is_percent(item.deadband)}
    spans = await eu_spans(session, percent) if percent else {}
    first: dict[str, bool] = {}  # tag → with its deadband
    for tag, item in wanted.items():
        if tag not in percent or tag in spans:
            first[tag] = True
        elif item.deadband is not None and item.deadband.here and item.deadband.span is not None:
            first[tag] = False
        else:
            result.no_range.append(tag)
            result.refused[tag] = int(ua.StatusCodes.BadDeadbandFilterInvalid)
    again = await _create(session, identifier, tags, nodes, wanted, first, spans, result)
    if again:
        await _create(session, identifier, tags, nodes, wanted, dict.fromkeys(again, False), spans, result)
    return result


def _is_percent(deadband: Deadband | None) -> bool:
    return deadband is not None and deadband.kind is DeadbandKind.PERCENT


async def _create(
    session: Any,
    identifier: int,
    tags: Sequence[str],
    nodes: Mapping[str, Any],
    wanted: Mapping[str, ItemOptions],
    chosen: Mapping[str, bool],
    spans: Mapping[str, float],
    result: Monitored,
) -> list[str]:
    """Create items; returns the tags whose deadband was refused and may be done here."""
    handles = {tag: handle for handle, tag in enumerate(tags)}
    names = list(chosen)
    again: list[str] = []
    for start in range(0, len(names), ITEMS_PER_CALL):
        part = names[start : start + ITEMS_PER_CALL]
        parameters = ua.CreateMonitoredItemsParameters()
        parameters.SubscriptionId = identifier
        parameters.TimestampsToReturn = ua.TimestampsToReturn.Both
        parameters.ItemsToCreate = [
            _request(handles[tag], nodes[tag], wanted[tag], with_deadband=chosen[tag]) for tag in part
        ]
        answers = await session.create_monitored_items(parameters)
        for tag, answer in zip(part, answers, strict=True):
            status = int(answer.StatusCode.value)
            deadband = wanted[tag].deadband
            if answer.StatusCode.is_good():
                revision = ItemRevision(_sampling(answer.RevisedSamplingInterval), int(answer.RevisedQueueSize))
                result.items[tag] = Item(int(answer.MonitoredItemId), revision, _threshold(deadband, spans.get(tag)))
                if deadband is not None and not chosen[tag]:
                    result.here.append(tag)
            elif deadband is not None and status in FILTER_REFUSED and chosen[tag] and deadband.here:
                again.append(tag)
            else:
                result.refused[tag] = status
                if deadband is not None and status in FILTER_REFUSED:
                    result.no_filter.append(tag)
    return again


def _request(handle: int, node_id: Any, item: ItemOptions, *, with_deadband: bool) -> Any:
    assert item.sampling_ms is not None
    assert item.queue is not None
    assert item.trigger is not None
    request = ua.MonitoredItemCreateRequest()
    request.ItemToMonitor.NodeId = node_id
    request.ItemToMonitor.AttributeId = ua.AttributeIds.Value
    request.MonitoringMode = ua.MonitoringMode.Reporting
    request.RequestedParameters.ClientHandle = handle
    request.RequestedParameters.SamplingInterval = item.sampling_ms
    request.RequestedParameters.QueueSize = item.queue
    request.RequestedParameters.DiscardOldest = item.discard_oldest
    deadband = item.deadband if with_deadband else None
    if deadband is not None or item.trigger is not Trigger.STATUS_VALUE:
        change = ua.DataChangeFilter()
        change.Trigger = _TRIGGERS[item.trigger]
        if deadband is not None:
            change.DeadbandType = _DEADBANDS[deadband.kind]
            change.DeadbandValue = deadband.value
        request.RequestedParameters.Filter = change
    return request


def _sampling(revised: float) -> float:
    """A server's sampling interval as a number to reckon with; negative or not a number means nonsense: the slowest."""
    interval = float(revised)
    return interval if 0 <= interval <= SAMPLING_MS_MAX else SAMPLING_MS_MAX


def _threshold(deadband: Deadband | None, span: float | None) -> float | None:
    if deadband is None:
        return None
    if deadband.kind is DeadbandKind.ABSOLUTE:
        return deadband.value
    width = span if span is not None else deadband.span
    return None if width is None else width * deadband.value / 100


async def eu_spans(session: Any, nodes: Mapping[str, Any]) -> dict[str, float]:
    """High − low of the EURange property (OPC 10000-8, 5.3.2.3) of those nodes that have a usable one."""
    paths = []
    for node_id in nodes.values():
        path = ua.BrowsePath()
        path.StartingNode = node_id
        element = ua.RelativePathElement()
        element.ReferenceTypeId = ua.NodeId(ua.ObjectIds.HasProperty)
        element.IncludeSubtypes = True
        element.IsInverse = False
        element.TargetName = ua.QualifiedName("EURange", 0)
        path.RelativePath.Elements.append(element)
        paths.append(path)
    results = await session.translate_browsepaths_to_nodeids(paths)
    found = {
        tag: result.Targets[0].TargetId
        for tag, result in zip(nodes, results, strict=True)
        if result.StatusCode.is_good() and result.Targets
    }
    if not found:
        return {}
    parameters = ua.ReadParameters()
    for node_id in found.values():
        item = ua.ReadValueId()
        item.NodeId, item.AttributeId = node_id, ua.AttributeIds.Value
        parameters.NodesToRead.append(item)
    spans: dict[str, float] = {}
    for tag, value in zip(found, await session.read(parameters), strict=True):
        content = value.Value.Value if value.Value is not None else None
        if isinstance(content, ua.Range):
            span = float(content.High) - float(content.Low)
            if math.isfinite(span) and span > 0:
                spans[tag] = span
    return spans
