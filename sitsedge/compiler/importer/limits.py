"""Every limit of the importer with its reason; what is larger is refused before memory is spent on it."""

from __future__ import annotations

from typing import Any

from sitsedge.compiler.errors import OnnxImportError

FILE_BYTES_MAX = 64 << 20
"""Largest ONNX file: float32 ResNet-18 has 47 MB, and the circuit of anything larger would exceed its format."""

EXTERNAL_BYTES_MAX = 64 << 20
"""Most bytes of weights beside the file, all tensors together: the same bound as for a model in one file."""

PARAMETERS_MAX = 1 << 24
"""Most constants of a graph: 128 MB as float64; ResNet-18 has 11.7 million."""

WIRE_FIELDS_MAX = 1 << 18
"""Most fields of the protocol buffer, 64 a node: each costs microseconds and up to a few hundred bytes."""

WIRE_DEPTH_MAX = 64
"""Deepest nesting of messages, below protobuf's own 100; subgraphs nest, and are to be refused by their node's name."""

PACKED_BYTES_MAX = 8 << 20
"""Most bytes of packed integers: each may be one byte in the file and eight in memory."""

NODES_MAX = 4096
"""Most nodes of one graph: MobileNetV2 has 152, a graph of this length is no control network."""

NAME_LENGTH_MAX = 512
"""Longest tensor or node name: deep module paths of exporters stay below 200."""

RANK_MAX = 6
"""Most dimensions: depth-to-space and channel shuffles need five or six between two reshapes."""

VALUE_ELEMENTS_MAX = 1 << 22
"""Most elements of one value: the largest of ResNet-18 at 224 × 224 has 0.8 million."""

ELEMENTS_MAX = 1 << 27
"""Most elements of all values of a graph together, 1 GB as float64 if all had to live at once; MobileNetV2 at
224 × 224 has 20 million before the passes."""

INDICES_MAX = 1 << 24
"""Most elements of all reshapes, transposes and slices together, 128 MB of indices."""

MACS_MAX = 1 << 32
"""Most multiply-accumulates of one inference: ResNet-18 at 224 × 224 has 1.8·10⁹; every pass is checked on samples."""

WINDOWS_MAX = 1 << 25
"""Most window elements of one convolution or pooling, 256 MB as float64; ResNet-18 at 224 × 224 has 1.8 million."""

INPUTS_MAX = 1 << 18
"""Most elements of the model's input: an RGB picture of 224 × 224 has 150,528."""

OPSET_MIN, OPSET_MAX = 9, 28
"""Below 9, Gemm needs explicit broadcasting; above 28 the semantics have not been reviewed."""

ML_OPSET_MAX = 5
"""Newest reviewed version of the ai.onnx.ml domain."""


def refuse(code: str, found: str, expected: str, hint: str = "") -> OnnxImportError:
    """The refusal to raise; node and operator are added where the node is known."""
    return OnnxImportError(code, found=found, expected=expected, hint=hint)


def require(value: int, limit: int, what: str, hint: str = "") -> None:
    """Raise ``oversize`` where ``value`` of ``what`` is above ``limit``."""
    if value > limit:
        raise refuse("oversize", f"{value} {what}", f"at most {limit}", hint)


def shown(text: str) -> str:
    """``text`` of a file made fit for a message: printable and short."""
    clean = "".join(c if c.isprintable() else "?" for c in text[:96])
    return clean if len(text) <= 96 else clean + "…"


def label(index: int, node: Any) -> str:
    """A node's name for messages, or its position where it has none."""
    return shown(node.name) or f"#{index}"
