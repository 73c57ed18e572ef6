"""Compiles float ONNX networks into signed bundles of integer artefacts that agree bit for bit."""

from __future__ import annotations

from sitsedge.compiler.errors import (
    CalibrationError,
    CompileError,
    InputRangeError,
    OnnxImportError,
    QuantiseError,
    SelfTestError,
)
from sitsedge.compiler.pipeline import BuildResult, Compiled, build, compile_model
from sitsedge.compiler.quantise import Goal

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
