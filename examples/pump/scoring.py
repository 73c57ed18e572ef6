"""Scores of whole recordings: by the float network, by the module in the sandbox, and as a ledger recorded them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort

from attest.command.command import parse_command
from attest.ledger import Ledger, RecordKind
from examples.pump.dataset import Floats
from sitsedge.errors import SitsError
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.checks import InputCheck, SignalSpec
from sitsedge.modules import Bundle
from sitsedge.sandbox import Sandbox

JOURNAL_COLUMNS: Final = ["t_source_ns", "recording", "row"]


class FloatScorer:
    """``model.onnx`` on ONNX Runtime, one row a call as it was exported."""

    def __init__(self, path: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def score(self, x: Floats) -> Floats:
        """Scores (rows,) of physical rows (rows, 8); NaN where a cell is no number."""
        scores = np.full(len(x), np.nan)
        for k, row in enumerate(x):
            if not np.isnan(row).any():
                scores[k] = self._session.run(None, {"x": row[None].astype(np.float32)})[0][0, 0]
        return scores


class IntegerScorer:
    """The bundle's WASM in the sandbox, behind the loop's own quantisation and range check."""

    def __init__(self, bundle: Bundle) -> None:
        self._specs = tuple(
            SignalSpec.physical(s.name, s.unit, scale=s.scale, low=s.range[0], high=s.range[1], max_rate=None)
            for s in bundle.config.inputs
        )
        [output] = bundle.config.outputs
        self._scale = output.scale
        self._sandbox = Sandbox.of(bundle)

    def score(self, x: Floats) -> Floats:
        """Scores (rows,); NaN for a row that the loop would refuse."""
        check = InputCheck(self._specs)
        scores = np.full(len(x), np.nan)
        for k, row in enumerate(x):
            try:
                counts = check.check([float(value) for value in row], k)
            except CycleRefused:
                continue
            [score] = self._sandbox.infer(counts)
            scores[k] = score * self._scale
        return scores

    def close(self) -> None:
        """Release the sandbox."""
        self._sandbox.close()


@dataclass(frozen=True, slots=True)
class Played:
    """One line of the replay's journal."""

    t_source_ns: int
    recording: str
    row: int


def read_journal(path: Path) -> list[Played]:
    """The journal that ``sitsedge.replay`` wrote. Raises SitsError ``journal`` with file and line."""
    played = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            if next(rows, None) != JOURNAL_COLUMNS:
                raise _bad(path, 1, "another header", ",".join(JOURNAL_COLUMNS))
            for line, cells in enumerate(rows, start=2):
                if len(cells) != len(JOURNAL_COLUMNS) or not (cells[0].isdecimal() and cells[2].isdecimal()):
                    raise _bad(path, line, repr(cells)[:80], "a time, a recording and a row number")
                played.append(Played(int(cells[0]), cells[1], int(cells[2])))
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, 1, str(error), "a readable journal") from error
    return played


def _bad(path: Path, line: int, found: str, expected: str) -> SitsError:
    return SitsError("journal", found=f"{path}:{line}: {found}", expected=expected)


def ledger_scores(ledger: Path, *, scale: float) -> dict[int, float]:
    """Source time (ns) → score of every command in a device ledger. Raises LedgerError, CommandError.

    The ledger is read, not audited: ``sitsctl audit verify`` says whether it can be believed.
    """
    scores = {}
    reader = Ledger.open_readonly(ledger)
    try:
        for leaf in reader.iterate():
            if leaf.kind is RecordKind.COMMAND:
                command = parse_command(leaf.data, None).command
                scores[command.header.t_source_ns] = command.outputs[0] * scale
    finally:
        reader.close()
    return scores


def scores_of_recording(played: Sequence[Played], name: str, rows: int, scores: dict[int, float]) -> Floats:
    """Scores (rows,) of the recording ``name`` of which ``rows`` rows exist; NaN where a row has no command."""
    found = np.full(rows, np.nan)
    for item in played:
        if item.recording == name and item.row < rows:
            found[item.row] = scores.get(item.t_source_ns, np.nan)
    return found
