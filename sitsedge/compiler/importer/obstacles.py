"""Everything about a file's operators and input that is in the way, found at once, before anything is imported.

An engineer who is told of one operator at a time exports a model ten times. What only shows with values (shapes that do
not fit, a softmax inside, numbers out of range) is still refused where it is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.importer.constants import OTHERS, RULES
from sitsedge.compiler.importer.limits import label, refuse, shown
from sitsedge.compiler.importer.registry import (
    ADVICE,
    ADVICE_OTHERS,
    DEFAULT_DOMAINS,
    ML_DOMAIN,
    ML_OPERATORS,
    OPERATORS,
    SUPPORTED,
    Lower,
)

GROUPS_MAX = 12
NODES_SHOWN_MAX = 3
"""So many operators, and so many nodes of each, are named beside the first; a message must stay readable."""


def lowering(node: Any) -> Lower:
    """How a node that computes something is imported; raises ``OnnxImportError`` where it is not."""
    table = OPERATORS if node.domain in DEFAULT_DOMAINS else ML_OPERATORS if node.domain == ML_DOMAIN else {}
    found = table.get(node.op_type)
    if found is None:
        domain = "" if node.domain in DEFAULT_DOMAINS else f"{shown(node.domain)}."
        raise refuse(
            "unsupported-operator",
            f"{domain}{shown(node.op_type)}",
            SUPPORTED,
            ADVICE.get(node.op_type, ADVICE_OTHERS),
        )
    return found


def require_importable(nodes: Iterable[tuple[int, Any]], data: set[str], check_input: Callable[[], object]) -> None:
    """Refuse a file with an operator that is neither imported nor folded, and name all of them.

    ``nodes`` are in order of computation, ``data`` the names of computed values at the start, ``check_input`` refuses
    an input that does not fit. Raises ``OnnxImportError`` for the first node, or what ``check_input`` raises.
    """
    found = list(unknown(nodes, data))
    try:
        check_input()
    except OnnxImportError as refused:
        if not found:
            raise
        rest = [f"the input: {refused.found}, not {refused.expected}"]
    else:
        rest = []
    if found:
        first = found[0]
        first.others = (*grouped(found[1:]), *rest)
        raise first


def unknown(nodes: Iterable[tuple[int, Any]], given: set[str]) -> Iterator[OnnxImportError]:
    """A refusal for every node that is neither imported nor folded; ``given`` are the names of the model's inputs."""
    data = set(given)
    for index, node in nodes:
        default = node.domain in DEFAULT_DOMAINS
        if default and node.op_type in OTHERS:
            continue
        computed = any(name in data for name in node.input)
        if computed:
            data.update(node.output)
        if default and not computed and node.op_type in RULES:
            continue
        try:
            lowering(node)
        except OnnxImportError as refused:
            refused.node, refused.operator = label(index, node), shown(node.op_type)
            yield refused


def grouped(found: list[OnnxImportError]) -> tuple[str, ...]:
    """One entry for each operator with some of its nodes."""
    groups: dict[str, list[str]] = {}
    for refused in found:
        groups.setdefault(refused.operator, []).append(repr(refused.node))
    texts = []
    for operator, names in list(groups.items())[:GROUPS_MAX]:
        more = f" and {len(names) - NODES_SHOWN_MAX} more" if len(names) > NODES_SHOWN_MAX else ""
        texts.append(f"{operator} at {', '.join(names[:NODES_SHOWN_MAX])}{more}")
    return (*texts, f"{len(groups) - GROUPS_MAX} operators more") if len(groups) > GROUPS_MAX else tuple(texts)
