"""ONNX → float graph, strictly: limits on everything, hostile files refused by a typed error."""

from __future__ import annotations

from sitsedge.compiler.importer.importer import Imported, import_graph, import_graph_bytes

__all__ = ["Imported", "import_graph", "import_graph_bytes"]
