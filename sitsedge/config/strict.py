"""What every configuration file is made of: strict objects, and the values that several of them use."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sitsedge.config.units import UNITS

Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Milliseconds = Annotated[float, Field(gt=0, le=3_600_000, allow_inf_nan=False)]
FIELDS_MAX = 64
"""Fields of one DataSet, and so inputs of one model that come from outside."""


class Strict(BaseModel):
    """Unknown keys are faults, values are not coerced, objects do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Quantity(Strict):
    """One field of the DataSet. ``unit`` must be the unit of the model's input of the same name."""

    name: FieldName
    unit: str

    @field_validator("unit")
    @classmethod
    def _known(cls, unit: str) -> str:
        if unit not in UNITS:
            raise ValueError(f"one of the units {', '.join(sorted(UNITS))}")
        return unit
