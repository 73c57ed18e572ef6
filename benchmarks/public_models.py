"""Public models from PyPI wheels, unchanged: which become integer modules, how good they are, what is refused and why.

    pip download --no-deps -d WHEELS rapidocr==3.10.0 magika==1.0.3 silero-vad==6.2.3
    python -m benchmarks.public_models WHEELS [--rows 100] [--output json]

To be run from the repository's root. The wheels stay where they are and nothing of them is kept. rapidocr's classifier
of the orientation of a line of text is quantised on lines drawn here (Pillow's own font, upright or turned by 180°,
normalised as rapidocr does it) and judged on others; every other ONNX file in the wheels is imported or refused.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.evaluate import evaluate
from sitsedge.compiler.importer import import_graph_bytes

CLASSIFIER = "ch_ppocr_mobile_v2.0_cls_mobile.onnx"
SHAPE = (3, 48, 192)
"""What rapidocr feeds its classifier: channels, height, width."""

COUNT = 1 / 255
"""A pixel p of 0 … 255 is fed as (p / 255 - 0.5) / 0.5 = (2p - 255) / 255: whole counts of 1/255."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.,:/" + "aeinorst" + " " * 5
FIT_ROWS = 40
FILE_BYTES_MAX = 64 << 20


def line_of_text(rng: np.random.Generator, *, turned: bool) -> NDArray[np.float32]:
    """One normalised picture (3, 48, 192): random letters, size and colours, and noise; padded with 0 on the right."""
    from PIL import Image, ImageDraw, ImageFont

    text = "".join(rng.choice(list(LETTERS), int(rng.integers(4, 14)))).strip() or "Pump"
    font = ImageFont.load_default(size=int(rng.integers(24, 40)))
    paper, ink = (tuple(int(v) for v in rng.uniform(low, high, 3)) for low, high in ((150, 256), (0, 100)))
    if rng.random() < 0.3:
        paper, ink = ink, paper
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (int(right - left) + 8, int(bottom - top) + 8), paper)
    ImageDraw.Draw(picture).text((4 - left, 4 - top), text, font=font, fill=ink)
    if turned:
        picture = picture.rotate(180)
    height, width = SHAPE[1:]
    used = min(width, -(-height * picture.width // picture.height))
    seen = np.asarray(picture.resize((used, height), Image.Resampling.BILINEAR), np.float64).transpose(2, 0, 1)
    pixels = np.clip(np.rint(seen + rng.normal(0.0, 4.0, seen.shape)), 0, 255)
    made = np.zeros(SHAPE, np.float32)
    made[:, :, :used] = (2 * pixels - 255) / 255
    return made


def lines_of_text(seed: int, count: int) -> NDArray[np.float32]:
    """``count`` pictures, upright and turned in turns."""
    rng = np.random.default_rng(seed)
    return np.stack([line_of_text(rng, turned=bool(i % 2)) for i in range(count)])


def models_of(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """(wheel, name, bytes) of every ONNX file in the wheels of ``folder``."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".onnx") and entry.file_size <= FILE_BYTES_MAX:
                    yield wheel.name, PurePosixPath(entry.filename).name, archive.read(entry)


def imported(data: bytes) -> dict[str, Any]:
    """How the importer takes a file as it is."""
    try:
        graph = import_graph_bytes(data).graph
    except OnnxImportError as refused:
        return {
            "refused": refused.code, "node": refused.node, "operator": refused.operator, "found": refused.found,
            "hint": refused.hint, "others": list(refused.others),
        }  # fmt: skip
    return {"nodes": graph.n_nodes}


def classified(data: bytes, rows: int) -> dict[str, Any]:
    """rapidocr's classifier as an integer module, judged on ``rows`` unseen pictures."""
    with tempfile.TemporaryDirectory() as folder:
        model, fit, held = (Path(folder) / name for name in (CLASSIFIER, "fit.npy", "held.npy"))
        model.write_bytes(data)
        np.save(fit, lines_of_text(1, FIT_ROWS))
        np.save(held, lines_of_text(2, rows))
        return evaluate(model, fit, held_out=held, input_shape=(1, *SHAPE), input_scale=COUNT).report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="folder with the wheels")
    parser.add_argument("--rows", type=int, default=100, help="held-out pictures")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    found = []
    for wheel, name, data in models_of(arguments.wheels):
        result = classified(data, arguments.rows) if name == CLASSIFIER else imported(data)
        found.append({"wheel": wheel, "model": name} | result)
    if arguments.output == "json":
        print(json.dumps(found, indent=1))
        return
    for entry in found:
        print(f"{entry['wheel'].split('-')[0]} {entry['model']}: {_text(entry)}")


def _text(entry: dict[str, Any]) -> str:
    if "refused" in entry:
        where = f"{entry['operator']} at {entry['node']!r}: " if entry["node"] else ""
        return "; ".join([f"refused, {where}{entry['found']} ({entry['hint']})", *entry["others"]])
    if "nodes" in entry and "accuracy" not in entry:
        return f"imported, {entry['nodes']} nodes"
    held, proof = entry["accuracy"]["held_out"], entry["proof"]
    call = entry["runs"]["relaxed_simd"]["call_ms_median"]
    return (
        f"integer module of {entry['nodes']} nodes; {held['rows']} unseen rows: same class {held['same_class']:.3f},"
        f" rms {held['rms']:.4f}, peak {held['peak']:.4f} of the span; {call:.1f} ms a call;"
        f" no proof: {'; '.join(proof['why_not'])}"
    )


if __name__ == "__main__":
    main()
