"""Typed refusals of the compiler; each says where, what was found, what was expected and what to change."""

from __future__ import annotations

from sitsedge.errors import SitsError


class CompileError(SitsError):
    """Base of everything the compiler refuses. ``place`` says where, ``others`` what else is in the way."""

    others: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Node or line the refusal is about; empty where it is about the whole."""
        return ""


class OnnxImportError(CompileError):
    """An ONNX file, or one node of it, is outside what can be compiled.

    ``node`` is the node's name (or its position when it has none), ``operator`` its ONNX operator; both
    are empty when the file as a whole is refused. ``others`` has one entry an operator.
    """

    def __init__(
        self, code: str, *, found: str, expected: str, hint: str = "", node: str = "", operator: str = ""
    ) -> None:
        super().__init__(code, found=found, expected=expected, hint=hint)
        self.node = node
        self.operator = operator

    @property
    def place(self) -> str:
        return f"node {self.node!r} ({self.operator})" if self.node else ""

    def __str__(self) -> str:
        text = super().__str__()
        also = f"; also in the way: {'; '.join(self.others)}" if self.others else ""
        return f"{self.place}: {text}{also}" if self.node else text + also


class CalibrationError(CompileError):
    """The calibration file is wrong at a place: ``file``, ``line`` and ``column`` count from 1."""

    def __init__(
        self, code: str, *, file: str, line: int, column: int, found: str, expected: str, hint: str = ""
    ) -> None:
        super().__init__(code, found=found, expected=expected, hint=hint)
        self.file = file
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}"


class QuantiseError(CompileError):
    """No integer model inside the number formats exists for this network, box and output scales."""


class InputRangeError(CompileError):
    """Counts outside the input box were given to the integer reference."""


class SelfTestError(CompileError):
    """The artefacts of one build disagree; nothing is written."""


class PropertyError(CompileError):
    """An input breaks a property of the limits file; nothing is written."""
