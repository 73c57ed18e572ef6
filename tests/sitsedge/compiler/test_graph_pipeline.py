"""``module build`` of networks that are no chain: the bundle, its report, its proofs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.proof.prover import Groth16Prover
from attest.proof.verifier import NativeVerifier, failed_check
from sitsedge.compiler import BuildResult, CompileError, build, compile_model
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.report_html import render
from sitsedge.compiler.wasm_check import memory_pages
from sitsedge.modules import PublisherTrust, read_bundle
from sitsedge.sandbox import Sandbox
from tests.sitsedge.compiler.importer.models import Net, onnx_outputs

WINDOW = 6
NAMES = [f"{signal}{t}" for signal in ("force", "speed") for t in range(WINDOW)]
CONTEXT = bytes(range(31))


def weights(net: Net, seed: int, *shape: int) -> str:
    fan = int(np.prod(shape[1:]))
    return net.const(np.random.default_rng(seed).normal(size=shape) * (2 / fan) ** 0.5)


def regressor() -> bytes:
    """Two signals over a window: convolution, pooling, a residual sum, a tanh, a dense head."""
    net = Net("N", 2, WINDOW)
    x = net.op("Relu", net.op("Conv", "x", weights(net, 1, 4, 2, 3), net.const(np.zeros(4)), pads=[1, 1]))
    y = net.op("Conv", x, weights(net, 2, 4, 1, 3), net.const(np.zeros(4)), pads=[1, 1], group=4)
    x = net.op("MaxPool", net.op("Add", x, y), kernel_shape=[2], strides=[2])
    x = net.op("Tanh", net.op("Gemm", net.op("Flatten", x), weights(net, 3, 5, 12), net.const(np.zeros(5)), transB=1))
    return net.bytes(net.op("Gemm", x, weights(net, 4, 2, 5), net.const(np.zeros(2)), transB=1), ("N", 2))


def classifier() -> bytes:
    net = Net("N", 2, WINDOW)
    x = net.op("Relu", net.op("Conv", "x", weights(net, 5, 4, 2, 3), net.const(np.zeros(4))))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("Gemm", x, weights(net, 6, 3, 4), net.const(np.zeros(3)), transB=1)
    return net.bytes(net.op("Softmax", x, axis=-1), ("N", 3))


OUTPUTS = {
    "regressor": ("gap", "tilt"),
    "classifier": ("state",),
}


def written(folder: Path, model: bytes, outputs: str, properties: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    inputs = "\n".join(f"  - {{name: {name}, unit: mm, scale: 0.01, range: [-4, 4]}}" for name in NAMES)
    (folder / "limits.yaml").write_text(f"version: 1\ninputs:\n{inputs}\noutputs:\n{outputs}\n{properties}", "utf-8")
    rows = np.clip(np.random.default_rng(0).normal(size=(150, 2 * WINDOW)), -4, 4)
    lines = [",".join(NAMES), *(",".join(f"{v:.4f}" for v in row) for row in rows)]
    (folder / "data.csv").write_text("\n".join(lines), "utf-8")
    return folder


REGRESSOR_OUTPUTS = "\n".join(
    f"  - {{name: {name}, unit: mm, scale: 0.001, limits: [-9, 9]}}" for name in OUTPUTS["regressor"]
)
CLASS_OUTPUT = '  - {name: state, unit: "1", scale: 1, limits: [0, 2]}'


@pytest.fixture(scope="module")
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, signer: Ed25519PrivateKey) -> Callable[[str], BuildResult]:
    made: dict[str, BuildResult] = {}

    def make(kind: str) -> BuildResult:
        if kind not in made:
            base = tmp_path_factory.mktemp(kind)
            model, outputs = (regressor(), REGRESSOR_OUTPUTS) if kind == "regressor" else (classifier(), CLASS_OUTPUT)
            folder = written(base / kind, model, outputs)
            sources = [folder / name for name in ("model.onnx", "data.csv", "limits.yaml")]
            made[kind] = build(*sources, base / "bundle", signer=signer, goal=Goal(0.02, 0.1))
        return made[kind]

    return make


@pytest.mark.parametrize("kind", OUTPUTS)
def test_bundle_proves_what_it_computes(
    kind: str, built: Callable[[str], BuildResult], signer: Ed25519PrivateKey
) -> None:
    made = built(kind)
    bundle = read_bundle(made.path, PublisherTrust((signer.public_key(),)))
    verifier = NativeVerifier(bundle.verification_key, vk_sha256=bytes.fromhex(bundle.config.proof.vk_sha256))
    prover = Groth16Prover(bundle.circuit, bundle.proving_key)
    row = np.random.default_rng(3).integers(-400, 401, 2 * WINDOW).tolist()
    with Sandbox(bundle.wasm) as sandbox:
        outputs = sandbox.infer(row)
    assert list(outputs) == run(made.compiled.quantised.graph, np.array(row)).tolist()
    proven = prover.prove(row, CONTEXT)
    assert proven.outputs == outputs
    assert failed_check(verifier, row, outputs, CONTEXT, proven.proof) is None
    wrong = [outputs[0] + 1, *outputs[1:]]
    assert failed_check(verifier, row, wrong, CONTEXT, proven.proof) == "proof-pairing"


def test_counts_are_the_onnx_models_units(built: Callable[[str], BuildResult]) -> None:
    rows = np.random.default_rng(4).integers(-300, 301, (40, 2 * WINDOW))
    found = run(built("regressor").compiled.quantised.graph, rows) * 0.001
    wanted = onnx_outputs(regressor(), (rows * 0.01).reshape(40, 2, WINDOW))
    assert np.abs(found - wanted).max() < 0.1 * np.ptp(wanted)


def test_a_class_output_is_the_softmaxs_largest(built: Callable[[str], BuildResult]) -> None:
    rows = np.random.default_rng(4).integers(-300, 301, (60, 2 * WINDOW))
    found = run(built("classifier").compiled.quantised.graph, rows)[:, 0]
    wanted = onnx_outputs(classifier(), (rows * 0.01).reshape(60, 2, WINDOW)).argmax(axis=1)
    assert (found != wanted).mean() <= 0.05


def test_report_says_which_value_has_which_format_and_error(built: Callable[[str], BuildResult]) -> None:
    report = built("regressor").report
    choice = report["quantisation"]
    assert set(choice["formats"]) <= set(choice["layer_rms_of_spread"])
    assert all(1 <= chosen["bits"] <= 15 for chosen in choice["formats"].values())
    assert "weight_bits" not in choice
    assert sum(report["constraints"]["layers"]) + report["constraints"]["fixed"] == report["constraints"]["total"]
    assert len(report["constraints"]["nodes"]) == len(report["constraints"]["layers"])
    low, high = report["output_bounds"]["gap"]["counts"]
    rows = np.random.default_rng(1).integers(-400, 401, (300, 2 * WINDOW))
    outputs = run(built("regressor").compiled.quantised.graph, rows)[:, 0]
    assert low <= outputs.min() <= outputs.max() <= high


class Balanced(HTMLParser):
    """Collects text; every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def test_the_page_shows_every_layer_with_its_error_and_the_reason_for_its_format(
    built: Callable[[str], BuildResult],
) -> None:
    report = built("regressor").report
    page = Balanced()
    page.feed(render(report).decode())
    assert page.open == []
    assert len(report["layers"]) >= 3
    for layer in report["layers"]:
        assert layer["name"] in page.text
        assert layer["why"] in page.text
        assert f"{layer['error']['held_out']['rms']:.4g}" in page.text
    assert "rms error of every layer" in page.text


def test_the_guests_memory_limit_holds_its_module(built: Callable[[str], BuildResult]) -> None:
    made = built("regressor")
    assert 1 <= memory_pages(made.compiled.wasm) * 65536 <= made.config.guest.memory_bytes


def refused(folder: Path) -> CompileError:
    with pytest.raises(CompileError) as error:
        compile_model(folder / "model.onnx", folder / "data.csv", folder / "limits.yaml")
    return error.value


def test_a_softmax_with_an_output_for_each_class_is_refused(tmp_path: Path) -> None:
    outputs = "\n".join(f'  - {{name: p{k}, unit: "1", scale: 0.001, limits: [0, 1]}}' for k in range(3))
    assert refused(written(tmp_path / "m", classifier(), outputs)).code == "softmax"


def test_a_class_output_with_another_scale_is_refused(tmp_path: Path) -> None:
    outputs = '  - {name: state, unit: "1", scale: 0.5, limits: [0, 2]}'
    assert refused(written(tmp_path / "m", classifier(), outputs)).code == "signals"


def test_speed_is_asked_for_and_given(tmp_path: Path) -> None:
    folder = written(tmp_path / "m", regressor(), REGRESSOR_OUTPUTS)
    sources = [folder / name for name in ("model.onnx", "data.csv", "limits.yaml")]
    fast = compile_model(*sources, goal=Goal(0.1, 0.5), prefer="speed")
    small = compile_model(*sources, goal=Goal(0.1, 0.5), prefer="rows")
    assert fast.quantised.wide < small.quantised.wide
    assert len(fast.artefacts.relaxed_nodes) > len(small.artefacts.relaxed_nodes)
    assert fast.wasm != fast.wasm_relaxed
    assert small.artefacts.constraints <= fast.artefacts.constraints
