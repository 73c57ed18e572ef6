"""The archive folder: names, limits, strict reading.

    archive.json                         what was archived from which ledger, and the modules (``ArchiveManifest``)
    commands.jsonl                       one command a line, in the ledger's order (``ArchivedCommand``)
    modules/<module digest>/manifest.json          the module's OCI manifest; its SHA-256 is the module digest
    modules/<module digest>/circuit.bin            the circuit that manifest names, on the bundle's own curve
    modules/<module digest>/verification_key.bin   of the same rows on the archive's curve
    keys/<module digest>.bin             proving key, needed only to go on with an archive that is not complete

The circuit on the archive's curve is the module's with another curve byte: coefficients are small integers, so the
rows are the same numbers in either field. Every digest in ``archive.json`` can be computed again from these files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from attest import jsontext
from attest.archive.errors import ArchiveError
from attest.command import Command, CommandError, parse_command
from attest.command.command import COMMAND_BYTES_MAX, SIGNALS_MAX
from attest.proof.circuit import MAGIC as CIRCUIT_MAGIC
from attest.proof.circuit import Curve

FORMAT: Final = "sits-archive-1"
MANIFEST_FILE: Final = "archive.json"
COMMANDS_FILE: Final = "commands.jsonl"
MANIFEST_BYTES_MAX: Final = 4 << 20
MODULE_MANIFEST_BYTES_MAX: Final = 1 << 20
KEY_BYTES_MAX: Final = 1 << 20  # 2,049 signals on the larger curve have 99 KiB
LINE_BYTES_MAX: Final = 4 * COMMAND_BYTES_MAX + 32 * SIGNALS_MAX  # the command in hex, its values again as text
MODULES_MAX: Final = 1024
INDEX_MAX: Final = (1 << 63) - 1
CURVE_AT: Final = len(CIRCUIT_MAGIC)
CIRCUIT_MEDIA_TYPE: Final = "application/vnd.sits.circuit"
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """One module. Digests are SHA-256 in hex; ``rows_sha256`` is over the circuit file without its curve byte.

    ``development`` means that nobody contributed to the archive's key: whoever made it could forge its proofs.
    """

    source_curve: str
    source_circuit_sha256: str
    circuit_sha256: str
    rows_sha256: str
    vk_sha256: str
    development: bool
    contributors: int


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """``archive.json``. ``first`` and ``last`` bound the records; ``commands`` and their digest are of the whole file.

    ``size`` and ``root`` are the ledger's tree head when the archive was begun. ``complete`` is false while lines are
    still missing.
    """

    curve: str
    ledger: str
    origin: str
    size: int
    root: str
    first: int
    last: int
    complete: bool
    commands: int
    commands_sha256: str
    modules: Mapping[str, ModuleEntry]

    def encode(self) -> bytes:
        """JSON with sorted keys."""
        body = {"format": FORMAT, **{name: getattr(self, name) for name in self.__slots__ if name != "modules"}}
        body["modules"] = {digest: asdict(entry) for digest, entry in self.modules.items()}
        return jsontext.dumps(body, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> ArchiveManifest:
        """Raises :class:`ArchiveError` ``archive-format``."""
        body = _object(_json(data, MANIFEST_FILE), {"format", *cls.__slots__}, MANIFEST_FILE)
        if body.pop("format") != FORMAT:
            raise _bad(MANIFEST_FILE, "another format", FORMAT)
        modules = body.pop("modules")
        if not isinstance(modules, dict) or len(modules) > MODULES_MAX:
            raise _bad(MANIFEST_FILE, "modules of another form", f"at most {MODULES_MAX} by digest")
        for name in ("size", "first", "last", "commands"):
            _integer(body[name], MANIFEST_FILE, name)
        for name in ("curve", "ledger", "origin"):
            _text(body[name], MANIFEST_FILE, name)
        for name in ("root", "commands_sha256"):
            _hex(body[name], MANIFEST_FILE, name, 32)
        if type(body["complete"]) is not bool:
            raise _bad(MANIFEST_FILE, "complete of another type", "true or false")
        if body["curve"] not in {curve.text for curve in Curve}:
            raise _bad(MANIFEST_FILE, f"curve {body['curve'][:40]!r}", "a curve's name")
        entries = {_hex(name, MANIFEST_FILE, "module", 32).hex(): _module(entry) for name, entry in modules.items()}
        return cls(**body, modules=entries)


@dataclass(frozen=True, slots=True)
class ArchivedCommand:
    """One line: the record as the ledger holds it, what it says in words, and the new proof."""

    record: int
    leaf_hash: bytes
    data: bytes
    command: Command
    proof: bytes

    def encode(self) -> bytes:
        """One line of JSON."""
        header = self.command.header
        body = {
            "record": self.record,
            "leaf_hash": self.leaf_hash.hex(),
            "command": self.data.hex(),
            "header": _header(self.command),
            "inputs": self.command.inputs,
            "outputs": self.command.outputs,
            "ctx": header.ctx().hex(),
            "proof": self.proof.hex(),
        }
        return jsontext.dumps(body, separators=(",", ":"), sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes, number: int) -> ArchivedCommand:
        """Line ``number``; what it says in words must be what the command's bytes say. Raises :class:`ArchiveError`."""
        where = f"{COMMANDS_FILE} line {number}"
        if len(line) > LINE_BYTES_MAX:
            raise _bad(where, f"{len(line)} bytes", f"at most {LINE_BYTES_MAX}")
        keys = {"record", "leaf_hash", "command", "header", "inputs", "outputs", "ctx", "proof"}
        body = _object(_json(line, where), keys, where)
        record = _integer(body["record"], where, "record")
        data = _hex(body["command"], where, "command", None)
        try:
            command = parse_command(data, None).command
        except CommandError as error:
            raise _bad(where, f"a command that is {error.code}: {error.found}", "a signed command") from error
        found = cls(record, _hex(body["leaf_hash"], where, "leaf_hash", 32), data, command,
                    _hex(body["proof"], where, "proof", None))  # fmt: skip
        if found.encode() != line:
            raise _bad(where, "words that differ from the command's bytes, or another spelling", "the one encoding")
        return found


def rows_sha256(circuit: bytes) -> str:
    """What two circuits with the same rows have in common."""
    return hashlib.sha256(circuit[:CURVE_AT] + circuit[CURVE_AT + 1 :]).hexdigest()


def circuit_digest(module_manifest: bytes) -> str:
    """SHA-256 of the circuit that a module's OCI manifest names. Raises :class:`ArchiveError` ``archive-module``."""
    try:
        layers = _json(module_manifest, "module manifest")["layers"]
        (digest,) = [layer["digest"] for layer in layers if layer["mediaType"] == CIRCUIT_MEDIA_TYPE]
        return _hex(digest.removeprefix("sha256:"), "module manifest", "circuit", 32).hex()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError("archive-module", found="a manifest without a circuit", expected="exactly one") from error


def read_file(path: Path, limit: int) -> bytes:
    """A file of at most ``limit`` bytes. Raises :class:`ArchiveError` ``archive-io`` or ``archive-format``."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ArchiveError("archive-io", found=f"{path.name}: {error.strerror}", expected="a readable file") from error
    if len(data) > limit:
        raise _bad(path.name, f"over {limit} bytes", "a smaller file")
    return data


def _header(command: Command) -> dict[str, Any]:
    header = command.header
    return {
        "version": header.version,
        "device_id": header.device_id,
        "gate_id": header.gate_id,
        "epoch": header.epoch,
        "sequence": header.sequence,
        "t_source_ns": header.t_source_ns,
        "t_decided_ns": header.t_decided_ns,
        "module_digest": header.module_digest.hex(),
        "deployment_digest": header.deployment_digest.hex(),
        "mode": header.mode.name,
    }


def _module(entry: object) -> ModuleEntry:
    body = _object(entry, set(ModuleEntry.__slots__), "module entry")
    for name in ("source_circuit_sha256", "circuit_sha256", "rows_sha256", "vk_sha256"):
        _hex(body[name], "module entry", name, 32)
    if body["source_curve"] not in {curve.text for curve in Curve}:
        raise _bad("module entry", "another source_curve", "a curve's name")
    contributors = _integer(body["contributors"], "module entry", "contributors")
    if type(body["development"]) is not bool or body["development"] != (contributors == 0):
        raise _bad("module entry", "a development mark that contradicts the contributors", "true without contributors")
    return ModuleEntry(**body)


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _bad(where, "no strict JSON", "JSON with each key once") from error


def _refuse(name: str) -> None:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ValueError("a key twice")
    return body


def _object(value: object, keys: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != keys:
        raise _bad(where, "other keys", ", ".join(sorted(keys)))
    return dict(value)


def _integer(value: object, where: str, name: str) -> int:
    if type(value) is not int or not 0 <= value <= INDEX_MAX:
        raise _bad(where, f"{name} of another form", "an integer from 0 on")
    return value


def _text(value: object, where: str, name: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 128:
        raise _bad(where, f"{name} of another form", "1 to 128 characters")
    return value


def _hex(value: object, where: str, name: str, size: int | None) -> bytes:
    if not isinstance(value, str) or len(value) % 2 or not set(value) <= _HEX:
        raise _bad(where, f"{name} of another form", "lower-case hex")
    data = bytes.fromhex(value)
    if size is not None and len(data) != size:
        raise _bad(where, f"{name} of {len(data)} bytes", f"{size}")
    return data


def _bad(where: str, found: str, expected: str) -> ArchiveError:
    return ArchiveError("archive-format", found=f"{where}: {found}", expected=expected)
