"""The committed network closes the loop: half the baseline's deviation at most, on strips it was not trained on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx
import pytest

from sitsedge.plant.simulate import Controller, Loop, simulate
from sitsedge.plant.stand import Measured
from tests.sitsedge.plant.support import EXAMPLE, OnnxController

SECONDS = 15.0
NETWORK = OnnxController(EXAMPLE / "model.onnx")


@lru_cache
def baseline_um(seed: int) -> float:
    """The PLC's own control on the same strip, µm."""
    return simulate(None, SECONDS, seed).thickness_std_um()


def with_noise(controller: Controller, seed: int) -> Controller:
    """Errors of the size that coarse integer arithmetic makes: 2 % of the outputs' limits."""
    rng = np.random.default_rng(seed)

    def noisy(measured: Measured) -> tuple[float, float]:
        gap, trim = controller(measured)
        a, b = rng.uniform(-1, 1, 2).tolist()
        return gap + 0.008 * a, trim + 0.02 * b

    return noisy


@pytest.mark.parametrize("seed", [11, 12])
def test_network_beats_the_plcs_own_control(seed: int) -> None:
    assert simulate(NETWORK, SECONDS, seed).thickness_std_um() < 0.3 * baseline_um(seed)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("twice the delay", Loop(delay_s=0.020)),
        ("one command in ten lost", Loop(drop_probability=0.1)),
        ("half the rate", Loop(period_s=0.020)),
        ("prompt", Loop(delay_s=0.004)),
    ],
)
def test_network_stays_good_when_the_path_is_worse(name: str, loop: Loop) -> None:
    assert simulate(NETWORK, SECONDS, 11, loop=loop).thickness_std_um() < 0.5 * baseline_um(11), name


def test_network_stands_quantisation_noise() -> None:
    assert simulate(with_noise(NETWORK, 1), SECONDS, 11).thickness_std_um() < 0.5 * baseline_um(11)


def test_speed_trim_calms_the_tension() -> None:
    def without_trim(measured: Measured) -> tuple[float, float]:
        return NETWORK(measured)[0], 0.0

    assert np.std(simulate(NETWORK, SECONDS, 15).tension_kn) < np.std(simulate(without_trim, SECONDS, 15).tension_kn)


def test_a_wrong_model_is_worse_than_none() -> None:
    """The measure can fail: the same network with its corrections reversed."""

    def reversed_(measured: Measured) -> tuple[float, float]:
        gap, trim = NETWORK(measured)
        return -gap, -trim

    assert simulate(reversed_, SECONDS, 11).thickness_std_um() > baseline_um(11)


def test_simulation_repeats_exactly() -> None:
    a, b = simulate(NETWORK, 3.0, 17), simulate(NETWORK, 3.0, 17)
    assert a.measured.tobytes() == b.measured.tobytes()
    assert a.exit_true_mm.tobytes() == b.exit_true_mm.tobytes()


def test_model_file_is_an_8_16_16_2_relu_network() -> None:
    graph = onnx.load(str(EXAMPLE / "model.onnx")).graph
    assert [node.op_type for node in graph.node] == ["Mul", "Gemm", "Relu", "Gemm", "Relu", "Gemm", "Mul", "Clip"]
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    assert (shapes["W1"], shapes["W2"], shapes["W3"]) == ((8, 16), (16, 16), (16, 2))
    dims = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    assert dims == [1, 8]
