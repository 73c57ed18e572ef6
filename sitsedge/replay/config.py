"""The replay process' configuration file: what to play, how fast, and who may listen. No secrets, only paths."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from sitsedge.config.gatefile import Finite
from sitsedge.config.strict import FIELDS_MAX, Strict

SPEED_MAX = 1000.0


class ReplayColumn(Strict):
    """One column of the recording and the variable it is played to. ``path``: below Objects, ``Folder/Variable``.

    ``low`` and ``high`` become the variable's EURange, ``unit`` its EngineeringUnits.
    """

    column: Annotated[str, Field(min_length=1, max_length=255)]
    path: Annotated[str, Field(pattern=r"^[^/]+(/[^/]+){0,7}$", max_length=255)]
    unit: Annotated[str, Field(max_length=32)] = ""
    low: Finite
    high: Finite

    @model_validator(mode="after")
    def _range(self) -> ReplayColumn:
        if self.low >= self.high:
            raise ValueError("low < high")
        return self


class ReplayConfig(Strict):
    """A whole replay file, version 1. Paths are relative to the configuration file unless absolute.

    ``speed``: recorded seconds per second, or ``max``. ``start``: at once, or when someone has subscribed to
    every column. ``gap_s_max``: a longer pause in the recording (recorded seconds) is shortened to this.
    ``lead_s``: wait this long between that start and the first row. ``journal``: a CSV written beside the replay
    that says which row was played under which source timestamp; it holds none of the recorded values.
    """

    version: Literal[1]
    recordings: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=1024)]
    columns: Annotated[list[ReplayColumn], Field(min_length=1, max_length=FIELDS_MAX)]
    time_column: Annotated[str, Field(min_length=1, max_length=255)] = "datetime"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ";"
    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+:\d+(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    certificate: str
    private_key: str
    trusted: str
    speed: Annotated[float, Field(gt=0, le=SPEED_MAX, allow_inf_nan=False)] | Literal["max"] = 1.0
    start: Literal["at-once", "on-subscription"] = "on-subscription"
    lead_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0.0
    gap_s_max: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 5.0
    journal: str | None = None
    run_dir: str
    log_dir: str | None = None

    @field_validator("delimiter")
    @classmethod
    def _delimiter(cls, delimiter: str) -> str:
        if delimiter in '"\r\n':
            raise ValueError("a character that is no quote and no line end")
        return delimiter

    @model_validator(mode="after")
    def _distinct(self) -> ReplayConfig:
        for what, names in (("column", [c.column for c in self.columns]), ("path", [c.path for c in self.columns])):
            if len(set(names)) != len(names):
                raise ValueError(f"each {what} once")
        return self
