"""Strict reading of ONNX constant tensors: float32 or float64, inside the file, finite, bounded.

Every length is checked against the declared shape before numpy sees the bytes, so a hostile file can
neither allocate more than its own size nor make numpy fail in an untyped way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.network import Floats

TENSOR_ELEMENTS_MAX = 1 << 20
"""Largest constant: 1,024 × 1,024 weights, the widest layer the circuit format can hold."""

TENSOR_RANK_MAX = 4
"""Dense layers need two dimensions; the rest leaves room for leading ones of exporters."""

_FORMATS: dict[int, tuple[str, str]] = {
    onnx.TensorProto.FLOAT: ("<f4", "float_data"),
    onnx.TensorProto.DOUBLE: ("<f8", "double_data"),
}


def read_tensor(tensor: Any, what: str) -> Floats:
    """Return the constant as float64; ``what`` names it in the error.

    Raises ``OnnxImportError`` (``tensor-type``, ``tensor-external``, ``tensor-size``, ``tensor-value``).
    """
    if tensor.data_type not in _FORMATS:
        raise OnnxImportError(
            "tensor-type",
            found=f"{what} with ONNX data type {tensor.data_type}",
            expected="float32 or float64",
            hint="export the model in float32; quantised or half-precision models are not imported",
        )
    if tensor.data_location != onnx.TensorProto.DEFAULT or tensor.external_data:
        raise OnnxImportError(
            "tensor-external",
            found=f"{what} stored outside the file",
            expected="all weights inside the ONNX file",
            hint="save with save_as_external_data=False",
        )
    dims = tuple(int(d) for d in tensor.dims)
    if len(dims) > TENSOR_RANK_MAX or any(d < 1 for d in dims) or math.prod(dims) > TENSOR_ELEMENTS_MAX:
        raise OnnxImportError(
            "tensor-size",
            found=f"{what} of shape {list(dims[:8])}",
            expected=f"at most {TENSOR_RANK_MAX} dimensions, each at least 1, at most {TENSOR_ELEMENTS_MAX} values",
        )
    return _values(tensor, dims, what)


def _values(tensor: Any, dims: tuple[int, ...], what: str) -> Floats:
    dtype, field = _FORMATS[tensor.data_type]
    count = math.prod(dims)
    listed = getattr(tensor, field)
    raw = tensor.raw_data
    present = len(raw) // np.dtype(dtype).itemsize if raw else len(listed)
    if (raw and len(listed)) or present != count or (raw and len(raw) % np.dtype(dtype).itemsize):
        raise OnnxImportError(
            "tensor-size",
            found=f"{what} with {present} stored values",
            expected=f"{count} values for shape {list(dims)}",
            hint="the file is damaged; export it again",
        )
    source = np.frombuffer(raw, dtype=dtype) if raw else np.asarray(listed)
    values = source.astype(np.float64).reshape(dims)
    if not np.all(np.isfinite(values)):
        raise OnnxImportError(
            "tensor-value",
            found=f"{what} containing NaN or infinity",
            expected="finite values",
            hint="the training diverged; train again",
        )
    return values
