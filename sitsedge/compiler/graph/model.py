"""What a model is to those who only run it: inputs in a box, counts in, counts out. Chains and graphs are both that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.reference import Ints


class Executable(Protocol):
    """An integer model: ``IntegerModel`` or ``GraphModel``. The box bounds are flat, (inputs,)."""

    @property
    def n_inputs(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def box_low(self) -> Ints: ...

    @property
    def box_high(self) -> Ints: ...

    def run(self, x: NDArray[np.integer]) -> Ints:
        """Outputs for (inputs,) or (rows, inputs) inside the box; raises ``InputRangeError`` outside."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GraphModel:
    """An integer graph as an ``Executable``."""

    graph: IntegerGraph

    @property
    def n_inputs(self) -> int:
        return self.graph.n_inputs

    @property
    def n_outputs(self) -> int:
        return self.graph.n_outputs

    @property
    def box_low(self) -> Ints:
        return self.graph.input.box_low.reshape(-1)

    @property
    def box_high(self) -> Ints:
        return self.graph.input.box_high.reshape(-1)

    def run(self, x: NDArray[np.integer]) -> Ints:
        """As ``graph.reference.run``."""
        return run(self.graph, x)
