"""Input and output checks: quantisation by the formats page, box, rate, and one vector per refusal."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.checks import InputCheck, OutputCheck, SignalSpec

S = 1_000_000_000
SPEC = SignalSpec.physical("thickness", "mm", scale=0.001, low=-2.0, high=2.0, max_rate=1.0)
FREE = SignalSpec.physical("force", "MN", scale=0.01, low=-5.0, high=5.0, max_rate=None)


def refusal(check: InputCheck, values: list[object], t_ns: int = 0) -> CycleRefused:
    with pytest.raises(CycleRefused) as caught:
        check.check(values, t_ns)
    return caught.value


def test_box_limits_are_whole_counts_and_never_wider() -> None:
    assert (SPEC.low, SPEC.high) == (-2000, 2000)
    odd = SignalSpec.physical("x", "mm", scale=0.003, low=-1.0, high=1.0, max_rate=None)
    assert odd.low * 0.003 >= -1.0
    assert odd.high * 0.003 <= 1.0


@given(st.integers(-2000, 2000), st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5]))
def test_rounds_half_to_even(count: int, off: float) -> None:
    value = (count + off) * SPEC.scale
    expected = round(Fraction(value / SPEC.scale))
    if not SPEC.low <= expected <= SPEC.high:
        return
    assert InputCheck([SPEC]).check([value], 0) == (expected,)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (math.nan, "input-not-finite"),
        (math.inf, "input-not-finite"),
        (-math.inf, "input-not-finite"),
        ("1.0", "input-type"),
        (None, "input-type"),
        (True, "input-type"),
        (2.0006, "input-range"),
        (-2.0006, "input-range"),
        (1e300, "input-range"),
        (40.0, "input-range"),
    ],
)
def test_refusals_name_signal_value_and_limit(value: object, code: str) -> None:
    error = refusal(InputCheck([SPEC]), [value])
    assert error.code == code
    assert "thickness" in error.found


def test_rate_is_held_against_the_last_sample() -> None:
    check = InputCheck([SPEC, FREE])
    check.check([0.0, 0.0], 0)
    assert check.check([0.010, 5.0], S // 100) == (10, 500)
    error = refusal(check, [0.030, 5.0], 2 * S // 100)
    assert error.code == "input-rate"
    assert "mm/s" in error.expected


def test_a_jump_is_refused_once_and_then_the_new_value_is_the_base() -> None:
    check = InputCheck([SPEC])
    check.check([0.0], 0)
    assert refusal(check, [1.0], S // 100).code == "input-rate"
    assert check.check([1.0], 2 * S // 100) == (1000,)


def test_one_count_of_slack_for_quantisation() -> None:
    check = InputCheck([SPEC])
    check.check([0.0], 0)
    assert check.check([0.001], 0) == (1,)


def test_outputs_are_held_to_their_limits() -> None:
    check = OutputCheck([SPEC])
    check.check([2000])
    with pytest.raises(CycleRefused) as caught:
        check.check([2001])
    assert caught.value.code == "output-limit"
    assert "2.001" in caught.value.found
