"""Openings: the plant's file of salts, and the file that reveals one command to whoever holds the export.

An opening is the whole signed command and the salt. It shows that the commitment in the export is to the inputs of the
very command whose digest the gate's receipt names; a third party that chooses commands after the export was made, and
has the plant open those, learns how far the plant's other commitments can be trusted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attest import cbor, jsontext
from attest.command.command import COMMAND_BYTES_MAX, ParsedCommand, parse_command
from attest.disclosure.errors import DisclosureError
from attest.disclosure.format import COMMANDS_MAX, COMMITMENT_BYTES, command_name, place, read_file
from attest.errors import AttestError
from attest.ledger.kinds import RecordKind
from attest.ledger.store import Ledger
from attest.proof.circuit import Curve
from attest.proof.errors import CircuitError
from attest.proof.sealed.commitment import SALT_BYTES, Salt, commit
from attest.proof.sealed.errors import SealedError

FORMAT: Final = "sits-openings-1"
OPENINGS_BYTES_MAX: Final = 4 << 20
OPENING_BYTES_MAX: Final = COMMAND_BYTES_MAX + 256
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """Where the command is in the device's ledger, what was committed, and the salt (secret)."""

    record: int
    commitment: bytes
    salt: bytes


class Openings:
    """The salts of one export; the file is readable by its owner only and never part of the export."""

    def __init__(self, path: Path, curve: Curve, entries: Mapping[str, Entry]) -> None:
        self._path, self.curve, self._entries = path, curve, dict(entries)
        self._salts = {entry.salt for entry in self._entries.values()}

    @classmethod
    def create(cls, path: Path, curve: Curve) -> Openings:
        """A new file, mode 0600. Raises ``OSError`` where it exists or cannot be made."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return cls(path, curve, {})

    @classmethod
    def load(cls, path: Path) -> Openings:
        """Raises :class:`DisclosureError` (``export-io``, ``openings-format``)."""
        try:
            body = jsontext.loads(read_file(path, OPENINGS_BYTES_MAX).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise _bad("no JSON", "an openings file") from error
        if not isinstance(body, dict) or set(body) != {"format", "curve", "commands"} or body["format"] != FORMAT:
            raise _bad("other keys or another format", FORMAT)
        commands = body["commands"]
        if not isinstance(commands, dict) or len(commands) > COMMANDS_MAX:
            raise _bad("commands of another form", f"at most {COMMANDS_MAX} by name")
        try:
            curve = Curve.named(body["curve"])
        except CircuitError as error:
            raise _bad(error.found, error.expected) from error
        openings = cls(path, curve, {})
        for name, entry in commands.items():
            place(name)
            openings._add(name, _entry(entry))
        return openings

    def add(self, name: str, *, record: int, commitment: bytes, salt: Salt) -> None:
        """Raises :class:`DisclosureError` ``salt-reused``: one salt serves one command."""
        self._add(name, Entry(record, commitment, salt.reveal()))

    def _add(self, name: str, entry: Entry) -> None:
        if name in self._entries or entry.salt in self._salts:
            raise DisclosureError("salt-reused", found=f"command {name} or its salt again", expected="one salt each")
        self._entries[name] = entry
        self._salts.add(entry.salt)

    def save(self) -> None:
        """Writes the file made by :meth:`create`. Raises ``OSError``."""
        commands = {
            name: {"record": it.record, "commitment": it.commitment.hex(), "salt": it.salt.hex()}
            for name, it in self._entries.items()
        }
        text = jsontext.dumps({"format": FORMAT, "curve": self.curve.text, "commands": commands}, indent=1)
        with self._path.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entry(self, name: str) -> Entry:
        """Raises :class:`DisclosureError` ``opening-unknown``."""
        if name not in self._entries:
            raise DisclosureError(
                "opening-unknown", found=f"command {name}"[:60], expected=f"one of the {len(self._entries)} exported"
            )
        return self._entries[name]


@dataclass(frozen=True, slots=True, repr=False)
class Opening:
    """One revealed command: its signed bytes and the salt of its commitment."""

    command: bytes
    salt: bytes

    def encode(self) -> bytes:
        """Deterministic CBOR."""
        return cbor.dumps({1: _VERSION, 2: self.command, 3: self.salt})

    @classmethod
    def decode(cls, data: bytes) -> Opening:
        """Raises :class:`DisclosureError` ``openings-format``."""
        try:
            body = cbor.loads(data, max_bytes=OPENING_BYTES_MAX, max_depth=1, max_items=8)
        except AttestError as error:
            raise _bad(error.found, error.expected) from error
        if not isinstance(body, dict) or tuple(body) != (1, 2, 3) or body[1] != _VERSION:
            raise _bad("another map", "an opening")
        command, salt = body[2], body[3]
        if type(command) is not bytes or type(salt) is not bytes or len(salt) != SALT_BYTES:
            raise _bad("another command or salt", f"bytes, and {SALT_BYTES} bytes")
        return cls(command, salt)

    def parsed(self) -> ParsedCommand:
        """The command, its signature unchecked. Raises ``CommandError``."""
        return parse_command(self.command, None)

    def commitment(self, curve: Curve) -> bytes:
        """What salt and inputs commit to. Raises :class:`SealedError` for a salt that is none."""
        value = commit(self.parsed().command.inputs, Salt(self.salt), curve)
        return value.to_bytes(COMMITMENT_BYTES, "big")


def open_command(openings: Path, device_ledger: Path, name: str) -> Opening:
    """The opening of command ``name`` (``<epoch>-<sequence>``), checked before it leaves.

    Raises :class:`DisclosureError`: ``openings-format``, ``opening-unknown``, ``opening-wrong`` where ledger and
    commitment do not belong together; ``LedgerError``.
    """
    kept = Openings.load(openings)
    entry = kept.entry(name)
    ledger = Ledger.open_readonly(device_ledger)
    try:
        leaf = ledger.read(entry.record)
    finally:
        ledger.close()
    if leaf.kind is not RecordKind.COMMAND:
        raise _wrong(f"record {entry.record} of kind {leaf.kind}", "the command")
    opening = Opening(leaf.data, entry.salt)
    found = command_name(opening.parsed().command.header)
    if found != name:
        raise _wrong(f"command {found} at record {entry.record}", name)
    try:
        commitment = opening.commitment(kept.curve)
    except SealedError as error:
        raise _wrong(error.found, error.expected) from error
    if commitment != entry.commitment:
        raise _wrong("inputs of another commitment", entry.commitment.hex())
    return opening


def _entry(value: object) -> Entry:
    if not isinstance(value, dict) or set(value) != {"record", "commitment", "salt"}:
        raise _bad("a command's entry of another form", "record, commitment and salt")
    record = value["record"]
    if type(record) is not int or record < 0:
        raise _bad("a record number of another form", "an integer from 0 on")
    return Entry(record, _hex(value["commitment"], COMMITMENT_BYTES), _hex(value["salt"], SALT_BYTES))


def _hex(value: Any, size: int) -> bytes:
    try:
        data = bytes.fromhex(value)
    except (TypeError, ValueError) as error:
        raise _bad("no hex", f"{size} bytes in hex") from error
    if len(data) != size or data.hex() != value:
        raise _bad(f"{len(data)} bytes", f"{size} in lower-case hex")
    return data


def _bad(found: str, expected: str) -> DisclosureError:
    return DisclosureError("openings-format", found=found, expected=expected)


def _wrong(found: str, expected: str) -> DisclosureError:
    return DisclosureError("opening-wrong", found=found, expected=expected)
