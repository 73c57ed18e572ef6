"""``sitsctl fieldbus``: frames of fieldbuses, read from captures with files alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attest import jsontext
from attest.files import named
from fieldbus.capture import Protocol, plain
from fieldbus.errors import FieldbusError
from fieldbus.slmp.devices import Series
from sitsedge.cli.files import read_at_most
from sitsedge.cli.output import Exit, Output, OutputOption, reported

if TYPE_CHECKING:
    from fieldbus.capture import FrameResult

app = typer.Typer(help="Fieldbus frames.", no_args_is_help=True)


@app.callback()
def fieldbus() -> None:
    """Fieldbus frames."""


@app.command("decode")
def decode_command(
    file: Annotated[Path, typer.Argument(help="pcap, pcapng, or JSON lines with the frame under hex (or uadp)")],
    protocol: Annotated[Protocol, typer.Option("--protocol", help="what the frames are")],
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="the server's port in a pcap")] = None,
    series: Annotated[Series, typer.Option("--series", help="SLMP: MELSEC series, for X and Y")] = Series.Q,
    zone: Annotated[str, typer.Option("--zone", help="S7: time zone of the CPU's clock")] = "UTC",
    keys: Annotated[Path | None, typer.Option("--keys", help="UADP: key file, or JSON array of keys")] = None,
    output: Output = OutputOption,
) -> None:
    """Decode the frames of a capture, one line each: exit 1 where one was refused or there was none."""
    from fieldbus import capture  # loads the codecs: not for the other commands

    refused = total = 0
    with reported(output):
        with named(file), file.open("rb"):
            pass  # a file that is not there or not readable has its own error
        rings = () if keys is None else capture.parse_keys(read_at_most(keys, capture.KEY_FILE_BYTES_MAX))
        try:
            for result in capture.decode_file(file, capture.Options(protocol, port, series, zone, rings)):
                total += 1
                refused += isinstance(result.decoded, FieldbusError)
                print(_json(frame_data(result)) if output is Output.json else _line(result))
        finally:
            for ring in rings:
                ring.erase()
    raise typer.Exit(Exit.OK if total and not refused else Exit.REFUSED)


def frame_data(result: FrameResult) -> dict[str, Any]:
    """One frame as a JSON object: ``ok`` and ``value``, or ``ok`` false and ``error``, the code of the rule."""
    place = {"frame": result.number, "conn": result.conn, "t_ns": result.t_ns, "dir": result.direction}
    outcome = result.decoded
    if isinstance(outcome, FieldbusError):
        return {"ok": False, **place, "error": outcome.code, "found": outcome.found, "expected": outcome.expected}
    value = plain(outcome.telegram)
    if outcome.meaning is not None:
        value["meaning"] = plain(outcome.meaning)
    return {"ok": True, **place, "value": value}


def _json(data: object) -> str:
    return jsontext.dumps(data, ensure_ascii=False)


def _line(result: FrameResult) -> str:
    outcome = result.decoded
    head = f"{result.number} {result.direction or '-'}"
    if isinstance(outcome, FieldbusError):
        return f"{head} refused {outcome.code}: got {outcome.found}, expected {outcome.expected}"
    telegram = _json(plain(outcome.telegram))
    meaning = "" if outcome.meaning is None else f" -> {_json(plain(outcome.meaning))}"
    return f"{head} {telegram}{meaning}"
