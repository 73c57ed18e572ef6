"""A refusal names everything that is in the way of a file, not one operator at a time."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.importer.obstacles import GROUPS_MAX, NODES_SHOWN_MAX, grouped
from tests.sitsedge.compiler.importer.models import Net


def refused(net: Net, output: str) -> OnnxImportError:
    with pytest.raises(OnnxImportError) as caught:
        import_graph_bytes(net.bytes(output))
    return caught.value


def test_every_operator_in_the_way_is_named_with_its_nodes() -> None:
    net = Net("N", 4)
    x = net.op("Sqrt", net.op("Cosh", net.op("Sqrt", net.op("Relu", "x"))))
    error = refused(net, x)
    assert (error.code, error.operator) == ("unsupported-operator", "Sqrt")
    assert [text.split(" at ")[0] for text in error.others] == ["Cosh", "Sqrt"]
    assert str(error).endswith("; also in the way: " + "; ".join(error.others))


def test_an_operator_without_hope_comes_first_and_the_rest_behind_it() -> None:
    net = Net("N", 4)
    error = refused(net, net.op("LogSoftmax", net.op("Sqrt", "x")))
    assert error.operator == "LogSoftmax"
    assert [text.split(" at ")[0] for text in error.others] == ["Sqrt"]


def test_what_only_constants_reach_is_in_nobodys_way() -> None:
    net = Net("N", 4)
    deviation = net.op("Sqrt", net.const(np.array([1.0, 4.0, 9.0, 16.0])))
    import_graph_bytes(net.bytes(net.op("Div", "x", deviation)))


def test_an_input_that_does_not_fit_is_named_as_well() -> None:
    net = Net("N", 4, "W")
    error = refused(net, net.op("Sqrt", "x"))
    assert error.operator == "Sqrt"
    assert len(error.others) == 1
    assert error.others[0].startswith("the input: ")


def test_a_long_list_stays_readable() -> None:
    found = [
        OnnxImportError("unsupported-operator", found="", expected="", node=f"n{i}.{j}", operator=f"Op{i}")
        for i in range(GROUPS_MAX + 2)
        for j in range(NODES_SHOWN_MAX + 4)
    ]
    texts = grouped(found)
    assert len(texts) == GROUPS_MAX + 1
    assert texts[0] == "Op0 at 'n0.0', 'n0.1', 'n0.2' and 4 more"
    assert texts[-1] == "2 operators more"


def test_the_default_domain_twice_in_one_version_leaves_nothing_open() -> None:
    net = Net("N", 4)
    model = onnx.load_from_string(net.bytes(net.op("Mul", "x", "x")))
    model.opset_import.append(helper.make_opsetid("ai.onnx", model.opset_import[0].version))
    assert import_graph_bytes(model.SerializeToString()).graph.nodes


def test_several_input_tensors_are_named_and_what_an_exporter_lost_is_explained() -> None:
    net = Net("N", 4)
    model = onnx.load_from_string(net.bytes(net.op("Sub", "x", "normalization/Sub/y:0")))
    model.graph.input.append(helper.make_tensor_value_info("normalization/Sub/y:0", TensorProto.FLOAT, [1, 4]))
    with pytest.raises(OnnxImportError) as refused:
        import_graph_bytes(model.SerializeToString())
    assert refused.value.found == "2 input tensors: x, normalization/Sub/y:0"
    assert "the exporter lost" in refused.value.hint
