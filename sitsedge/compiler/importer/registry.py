"""Which operators are imported, by domain and name, and what to do about the best-known others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sitsedge.compiler.importer.builder import Data
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.constants import RULES
from sitsedge.compiler.importer.operators import elementwise, final, linear, pooling, quantised, shape

Lower = Callable[[Call], Data | list[Data]]

DEFAULT_DOMAINS = ("", "ai.onnx")
ML_DOMAIN = "ai.onnx.ml"

OPERATORS: Mapping[str, Lower] = {
    "Add": elementwise.add,
    "ArgMax": final.arg_max,
    "AveragePool": pooling.average_pool,
    "BatchNormalization": elementwise.batch_normalization,
    "Cast": shape.cast,
    "Clip": elementwise.clip,
    "Concat": shape.concat,
    "Conv": linear.conv,
    "DepthToSpace": shape.depth_to_space,
    "DequantizeLinear": quantised.dequantize_linear,
    "Div": elementwise.div,
    "Dropout": shape.dropout,
    "Elu": elementwise.elu,
    "Erf": elementwise.erf,
    "Expand": shape.expand,
    "Flatten": shape.flatten,
    "Gather": shape.gather,
    "Gelu": elementwise.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": pooling.global_average_pool,
    "GlobalMaxPool": pooling.global_max_pool,
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": elementwise.hard_swish,
    "Identity": shape.same,
    "LeakyRelu": elementwise.leaky_relu,
    "MatMul": linear.matmul,
    "Max": elementwise.maximum,
    "MaxPool": pooling.max_pool,
    "Min": elementwise.minimum,
    "Mul": elementwise.mul,
    "Neg": elementwise.neg,
    "PRelu": elementwise.prelu,
    "Pad": pooling.pad,
    "Pow": elementwise.power,
    "QLinearConv": quantised.qlinear_conv,
    "QLinearMatMul": quantised.qlinear_matmul,
    "QuantizeLinear": quantised.quantize_linear,
    "ReduceMax": pooling.reduce_max,
    "ReduceMean": pooling.reduce_mean,
    "ReduceSum": pooling.reduce_sum,
    "Relu": elementwise.relu,
    "Reshape": shape.reshape,
    "Sigmoid": elementwise.sigmoid,
    "Slice": shape.slice_,
    "Softmax": final.softmax,
    "Softplus": elementwise.softplus,
    "SpaceToDepth": shape.space_to_depth,
    "Split": shape.split,
    "Squeeze": shape.squeeze,
    "Sub": elementwise.sub,
    "Sum": elementwise.variadic_sum,
    "Tanh": elementwise.tanh,
    "Transpose": shape.transpose,
    "Unsqueeze": shape.unsqueeze,
}
"""Operators of the default domain that take computed values."""

ML_OPERATORS: Mapping[str, Lower] = {"Scaler": final.scaler, "LinearRegressor": final.linear_regressor}
"""Operators of the ai.onnx.ml domain."""

QUANTISED = frozenset(
    {"Concat", "DepthToSpace", "DequantizeLinear", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "QLinearConv"}
    | {"QLinearMatMul", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators that may see a value between QuantizeLinear and DequantizeLinear: they move or compare numbers only."""

ADVICE: Mapping[str, str] = {
    "ConvTranspose": "use a nearest-neighbour upsampling before the network, or a network that only shrinks",
    "DynamicQuantizeLinear": "quantise statically, with calibration data and in QDQ format",
    "MatMulInteger": "quantise statically, with calibration data and in QDQ format",
    "ConvInteger": "quantise statically, with calibration data and in QDQ format",
    "GRU": "recurrent cells are not compiled; feed a window of past samples to a convolution or dense network",
    "LSTM": "recurrent cells are not compiled; feed a window of past samples to a convolution or dense network",
    "RNN": "recurrent cells are not compiled; feed a window of past samples to a convolution or dense network",
    "If": "export with the branch fixed; the compiler needs one flat graph",
    "Loop": "export with the loop unrolled",
    "Scan": "export with the loop unrolled",
    "LayerNormalization": "use batch normalisation, which folds into the layer before it",
    "InstanceNormalization": "use batch normalisation, which folds into the layer before it",
    "LogSoftmax": "export the logits, or Softmax",
    "Resize": "feed data of the network's own size",
    "TreeEnsembleClassifier": "trees are not compiled; train an MLP",
    "TreeEnsembleRegressor": "trees are not compiled; train an MLP",
    "LinearClassifier": "export the decision function as Gemm, or train an MLP",
    "Normalizer": "normalising by a norm divides two computed values; use a Scaler",
    "Sqrt": "a network cannot divide by what it computes; use batch normalisation, which folds away",
    "Reciprocal": "a network cannot divide by what it computes; use batch normalisation",
    "Equal": "feed real numbers; embeddings of integer tokens are not compiled",
    "Exp": "use Sigmoid, Tanh or a final Softmax",
}
"""What to change, by refused operator."""

ADVICE_OTHERS = "rewrite the model with dense and convolution layers and the activations listed in docs/interfaces.md"

HOPELESS = frozenset(ADVICE) - frozenset(RULES)
"""Operators of which even constants are not computed."""

SUPPORTED = f"one of {', '.join(sorted(OPERATORS))}"
"""For the refusal of an operator."""
