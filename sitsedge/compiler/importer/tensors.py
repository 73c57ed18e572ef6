"""Strict reading of constant tensors: known types, bounded, finite, external bytes only from beside the model.

Every length is checked against the declared shape before numpy sees the bytes, so a hostile file can neither
allocate more than its own size nor make numpy fail in an untyped way. Source: onnx.proto, TensorProto.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from sitsedge.compiler.importer.limits import EXTERNAL_BYTES_MAX, PARAMETERS_MAX, RANK_MAX, refuse, require, shown

Array = NDArray[Any]

_T = onnx.TensorProto
_FORMATS: Mapping[int, tuple[str, str]] = {
    _T.FLOAT: ("<f4", "float_data"),
    _T.DOUBLE: ("<f8", "double_data"),
    _T.FLOAT16: ("<f2", "int32_data"),
    _T.INT8: ("<i1", "int32_data"),
    _T.UINT8: ("<u1", "int32_data"),
    _T.INT16: ("<i2", "int32_data"),
    _T.UINT16: ("<u2", "int32_data"),
    _T.INT32: ("<i4", "int32_data"),
    _T.INT64: ("<i8", "int64_data"),
    _T.BOOL: ("|b1", "int32_data"),
}
TYPES: Mapping[int, np.dtype[Any]] = {number: np.dtype(text) for number, (text, _) in _FORMATS.items()}
"""numpy types of the ONNX data types that are read."""


@dataclass(slots=True)
class TensorReader:
    """Reads the tensors of one model; ``folder`` is where external data may lie, None forbids it."""

    folder: Path | None = None
    parameters: int = field(default=0, init=False)
    external: int = field(default=0, init=False)

    def read(self, tensor: Any, what: str) -> Array:
        """The constant in its own type; ``what`` names it in the error.

        Raises ``OnnxImportError``: ``tensor-type``, ``-external``, ``-size``, ``-value``; ``oversize``.
        """
        if tensor.data_type not in _FORMATS:
            raise refuse(
                "tensor-type",
                f"{what} with ONNX data type {type_name(tensor.data_type)}",
                "float16, float32, float64, an integer type or bool",
                "export the model in float32",
            )
        dims = tuple(int(d) for d in tensor.dims)
        if len(dims) > RANK_MAX or any(d < 0 for d in dims) or math.prod(dims) > PARAMETERS_MAX:
            raise refuse(
                "tensor-size",
                f"{what} of shape {list(dims[:8])}",
                f"at most {RANK_MAX} dimensions and {PARAMETERS_MAX} values",
            )
        self.parameters += math.prod(dims)
        require(self.parameters, PARAMETERS_MAX, "constants", "train a smaller network")
        external = tensor.data_location != _T.DEFAULT or bool(tensor.external_data)
        raw = self._external(tensor, what) if external else tensor.raw_data
        return _finite(_values(tensor, raw, dims, what), what)

    def _external(self, tensor: Any, what: str) -> bytes:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        outside = refuse(
            "tensor-external",
            f"{what} stored in {shown(location)!r}",
            "a file name inside the model's own folder" if self.folder else "all weights inside the ONNX file",
            "save with save_as_external_data=False, or keep the data file beside the model",
        )
        # A zero byte ends a name for the system and is none of its errors.
        plain = Path(location).name == location and location not in (".", "..") and "\0" not in location
        if self.folder is None or not location or not plain:
            raise outside
        offset, length = (_decimal(entries.get(key, "0"), what) for key in ("offset", "length"))
        wanted = length if "length" in entries else _declared_bytes(tensor)
        self.external += wanted
        require(self.external, EXTERNAL_BYTES_MAX, "bytes of external data")
        try:
            return _read_regular(self.folder / location, offset, wanted)
        except OSError as error:
            raise refuse(
                "tensor-external",
                f"{what}: {shown(location)!r} cannot be read ({error.strerror})",
                f"a regular file with {wanted} bytes at {offset}",
            ) from error


def _read_regular(path: Path, offset: int, length: int) -> bytes:
    # O_NOFOLLOW: a link beside the model may point anywhere. A short file shows as too few values.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "no regular file")
        file.seek(offset)
        return file.read(length)


def _decimal(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise refuse("tensor-external", f"{what} at {shown(text)!r}", "offset and length in decimal digits")
    return int(text)


def _declared_bytes(tensor: Any) -> int:
    return math.prod(int(d) for d in tensor.dims) * TYPES[tensor.data_type].itemsize


def _values(tensor: Any, raw: bytes, dims: tuple[int, ...], what: str) -> Array:
    text, name = _FORMATS[tensor.data_type]
    dtype = np.dtype(text)
    count = math.prod(dims)
    listed = getattr(tensor, name)
    present = len(raw) // dtype.itemsize if raw else len(listed)
    if (raw and len(listed)) or present != count or (raw and len(raw) % dtype.itemsize):
        raise refuse(
            "tensor-size",
            f"{what} with {present} stored values",
            f"{count} values for shape {list(dims)}",
            "the file is damaged; export it again",
        )
    if raw:
        return np.frombuffer(raw, dtype).reshape(dims)
    if dtype.kind == "f" and dtype.itemsize == 2:
        # Half precision is listed as the bits of each number in an int32.
        return np.asarray(listed, np.int64).astype(np.uint16).view(np.float16).reshape(dims)
    wide = np.asarray(listed)
    values = wide.astype(dtype)
    if dtype.kind in "iub" and not np.array_equal(values, wide):
        raise refuse("tensor-value", f"{what} with numbers outside {dtype}", f"numbers of {dtype}")
    return values.reshape(dims)


def _finite(values: Array, what: str) -> Array:
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        raise refuse(
            "tensor-value", f"{what} containing NaN or infinity", "finite values", "the training diverged; train again"
        )
    return values


def type_name(number: int) -> str:
    """Name of an ONNX data type for messages."""
    try:
        return str(_T.DataType.Name(number))
    except ValueError:
        return str(number)
