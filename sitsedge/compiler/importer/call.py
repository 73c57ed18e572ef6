"""One ONNX node as its operator sees it: attributes all accounted for, inputs that are constant or computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from sitsedge.compiler.importer.builder import Builder, Data, Value
from sitsedge.compiler.importer.limits import RANK_MAX, refuse, shown
from sitsedge.compiler.importer.tensors import Array, TensorReader

_A = onnx.AttributeProto
INTS_MAX = 4096
"""Most integers of one attribute or of one shape input."""


@dataclass(slots=True, eq=False)
class Call:
    """``inputs`` has None for an optional input that is left out; getters mark the attributes they read."""

    node: Any
    opset: int
    builder: Builder
    reader: TensorReader
    inputs: list[Value | None]
    may_be_quantised: bool = False
    _attributes: dict[str, Any] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for attribute in self.node.attribute:
            if attribute.name in self._attributes:
                raise refuse("attribute", f"attribute {shown(attribute.name)!r} twice", "each attribute once")
            self._attributes[attribute.name] = attribute

    # Inputs

    def has(self, index: int) -> bool:
        """Is input ``index`` given?"""
        return index < len(self.inputs) and self.inputs[index] is not None

    def is_data(self, index: int) -> bool:
        """Is input ``index`` computed from the model's input?"""
        return self.has(index) and isinstance(self.inputs[index], Data)

    def arity(self, low: int, high: int) -> None:
        """Refuse other numbers of inputs, and more than one output that is used."""
        if not low <= len(self.inputs) <= high or any(not self.has(i) for i in range(low)):
            raise refuse("node-shape", f"{len(self.inputs)} inputs", f"{low} to {high} inputs")

    def data(self, index: int = 0) -> Data:
        """Computed input ``index``."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, Data):
            raise refuse(
                "not-computed",
                f"input {index} is {'missing' if value is None else 'a constant'}",
                "the data as this input",
                "swap the factors or fold the constant into the model",
            )
        if value.quantised is not None and not self.may_be_quantised:
            raise refuse(
                "quantised",
                f"input {index} is an integer between QuantizeLinear and DequantizeLinear",
                "a real value",
                "export in QDQ format: every operator between DequantizeLinear and QuantizeLinear",
            )
        return value

    def constant(self, index: int) -> Array:
        """Constant input ``index``."""
        value = self.optional(index)
        if value is None:
            raise refuse("not-constant", f"input {index} is missing", "a constant of the file")
        return value

    def optional(self, index: int) -> Array | None:
        """Constant input ``index``, None where it is left out."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, Data):
            raise refuse(
                "not-constant",
                f"input {index} is computed from the model's input",
                "a constant of the file",
                "only the data may vary; weights, bounds and shapes must be constants",
            )
        return value

    def real(self, index: int) -> Array:
        """Constant input ``index`` as float64."""
        return np.asarray(self.constant(index), np.float64)

    def scalar(self, index: int, default: float) -> float:
        """The one number of constant input ``index``."""
        value = self.optional(index)
        if value is None:
            return default
        if value.size != 1:
            raise refuse("node-shape", f"input {index} of shape {list(value.shape)}", "one number")
        return float(value.reshape(-1)[0])

    def input_ints(self, index: int) -> list[int] | None:
        """Constant input ``index`` as a list of integers."""
        value = self.optional(index)
        if value is None:
            return None
        if value.dtype.kind not in "iu" or value.ndim > 1 or value.size > INTS_MAX:
            raise refuse("node-shape", f"input {index} of {value.dtype} {list(value.shape)}", "a list of integers")
        return [int(v) for v in value.reshape(-1)]

    def ints_anywhere(self, name: str, index: int) -> list[int] | None:
        """Integers that are an attribute in old opsets and an input in new ones."""
        listed = self.input_ints(index)
        found = self.ints(name)
        if listed is not None and found is not None:
            raise refuse("attribute", f"{name} as attribute and as input", f"{name} once")
        return found if listed is None else listed

    # Attributes

    def _get(self, name: str, kind: int) -> Any:
        self._read.add(name)
        attribute = self._attributes.get(name)
        if attribute is not None and attribute.type != kind:
            raise refuse("attribute", f"attribute {name} of another type", f"{name} as the operator defines it")
        return attribute

    def integer(self, name: str, default: int) -> int:
        """Integer attribute."""
        attribute = self._get(name, _A.INT)
        return default if attribute is None else int(attribute.i)

    def number(self, name: str, default: float) -> float:
        """Finite float attribute."""
        attribute = self._get(name, _A.FLOAT)
        value = default if attribute is None else float(attribute.f)
        if not np.isfinite(value):
            raise refuse("attribute", f"{name} = {value}", "a finite number")
        return value

    def text(self, name: str, default: str) -> str:
        """String attribute."""
        attribute = self._get(name, _A.STRING)
        return default if attribute is None else shown(bytes(attribute.s).decode("utf-8", "replace"))

    def ints(self, name: str) -> list[int] | None:
        """Integer-list attribute."""
        attribute = self._get(name, _A.INTS)
        if attribute is None:
            return None
        if len(attribute.ints) > INTS_MAX:
            raise refuse("attribute", f"{name} of {len(attribute.ints)} integers", f"at most {INTS_MAX}")
        return [int(v) for v in attribute.ints]

    def floats(self, name: str) -> Array | None:
        """Float-list attribute as float64."""
        attribute = self._get(name, _A.FLOATS)
        if attribute is None:
            return None
        values = np.asarray(attribute.floats, np.float64)
        if not np.all(np.isfinite(values)):
            raise refuse("tensor-value", f"NaN or infinity in {name}", "finite values")
        return values

    def tensor(self, name: str) -> Array | None:
        """Tensor attribute."""
        attribute = self._get(name, _A.TENSOR)
        return None if attribute is None else self.reader.read(attribute.t, f"attribute {name}")

    def ignore(self, *names: str) -> None:
        """Attributes without meaning for inference."""
        self._read.update(names)

    def done(self) -> None:
        """Refuse attributes nobody read: their meaning would be lost in silence."""
        unread = sorted(set(self._attributes) - self._read)
        if unread:
            raise refuse(
                "attribute",
                f"attributes {[shown(name) for name in unread[:6]]}",
                f"only {sorted(self._read)}" if self._read else "no attribute",
            )

    # Shapes

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front."""
        if not -rank <= axis < rank:
            raise refuse("node-shape", f"axis {axis}", f"an axis of rank {rank}")
        return axis % rank

    def axes(self, axes: list[int], rank: int) -> list[int]:
        """Distinct axes counted from the front, sorted."""
        made = sorted(self.axis(a, rank) for a in axes)
        if len(set(made)) != len(made) or len(made) > RANK_MAX:
            raise refuse("node-shape", f"axes {axes[:8]}", f"distinct axes of rank {rank}")
        return made
