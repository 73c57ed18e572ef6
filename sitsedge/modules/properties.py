"""The part ``properties`` of a limits file: what has to hold for every input, in physical units.

    properties:
      - {kind: range, output: gap_correction, inside: [-0.4, 0.4]}
      - {kind: range, output: gap_correction, inside: [-0.1, 0.1], where: {strip_speed_dev: [-0.01, 0.01]}}
      - {kind: monotone, output: gap_correction, input: exit_thickness_dev, direction: increasing, tolerance: 0.002}
      - {kind: robust, output: gap_correction, inputs: {roll_force_dev: 0.05}, change: 0.02, rows: 32}

``range``: the output lies inside for every input in its range, or in ``where`` for the inputs named there.
``monotone``: raising the input alone never lowers (or raises) the output by more than ``tolerance``. Every rounding of
an integer model may be off by a half, so few networks have the property with a tolerance of 0.
``robust``: around ``rows`` calibration rows, evenly spaced, inputs within ``inputs`` of the row's, and all others
equal to it, move the output by at most ``change``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sitsedge.modules.numbers import NotNegative, Part, Positive, SignalName, Span

PROPERTIES_MAX = 64
"""Each may take its whole time limit at every build."""

ROWS_MAX = 1024
"""Every row is a question of its own."""

SECONDS_MAX = 3600.0

Where = Annotated[dict[SignalName, Part], Field(max_length=1024)]


class _Property(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    output: SignalName
    seconds: Annotated[float, Field(gt=0, le=SECONDS_MAX)] = 30.0


class RangeProperty(_Property):
    """The output stays inside, in physical units, over the box or the part of it that ``where`` names."""

    kind: Literal["range"]
    inside: Span
    where: Where = Field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.output} in [{self.inside[0]:g}, {self.inside[1]:g}]" + where_text(self.where)


class MonotoneProperty(_Property):
    """The output never moves against ``direction`` by more than ``tolerance`` when ``input`` alone rises."""

    kind: Literal["monotone"]
    input: SignalName
    direction: Literal["increasing", "decreasing"]
    tolerance: NotNegative = 0.0
    where: Where = Field(default_factory=dict)

    def __str__(self) -> str:
        text = f"{self.output} monotone {self.direction} in {self.input}"
        return text + (f", tolerance {self.tolerance:g}" if self.tolerance else "") + where_text(self.where)


class RobustProperty(_Property):
    """The output moves by at most ``change`` for inputs within ``inputs`` of a calibration row."""

    kind: Literal["robust"]
    inputs: Annotated[dict[SignalName, Positive], Field(min_length=1, max_length=1024)]
    change: NotNegative
    rows: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 64

    def __str__(self) -> str:
        near = ", ".join(f"{name} ± {size:g}" for name, size in self.inputs.items())
        return f"{self.output} moves by at most {self.change:g} around {self.rows} calibration rows for {near}"


Property = Annotated[RangeProperty | MonotoneProperty | RobustProperty, Field(discriminator="kind")]


def where_text(where: dict[str, tuple[float, float]]) -> str:
    """`` where a in [0, 1], b in …``, or nothing."""
    parts = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in where.items())
    return f" where {parts}" if parts else ""
