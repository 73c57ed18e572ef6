"""The limits file: which signals the model has, their units, scales and allowed ranges.

YAML, read by ``sitsedge.config.source``, so every fault carries file, line and column. Counts follow the
evidence rules §1: ``x = round_half_even(raw / scale)``, int16 for inputs, int32 for outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sitsedge.config.source import ConfigError, ConfigFault, Path_, VersionOne, dotted, load_model, positions_of
from sitsedge.config.units import UNITS
from sitsedge.modules.numbers import Positive, SignalName, Span, to_counts
from sitsedge.modules.properties import PROPERTIES_MAX, MonotoneProperty, Property, RobustProperty

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1

SIGNALS_MAX = 1024
"""Most inputs or outputs: the circuit format's limit."""


def _known_unit(value: str) -> str:
    if value not in UNITS:
        raise ValueError(f"one of {', '.join(sorted(UNITS))}")
    return value


Unit = Annotated[str, AfterValidator(_known_unit)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InputLimits(_Strict):
    """One input: ``scale`` physical units per count, allowed ``range``, largest change per second."""

    name: SignalName
    unit: Unit
    scale: Positive
    range: Span
    max_rate: Positive | None = None

    @model_validator(mode="after")
    def _fits(self) -> InputLimits:
        _check_counts(self.range, self.scale, INT16_MIN, INT16_MAX)
        return self

    @property
    def counts(self) -> tuple[int, int]:
        """The range in counts."""
        return to_counts(self.range[0], self.scale), to_counts(self.range[1], self.scale)


class OutputLimits(_Strict):
    """One output: ``scale`` physical units per count, allowed ``limits``, largest change per second."""

    name: SignalName
    unit: Unit
    scale: Positive
    limits: Span
    max_rate: Positive | None = None

    @model_validator(mode="after")
    def _fits(self) -> OutputLimits:
        _check_counts(self.limits, self.scale, INT32_MIN, INT32_MAX)
        return self

    @property
    def counts(self) -> tuple[int, int]:
        """The limits in counts."""
        return to_counts(self.limits[0], self.scale), to_counts(self.limits[1], self.scale)


def _check_counts(span: tuple[float, float], scale: float, low: int, high: int) -> None:
    with np.errstate(over="ignore"):
        ends = [np.float64(end) / np.float64(scale) for end in span]
    if not (low <= ends[0] and ends[1] <= high):
        raise ValueError(f"a range of {low} … {high} counts; this scale gives {ends[0]:.6g} … {ends[1]:.6g}")
    if np.rint(ends[0]) == np.rint(ends[1]):
        raise ValueError("a range of more than one count; choose a finer scale")


class Limits(_Strict):
    """The whole file. Inputs and outputs are in the order of the model's tensors."""

    version: VersionOne
    inputs: Annotated[tuple[InputLimits, ...], Field(min_length=1, max_length=SIGNALS_MAX)]
    outputs: Annotated[tuple[OutputLimits, ...], Field(min_length=1, max_length=SIGNALS_MAX)]
    properties: Annotated[tuple[Property, ...], Field(max_length=PROPERTIES_MAX)] = ()

    @model_validator(mode="after")
    def _unique(self) -> Limits:
        for side in (self.inputs, self.outputs):
            names = [signal.name for signal in side]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"every name once among the inputs and once among the outputs; {twice} is there twice")
        return self

    @property
    def box(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lowest and highest counts of the inputs, each (n,)."""
        ends = np.array([signal.counts for signal in self.inputs], dtype=np.int64)
        return ends[:, 0], ends[:, 1]


def read_limits(path: Path) -> Limits:
    """Read a limits file; raises ``sitsedge.config.source.ConfigError`` listing every fault by line."""
    limits = load_model(path, Limits)
    faults = list(_property_faults(limits))
    if faults:
        positions = positions_of(path)
        raise ConfigError(
            [
                ConfigFault(str(path), *positions.get(where, (1, 1)), dotted(where), found, expected)
                for where, found, expected in faults
            ]
        )
    return limits


def _property_faults(limits: Limits) -> Iterator[tuple[Path_, str, str]]:
    """Place, found and expected of every name or part of a range in the properties that the signals do not have."""
    outputs = {signal.name for signal in limits.outputs}
    inputs = {signal.name: signal for signal in limits.inputs}
    for i, item in enumerate(limits.properties):
        at: Path_ = ("properties", i)
        if item.output not in outputs:
            yield (*at, "output"), repr(item.output), "the name of an output"
        if isinstance(item, MonotoneProperty) and item.input not in inputs:
            yield (*at, "input"), repr(item.input), "the name of an input"
        key, parts = ("inputs", item.inputs) if isinstance(item, RobustProperty) else ("where", item.where)
        for name, part in parts.items():
            if name not in inputs:
                yield (*at, key, name), repr(name), "the name of an input"
                continue
            low, high = inputs[name].range
            if isinstance(part, tuple) and not (low <= part[0] and part[1] <= high):
                yield (*at, key, name), f"[{part[0]:g}, {part[1]:g}]", f"a part of its range [{low:g}, {high:g}]"
