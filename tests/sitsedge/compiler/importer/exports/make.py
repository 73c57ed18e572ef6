"""Makes the scikit-learn exports beside this file, with skl2onnx (which the tests do not need):

    python -m venv /tmp/skl && /tmp/skl/bin/pip install skl2onnx scikit-learn && /tmp/skl/bin/python make.py

The files here were made with skl2onnx 1.20 and scikit-learn 1.9.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5)).astype(np.float32)
Y = X @ RNG.normal(size=(5, 2))
TWO, THREE = (X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.4, 0.4])


def regressor(*hidden: int, activation: str = "relu") -> Any:
    return MLPRegressor(hidden_layer_sizes=hidden, activation=activation, max_iter=50, random_state=0)


def classifier() -> Any:
    return MLPClassifier(hidden_layer_sizes=(6,), max_iter=50, random_state=0)


def save(name: str, model: Any, **options: Any) -> None:
    Path(__file__).with_name(f"{name}.onnx").write_bytes(to_onnx(model, X[:1], **options).SerializeToString())


for kind in ("relu", "tanh", "logistic"):
    save(f"mlp-regressor-{kind}", make_pipeline(StandardScaler(), regressor(8, 4, activation=kind)).fit(X, Y))
save("mlp-regressor-minmax-1", make_pipeline(MinMaxScaler(), regressor(8)).fit(X, Y[:, 0]))
save("mlp-classifier-2", classifier().fit(X, TWO))
save("mlp-classifier-3", classifier().fit(X, THREE))
save("mlp-classifier-3-tensor", classifier().fit(X, THREE), options={"zipmap": False})
save("pca-ridge", make_pipeline(PCA(3), Ridge()).fit(X, Y))
