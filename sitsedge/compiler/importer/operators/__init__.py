"""ONNX operators, one module a family; each function lowers one node to nodes of the float graph."""
