"""The forged points of the attacks are what they claim to be, on either curve."""

from __future__ import annotations

import pytest

from attest.proof import Curve
from attest.proof.points import PointFault
from sitsedge.demo.attacks import _off_curve


@pytest.mark.parametrize("curve", list(Curve), ids=[curve.text for curve in Curve])
def test_a_point_off_the_curve_is_canonical_and_on_no_point(curve: Curve) -> None:
    it = curve.parameters
    with pytest.raises(PointFault, match="not on the curve"):
        it.g1_decompress(_off_curve(it))
