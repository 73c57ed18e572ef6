"""The committed network as a controller, as integers as the appliance runs it, or in float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from sitsedge.plant.signals import INPUTS, OUTPUTS
from sitsedge.plant.stand import Measured

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rolling-mill"


class OnnxController:
    """Inputs rounded to counts, float network, outputs rounded to counts and clamped to the module's limits."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._input_scale = np.array([signal.scale for signal in INPUTS])
        self._output_scale = np.array([signal.scale for signal in OUTPUTS])
        self._low = np.array([signal.low for signal in OUTPUTS])
        self._high = np.array([signal.high for signal in OUTPUTS])

    def __call__(self, measured: Measured) -> tuple[float, float]:
        counts = np.rint(np.array(measured) / self._input_scale)
        x = (counts * self._input_scale).astype(np.float32)[None, :]
        (y,) = self._session.run(None, {"x": x})
        raw = np.clip(np.rint(y[0] / self._output_scale) * self._output_scale, self._low, self._high)
        gap, trim = raw.tolist()
        return gap, trim
