"""``sitsctl attest predict``: the PCR values of a boot that has not happened yet, from the files of the update."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attest import jsontext
from attest.boot import predict
from attest.boot.eventlog import EventLog, parse
from attest.boot.logformat import MAX_LOG_BYTES
from attest.boot.pe import MAX_IMAGE_BYTES
from attest.files import named
from sitsedge.cli.files import read_bounded
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported

MAX_INITRD_BYTES = MAX_IMAGE_BYTES


class Switch(StrEnum):
    """``--secure-boot``."""

    on = "on"
    off = "off"


def register(app: typer.Typer) -> None:
    """Add the command to ``sitsctl attest``."""
    app.command("predict")(predict_boot)


def predict_boot(
    uki: Annotated[Path | None, typer.Option("--uki", help="unified kernel image (systemd-stub)")] = None,
    kernel: Annotated[Path | None, typer.Option("--kernel", help="or a kernel that firmware starts")] = None,
    initrd: Annotated[Path | None, typer.Option("--initrd", help="initrd of --kernel")] = None,
    cmdline: Annotated[
        str | None,
        typer.Option("--cmdline", help="load options: all of --kernel's, or what a boot entry adds to --uki"),
    ] = None,
    from_log: Annotated[Path | None, typer.Option("--from-log", help="event log of this machine's last boot")] = None,
    secure_boot: Annotated[
        Switch | None, typer.Option("--secure-boot", help="state of Secure Boot (default: as in --from-log)")
    ] = None,
    out_log: Annotated[Path | None, typer.Option("--out-log", help="file for the predicted log")] = None,
    out_pcrs: Annotated[Path | None, typer.Option("--out-pcrs", help="file for the predicted values, JSON")] = None,
    output: Output = OutputOption,
) -> None:
    """Predict what an update will measure; --out-log and --out-pcrs are what 'attest policy make' takes."""
    with reported(output):
        _check_usage(uki, kernel, initrd, cmdline, from_log, secure_boot)
        reference = None if from_log is None else parse(read_bounded(from_log, MAX_LOG_BYTES))
        if uki is not None:
            boot = _unified(uki, cmdline, reference, secure_boot)
        else:
            assert kernel is not None
            boot = predict.kernel_boot(
                read_bounded(kernel, MAX_IMAGE_BYTES),
                initrd=None if initrd is None else read_bounded(initrd, MAX_INITRD_BYTES),
                options=cmdline or "",
            )
        log = predict.predict(boot, reference=reference)
        values = log.replay()
        if reference is not None:
            values |= {pcr: log.value(pcr) for pcr in predict.PREDICTED}
        _write(out_log, log.encode())
        _write(out_pcrs, _pcrs_json(values))
        data = _data(log, values, whole=reference is not None)
        emit(output, data, lambda: print("\n".join(_lines(data))))
        if reference is None:
            note("without --from-log, PCR 4 is that of firmware that starts this program from a boot option")


def _check_usage(
    uki: Path | None,
    kernel: Path | None,
    initrd: Path | None,
    cmdline: str | None,
    from_log: Path | None,
    secure_boot: Switch | None,
) -> None:
    if (uki is None) == (kernel is None):
        complain("--uki or --kernel", "give what will be booted, one of the two")
    elif uki is not None and initrd is not None:
        complain("--uki with --initrd", "a unified image carries its initrd")
    elif kernel is not None and cmdline is None:
        complain("--kernel without --cmdline", "the kernel's load options are measured: give them exactly, or ''")
    elif uki is not None and from_log is None and secure_boot is None:
        complain("--uki without --secure-boot", "give --secure-boot on or off, or --from-log")
    else:
        return
    raise typer.Exit(Exit.USAGE)


def _unified(path: Path, passed: str | None, reference: EventLog | None, state: Switch | None) -> predict.Boot:
    image = read_bounded(path, MAX_IMAGE_BYTES)
    if state is not None or reference is None:
        return predict.uki_boot(image, secure_boot=state is Switch.on, passed=passed)
    return predict.uki_boot(
        image,
        secure_boot=predict.secure_boot_in(reference),
        inner_measured=predict.inner_kernel_in(reference),
        passed=passed,
    )


def _write(path: Path | None, data: bytes) -> None:
    if path is not None:
        with named(path):
            path.write_bytes(data)


def _pcrs_json(values: dict[int, bytes]) -> bytes:
    return jsontext.dumps(
        {"sha256": {str(pcr): value.hex() for pcr, value in sorted(values.items())}}, indent=1
    ).encode()


def _data(log: EventLog, values: dict[int, bytes], *, whole: bool) -> dict[str, Any]:
    return {
        "pcrs": {str(pcr): value for pcr, value in sorted(values.items())},
        "whole_boot": whole,
        "events": [
            {"pcr": event.pcr, "digest": event.digest, "text": event.describe()}
            for event in log.events
            if event.extends and event.pcr in predict.PREDICTED
        ],
    }


def _lines(data: dict[str, Any]) -> list[str]:
    events = [f"PCR {event['pcr']:2}  {event['digest'].hex()}  {event['text']}" for event in data["events"]]
    return events + [f"PCR {int(pcr):2}  {value.hex()}" for pcr, value in data["pcrs"].items()]
