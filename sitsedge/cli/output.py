"""How ``sitsctl`` speaks: results on stdout (text or one JSON object), errors in lower case with a hint on stderr.

Exit codes (documented in docs/cli.md, part of the public interface):
0 done, 1 refused or not verified, 2 wrong configuration or usage, 3 something in the environment failed,
130 interrupted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from typing import Any

import typer

from attest import jsontext
from attest.errors import AttestError
from fieldbus.errors import FieldbusError
from sitsedge.compiler.errors import CompileError
from sitsedge.config import ConfigError
from sitsedge.errors import SitsError

#: Codes that mean "you asked for something that is not there", not "the machine failed".
USAGE_CODES = frozenset(
    {
        "no-deployment",
        "ledger-range",
        "recording",
        "recording-missing",
        "recording-exists",
        "module-missing",
        "module-unknown",
        "delta-same",
        "curve-unknown",
        "kernel-unknown",
        "bench-network",
        "file-missing",
        "key-group",
        "file-kind",
        "file-exists",
        "phase1-power",
        "name",
        "beacon",
        "entropy",
        "export-exists",
        "openings-format",
        "enrol-file",
        "paper",
        "file-size",
        "record",
        "pcr-file",
        "boot-policy-format",
        "boot-policy-version",
        "boot-prediction",
        "uefi-image",
        "capture-format",
        "capture-keys",
        "capture-record",
        "capture-size",
        "capture-truncated",
        "line-fields",
        "line-format",
        "line-hex",
        "line-length",
        "source-unbridged",
        "time-zone",
        "rack-slot",
        "seal-file",
        "seal-pcrs",
        "seal-key-file",
        "cose-format",
        "cose-content-type",
        "user-name",
        "user-unknown",
        "password-length",
        "password-input",
        "certificate-file",
        "certificate-unknown",
        "port-twice",
        "plc-missing",
    }
)

#: Codes of somebody else's message that was judged and does not hold.
REFUSED_CODES = frozenset(
    {
        "credential",
        "ek-certificate",
        "ek-mismatch",
        "ek-template",
        "ak-template",
        "seal-approvals",
        "seal-authority",
        "seal-device",
        "seal-use",
        "seal-counter",
        "seal-stale",
        "seal-state",
        "seal-signature",
        "seal-secret",
        "tpm-counter-rollback",
        "cose-kid",
        "cose-signature",
    }
)


class Exit(IntEnum):
    """What the exit code of a command means."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    ENVIRONMENT = 3
    INTERRUPTED = 130


class Output(StrEnum):
    """``--output``."""

    text = "text"
    json = "json"


OutputOption = typer.Option(Output.text, "--output", help="text for people, json for programs (one object)")


def jsonable(value: Any) -> Any:
    """Bytes become hex; everything else must already be plain data."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    return value


def emit(output: Output, data: dict[str, Any], text: Callable[[], None]) -> None:
    """Print ``data`` as one JSON object, or call ``text`` for people."""
    if output is Output.json:
        print(jsontext.dumps(jsonable(data), ensure_ascii=False))
    else:
        text()


def complain(message: str, hint: str = "") -> None:
    """An error for people: lower case, no final period, a hint below."""
    print(f"sitsctl: error: {message}", file=sys.stderr)
    if hint:
        print(f"sitsctl: hint: {hint}", file=sys.stderr)


def note(message: str) -> None:
    """Progress for people; never mixed with results."""
    print(f"sitsctl: {message}", file=sys.stderr)


@contextlib.contextmanager
def reported(output: Output = Output.text) -> Iterator[None]:
    """Turn the packages' typed errors into one line, a hint and the documented exit code."""
    try:
        yield
    except ConfigError as error:
        _report(output, "config", "\n".join(map(str, error.faults)), error.hint)
        raise typer.Exit(Exit.USAGE) from None
    except (SitsError, AttestError, FieldbusError) as error:
        message = f"{error.code}: got {error.found}, expected {error.expected}"
        if isinstance(error, CompileError):
            place = f"{error.place}: " if error.place else ""
            message = "\n  also in the way: ".join([place + message, *error.others])
        _report(output, error.code, message, error.hint)
        usage = error.code in USAGE_CODES or isinstance(error, CompileError)
        refused = error.code in REFUSED_CODES
        raise typer.Exit(Exit.REFUSED if refused else Exit.USAGE if usage else Exit.ENVIRONMENT) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        _report(output, "operating-system", f"operating-system: {what}", "see the message; nothing is left running")
        raise typer.Exit(Exit.ENVIRONMENT) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


def _report(output: Output, code: str, message: str, hint: str) -> None:
    if output is Output.json:
        print(
            jsontext.dumps({"ok": False, "error": {"code": code, "message": message, "hint": hint}}, ensure_ascii=False)
        )
    else:
        complain(message, hint)
