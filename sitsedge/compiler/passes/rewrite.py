"""The graph while a pass changes it: nodes by name, how often each value is read, renamed values."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

from sitsedge.compiler.graph.float_graph import FloatGraph, Node


class Rewrite:
    """Mutable view of a ``FloatGraph``; ``finish`` puts what is still needed back in order.

    A pass replaces the node that makes a value by another that makes the same value (``put``), or says that a value
    is another one (``alias``). Nodes nobody reads any more disappear.
    """

    def __init__(self, graph: FloatGraph) -> None:
        self._graph = graph
        self.nodes: dict[str, Node] = dict(graph.by_name())
        self.output = graph.output
        self.changed = False
        self._readers = _readers(self.nodes)

    def producer(self, node: Node, index: int = 0) -> Node:
        """The node making input ``index`` of ``node``."""
        return self.nodes[node.inputs[index]]

    def uses(self, name: str) -> int:
        """How often the value is read; leaving the graph counts once."""
        readers = self._readers.get(name, Counter())
        return sum(readers.values()) + (name == self.output)

    def once(self, node: Node) -> bool:
        """Is the node's value read exactly once?"""
        return self.uses(node.name) == 1

    def put(self, node: Node) -> None:
        """``node`` makes the value of its name from now on; what only the old node read is dropped."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        for name in node.inputs:
            self._readers.setdefault(name, Counter())[node.name] += 1
        if old is not None:
            self._release(old)
        self.changed = True

    def alias(self, name: str, other: str) -> None:
        """Readers of ``name`` read ``other``; the node ``name`` is gone."""
        for reader in list(self._readers.pop(name, ())):
            node = self.nodes[reader]
            self.nodes[reader] = replace(node, inputs=tuple(other if i == name else i for i in node.inputs))
            self._readers.setdefault(other, Counter())[reader] += node.inputs.count(name)
        if self.output == name:
            self.output = other
        self._release(self.nodes.pop(name))
        self.changed = True

    def _release(self, node: Node) -> None:
        """Forget that ``node`` reads its inputs, and drop producers nobody reads."""
        todo = [(node.name, name) for name in node.inputs]
        while todo:
            reader, name = todo.pop()
            readers = self._readers.get(name)
            if readers is None:
                continue
            readers[reader] -= 1
            if readers[reader] <= 0:
                del readers[reader]
            if not readers and name != self.output and name != self._graph.nodes[0].name and name in self.nodes:
                dropped = self.nodes.pop(name)
                todo.extend((dropped.name, inner) for inner in dropped.inputs)

    def fresh(self, base: str) -> str:
        """An unused value name."""
        number = 0
        while (name := f"{base}'{number}") in self.nodes:
            number += 1
        return name

    def finish(self) -> FloatGraph:
        """The changed graph, or the old one where nothing changed."""
        if not self.changed:
            return self._graph
        first = self._graph.nodes[0]
        ordered = _sorted(self.nodes, first.name)
        kept = _reachable(self.nodes, self.output) | {first.name}
        nodes = tuple(node for node in ordered if node.name in kept)
        remembered = tuple(scale for scale in self._graph.remembered if scale.value in kept)
        return replace(self._graph, nodes=nodes, output=self.output, remembered=remembered)


def _readers(nodes: dict[str, Node]) -> dict[str, Counter[str]]:
    readers: dict[str, Counter[str]] = {}
    for node in nodes.values():
        for name in node.inputs:
            readers.setdefault(name, Counter())[node.name] += 1
    return readers


def _reachable(nodes: dict[str, Node], output: str) -> set[str]:
    found: set[str] = set()
    todo = [output]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(nodes[name].inputs)
    return found


def _sorted(nodes: dict[str, Node], first: str) -> list[Node]:
    """Kahn's algorithm; the input comes first, ties keep the order of ``nodes``."""
    waits = {name: len(set(node.inputs)) for name, node in nodes.items()}
    readers = _readers(nodes)
    ready = deque([first, *(name for name, count in waits.items() if not count and name != first)])
    ordered: list[Node] = []
    while ready:
        name = ready.popleft()
        ordered.append(nodes[name])
        for reader in readers.get(name, ()):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    assert len(ordered) == len(nodes), "a pass keeps the graph acyclic"
    return ordered
