"""Histograms of the report: every row counted once, pictures well-formed and without anything that is loaded."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from sitsedge.compiler.report_figures import BINS, SHOWN_MAX, figures, pictures
from sitsedge.modules.limits import Limits


def _limits(inputs: int) -> Limits:
    return Limits.model_validate(
        {
            "version": 1,
            "inputs": [{"name": f"x{i}", "unit": "mm", "scale": 0.1, "range": [-10, 10]} for i in range(inputs)],
            "outputs": [{"name": "gap", "unit": "mm", "scale": 0.01, "limits": [-1, 1]}],
        }
    )


def _made(rows: int, inputs: int = 2) -> dict[str, object]:
    rng = np.random.default_rng(rows)
    wanted = rng.normal(size=(rows, 1))
    return figures(
        _limits(inputs), rng.uniform(-10, 10, (rows, inputs)), wanted, wanted + rng.normal(0, 0.01, (rows, 1))
    )


@pytest.mark.parametrize("rows", [0, 1, 200])
def test_every_row_is_in_one_bin(rows: int) -> None:
    made = _made(rows)
    for kind, keys in (("inputs", ["data"]), ("outputs", ["float_model", "integer_model"]), ("errors", ["error"])):
        for entry in made[kind].values():  # type: ignore[attr-defined]
            for key in keys:
                assert len(entry[key]) == BINS
                assert sum(entry[key]) == rows
            assert entry["low"] < entry["high"]


def test_bins_follow_the_values() -> None:
    raw = np.array([[-10.0, 0.1], [-9.9, 0.1], [10.0, 0.1]])
    made = figures(_limits(2), raw, np.zeros((3, 1)), np.array([[0.0], [0.0], [0.5]]))
    assert made["inputs"]["x0"]["data"] == [2, *[0] * (BINS - 2), 1]
    assert made["inputs"]["x1"]["data"].index(3) == BINS // 2
    assert (made["errors"]["gap"]["low"], made["errors"]["gap"]["high"]) == (-0.5, 0.5)
    assert made["errors"]["gap"]["error"][-1] == 1


@pytest.mark.parametrize("rows", [0, 200])
def test_pictures_are_well_formed(rows: int) -> None:
    root = ET.fromstring(f"<body>{pictures(_made(rows))}</body>")  # our own text
    drawn = root.findall(".//svg")
    assert len(drawn) == 4
    assert {element.tag for element in root.iter()} <= {
        "body", "h2", "div", "p", "figure", "figcaption", "svg", "title", "path", "text"
    }  # fmt: skip
    assert not any("href" in key or "src" in key for element in root.iter() for key in element.attrib)
    for path in root.findall(".//path"):
        assert "nan" not in path.attrib["d"]


def test_many_inputs_are_cut_and_the_page_says_so() -> None:
    page = pictures(_made(30, SHOWN_MAX + 5))
    assert page.count("<figure>") == SHOWN_MAX + 2
    assert "5 more in the JSON report" in page
