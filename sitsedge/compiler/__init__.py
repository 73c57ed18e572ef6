"""Compiles float ONNX networks into signed bundles of integer artefacts that agree bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sitsedge.compiler.errors import (
    CalibrationError,
    CompileError,
    InputRangeError,
    OnnxImportError,
    QuantiseError,
    SelfTestError,
)

if TYPE_CHECKING:
    from sitsedge.compiler.pipeline import BuildResult, Compiled, build, compile_model
    from sitsedge.compiler.quantise import Goal

_LATER = {
    "BuildResult": "pipeline",
    "Compiled": "pipeline",
    "build": "pipeline",
    "compile_model": "pipeline",
    "Goal": "quantise",
}

__all__ = [
    "BuildResult",
    "CalibrationError",
    "CompileError",
    "Compiled",
    "Goal",
    "InputRangeError",
    "OnnxImportError",
    "QuantiseError",
    "SelfTestError",
    "build",
    "compile_model",
]


def __getattr__(name: str) -> object:
    """Load the compiler only for who compiles: everything else takes its errors."""
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module(f"sitsedge.compiler.{_LATER[name]}"), name)
