"""The bundle's config blob: what the model's numbers mean and what runs and proves it (schema version 2).

Version 1 had no relaxed-SIMD module; ``require_version`` refuses it by name, because the remedy is to build again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from attest.command import ProofKind
from attest.proof.circuit import Curve, CurveName
from sitsedge.modules import strict_json
from sitsedge.modules.errors import BundleError
from sitsedge.modules.limits import InputLimits, Limits, OutputLimits
from sitsedge.modules.numbers import SignalName, to_counts

SCHEMA_VERSION = 2

Sha256Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Signal(_Strict):
    """One input or output: physical value = counts × ``scale``; ``range`` in physical units.

    For an output ``range`` is the limits file's ``limits``. ``max_rate`` is physical units per second.
    """

    name: SignalName
    unit: str
    scale: float
    range: tuple[float, float]
    max_rate: float | None = None

    @classmethod
    def of(cls, signal: InputLimits | OutputLimits) -> Signal:
        """From the limits file's entry."""
        span = signal.range if isinstance(signal, InputLimits) else signal.limits
        return cls(name=signal.name, unit=signal.unit, scale=signal.scale, range=span, max_rate=signal.max_rate)

    @property
    def counts(self) -> tuple[int, int]:
        """``range`` in counts (round half to even)."""
        return to_counts(self.range[0], self.scale), to_counts(self.range[1], self.scale)


class Proof(_Strict):
    """The proof system and its keys. ``development`` is true exactly when nobody contributed to the key."""

    curve: CurveName
    vk_sha256: Sha256Hex
    pk_sha256: Sha256Hex
    contributors: Annotated[int, Field(ge=0)]
    development: bool
    constraints: Annotated[int, Field(ge=1)]

    @property
    def kind(self) -> ProofKind:
        """What a command with a proof under these keys names as its proof kind; the numbers are the curves'."""
        return ProofKind(int(Curve.named(self.curve)))


class Guest(_Strict):
    """Guest ABI and, the larger of both WASM modules: memory, and the fuel one call used in the self-test."""

    abi: Annotated[int, Field(ge=1, le=1)]  # a Literal would take true for 1
    memory_bytes: Annotated[int, Field(ge=65536, le=1 << 30)]
    fuel_per_call: Annotated[int, Field(ge=1, le=1 << 40)]


class Source(_Strict):
    """Digests of the files the bundle was built from."""

    onnx_sha256: Sha256Hex
    calibration_sha256: Sha256Hex
    limits_sha256: Sha256Hex


class BundleConfig(_Strict):
    """The whole config."""

    schema_version: Literal[2]
    name: SignalName
    compiler: str
    inputs: Annotated[tuple[Signal, ...], Field(min_length=1, max_length=1024)]
    outputs: Annotated[tuple[Signal, ...], Field(min_length=1, max_length=1024)]
    guest: Guest
    proof: Proof
    source: Source

    def matches(self, limits: Limits) -> bool:
        """Whether the signals are those of the limits file in the bundle."""
        return self.inputs == tuple(map(Signal.of, limits.inputs)) and self.outputs == tuple(
            map(Signal.of, limits.outputs)
        )


def require_version(config: bytes) -> None:
    """Refuse the config of an older format with what to do about it; raises ``BundleError`` (``bundle-version``).

    Anything else that is wrong with it is left to the parser.
    """
    value = strict_json.decode(config, "config")
    found = value.get("schema_version") if isinstance(value, dict) else None
    if type(found) is int and 1 <= found < SCHEMA_VERSION:
        raise BundleError(
            "bundle-version",
            found=f"a bundle of format {found}",
            expected=f"format {SCHEMA_VERSION}",
            hint="build the module again with sitsctl module build",
        )
