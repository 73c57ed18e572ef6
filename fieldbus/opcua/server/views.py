"""Browsing in bounded time. Written against asyncua 2.1.0.

asyncua walks the hierarchy of reference types anew for every reference it looks at, and follows a browse path with all
duplicates: between two nodes with two references of one name, each step back and forth doubles them.
"""

from __future__ import annotations

from typing import Any

from asyncua import ua
from asyncua.server.address_space import ViewService

_HAS_SUBTYPE = ua.NodeId(ua.ObjectIds.HasSubtype)
_ANY = ua.NodeId(ua.ObjectIds.Null)


class GuardedViews(ViewService):  # type: ignore[misc]
    """Subtypes are remembered as long as no node is added or removed; a place is visited once per step."""

    def __init__(self, aspace: Any) -> None:
        super().__init__(aspace)
        self._subtypes: dict[Any, frozenset[Any]] = {}
        self._nodes = 0

    def _suitable_reftype(self, ref1: Any, ref2: Any, subtypes: bool) -> bool:
        if ref1 in (_ANY, ref2):
            return True
        return bool(subtypes) and ref2 in self._below(ref1)

    def _below(self, kind: Any) -> frozenset[Any]:
        nodes = len(self._aspace.keys())
        if nodes != self._nodes:
            self._subtypes, self._nodes = {}, nodes
        found = self._subtypes.get(kind)
        if found is None:
            found = self._subtypes[kind] = frozenset(self._descend(kind))
        return found

    def _descend(self, kind: Any) -> set[Any]:
        found: set[Any] = set()
        waiting = [kind]
        while waiting:
            data = self._aspace.get(waiting.pop())
            for reference in data.references if data is not None else ():
                if reference.IsForward and reference.ReferenceTypeId == _HAS_SUBTYPE and reference.NodeId not in found:
                    found.add(reference.NodeId)
                    waiting.append(reference.NodeId)
        return found

    def _navigate(self, start_nodeid: Any, elements: list[Any]) -> list[Any]:
        places = [start_nodeid]
        for element in elements:
            known = [place for place in places if place in self._aspace]
            found = (target for place in known for target in self._find_elements_in_node(element, place))
            places = list(dict.fromkeys(found))
        return places
