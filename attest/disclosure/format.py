"""The export folder: names, limits, strict reading.

    manifest.json                      what was exported, under which circuit and key (``Manifest``)
    verification_key.bin               of the sealed circuit
    rules.cbor                         the gate's rules: the box, the relations and the limits of the statement
    checkpoint.txt                     the gate's signed checkpoint that every receipt below is included in
    epochs/<epoch>.cbor                the gate's record that opened the epoch (``IncludedRecord``)
    commands/<epoch>-<sequence>.cbor   one command: header, outputs, commitment, proof, receipt (``SealedRecord``)

No file holds an input, a salt, the signed command or its open proof: with the last two anybody could try inputs, few
and slow as they are, until one fits.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from attest import cbor, jsontext
from attest.command.command import SIGNALS_MAX, VALUE_MAX, VALUE_MIN, CommandHeader, parse_header
from attest.command.records import RECORD_BYTES_MAX
from attest.disclosure.errors import DisclosureError
from attest.errors import AttestError
from attest.ledger.merkle import HASH_BYTES, SIZE_MAX
from attest.proof.circuit import Curve

FORMAT: Final = "sits-sealed-export-1"
MANIFEST_FILE: Final = "manifest.json"
KEY_FILE: Final = "verification_key.bin"
RULES_FILE: Final = "rules.cbor"
CHECKPOINT_FILE: Final = "checkpoint.txt"
EPOCHS: Final = "epochs"
COMMANDS: Final = "commands"
SUFFIX: Final = ".cbor"

COMMANDS_MAX: Final = 10_000
"""Some minutes of proving, and 20 MiB; a longer period is exported in parts."""
MANIFEST_BYTES_MAX: Final = 1 << 20  # 10,000 names of up to 40 characters
KEY_BYTES_MAX: Final = 1 << 20
RULES_BYTES_MAX: Final = 1 << 20
PATH_MAX: Final = 64  # hashes of an inclusion proof in the largest tree
COMMITMENT_BYTES: Final = 32
CTX_BYTES: Final = 31
RECORD_FILE_BYTES_MAX: Final = RECORD_BYTES_MAX + 16_384
_VERSION: Final = 1
_NAME: Final = re.compile(r"([1-9][0-9]{0,18})-([1-9][0-9]{0,18})\Z")
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})+\Z")
_KEYS: Final = frozenset(
    {
        "format",
        "curve",
        "profile",
        "gate_id",
        "device_id",
        "gate_origin",
        "gate_public",
        "module_digest",
        "rules_sha256",
    }
    | {"circuit_sha256", "open_circuit_sha256", "vk_sha256", "development", "contributors", "commands"}
)
_DIGESTS: Final = (
    "gate_public",
    "module_digest",
    "rules_sha256",
    "circuit_sha256",
    "open_circuit_sha256",
    "vk_sha256",
)

DECLARED: Final = ("profile", "circuit_sha256", "open_circuit_sha256", "contributors")
"""What is the export's own word and nothing in it can bear out: the circuits and the ceremony are not part of it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """``manifest.json``. Digests are SHA-256 in hex, ``gate_public`` the gate's Ed25519 key in hex.

    The sealed circuit is a function of the module's open circuit and the rules. ``development`` means that nobody
    contributed to the key: whoever made it could forge the proofs.
    """

    curve: str
    profile: str
    gate_id: str
    device_id: str
    gate_origin: str
    gate_public: str
    module_digest: str
    rules_sha256: str
    circuit_sha256: str
    open_circuit_sha256: str
    vk_sha256: str
    development: bool
    contributors: int
    commands: tuple[str, ...]

    def encode(self) -> bytes:
        """JSON with sorted keys."""
        return jsontext.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Raises :class:`DisclosureError` ``export-format``."""
        try:
            body = jsontext.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise _bad(MANIFEST_FILE, "no JSON", "a manifest") from error
        if not isinstance(body, dict) or set(body) != _KEYS or body.pop("format") != FORMAT:
            raise _bad(MANIFEST_FILE, "other keys or another format", FORMAT)
        _check_manifest(body)
        manifest = cls(**{**body, "commands": tuple(body["commands"])})
        if manifest.encode() != data:
            raise _bad(MANIFEST_FILE, "another spelling", "the one encoding")
        return manifest


def _check_manifest(body: dict[str, Any]) -> None:
    texts = ("curve", "profile", "gate_id", "device_id", "gate_origin")
    if not all(isinstance(body[name], str) and 1 <= len(body[name]) <= 128 for name in texts):
        raise _bad(MANIFEST_FILE, "a name of another form", "1 to 128 characters")
    if body["curve"] not in {curve.text for curve in Curve}:
        raise _bad(MANIFEST_FILE, f"curve {body['curve']!r}", "a curve's name")
    for name in _DIGESTS:
        if not isinstance(body[name], str) or len(body[name]) != 64 or _HEX.match(body[name]) is None:
            raise _bad(MANIFEST_FILE, f"{name} of another form", "32 bytes in lower-case hex")
    contributors, development = body["contributors"], body["development"]
    if type(contributors) is not int or contributors < 0 or development is not (contributors == 0):
        raise _bad(MANIFEST_FILE, "a development mark that contradicts the contributors", "true without contributors")
    names = body["commands"]
    if not isinstance(names, list) or not 1 <= len(names) <= COMMANDS_MAX:
        raise _bad(MANIFEST_FILE, "commands of another form", f"1 to {COMMANDS_MAX} names")
    if not all(isinstance(name, str) and _NAME.match(name) for name in names):
        raise _bad(MANIFEST_FILE, "a command's name of another form", "epoch-sequence")
    if sorted(set(names), key=place) != names:
        raise _bad(MANIFEST_FILE, "commands out of order or twice", "rising epochs and sequences")


def command_name(header: CommandHeader) -> str:
    """``<epoch>-<sequence>``."""
    return f"{header.epoch}-{header.sequence}"


def place(name: str) -> tuple[int, int]:
    """Epoch and sequence of a name. Raises :class:`DisclosureError` ``export-format``."""
    match = _NAME.match(name)
    if match is None:
        raise _bad("command", repr(name)[:60], "epoch-sequence")
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True)
class IncludedRecord:
    """A record of the gate's ledger as it stands there, with its place under the checkpoint."""

    data: bytes
    index: int
    path: tuple[bytes, ...]

    def encode(self) -> bytes:
        """Deterministic CBOR."""
        return cbor.dumps({1: _VERSION, **self.fields(2)})

    def fields(self, first: int) -> dict[int, object]:
        """Record, index and path under three keys."""
        return {first: self.data, first + 1: self.index, first + 2: list(self.path)}

    @classmethod
    def decode(cls, data: bytes) -> IncludedRecord:
        """Raises :class:`DisclosureError` ``export-format``."""
        body = _map(data, 4, "record")
        return _included(body, 2, "record")


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """One command without its inputs. ``commitment`` has 32 bytes, ``proof`` 128 or 192 by curve."""

    header: CommandHeader
    outputs: tuple[int, ...]
    ctx: bytes
    commitment: bytes
    proof: bytes
    receipt: IncludedRecord

    def encode(self) -> bytes:
        """Deterministic CBOR; the header is the very bytes that ctx is the hash of."""
        head = {1: _VERSION, 2: self.header.encode(), 3: list(self.outputs), 4: self.ctx}
        return cbor.dumps({**head, 5: self.commitment, 6: self.proof, **self.receipt.fields(7)})

    @classmethod
    def decode(cls, data: bytes, curve: Curve) -> SealedRecord:
        """Raises :class:`DisclosureError` ``export-format``."""
        body = _map(data, 9, "command")
        outputs = body[3]
        if not isinstance(outputs, tuple) or not 1 <= len(outputs) <= SIGNALS_MAX:
            raise _bad("command", "outputs of another form", f"1 to {SIGNALS_MAX} integers")
        if not all(type(value) is int and VALUE_MIN <= value <= VALUE_MAX for value in outputs):
            raise _bad("command", "an output of another form", "integers of 32 bits")
        proof_bytes = curve.parameters.proof_bytes
        try:
            header = parse_header(_octets(body[2], None, "header"))
        except AttestError as error:
            raise _bad("command", f"header: {error.found}", error.expected) from error
        return cls(
            header,
            outputs,
            _octets(body[4], CTX_BYTES, "ctx"),
            _octets(body[5], COMMITMENT_BYTES, "commitment"),
            _octets(body[6], proof_bytes, "proof"),
            _included(body, 7, "receipt"),
        )


def _map(data: bytes, keys: int, what: str) -> dict[Any, Any]:
    try:
        body = cbor.loads(data, max_bytes=RECORD_FILE_BYTES_MAX, max_depth=2, max_items=2 * SIGNALS_MAX)
    except AttestError as error:
        raise _bad(what, error.found, error.expected) from error
    if not isinstance(body, dict) or tuple(body) != tuple(range(1, keys + 1)) or body[1] != _VERSION:
        raise _bad(what, "other keys or another version", f"a map of the keys 1..{keys}")
    return body


def _included(body: dict[Any, Any], first: int, what: str) -> IncludedRecord:
    data, index, path = body[first], body[first + 1], body[first + 2]
    if type(index) is not int or not 0 <= index < SIZE_MAX:
        raise _bad(what, "an index of another form", "an integer from 0 on")
    if not isinstance(path, tuple) or len(path) > PATH_MAX:
        raise _bad(what, "a path of another form", f"at most {PATH_MAX} hashes")
    return IncludedRecord(_octets(data, None, what), index, tuple(_octets(h, HASH_BYTES, "path") for h in path))


def _octets(value: object, size: int | None, what: str) -> bytes:
    if type(value) is not bytes or (size is not None and len(value) != size):
        raise _bad(what, "another type or length", f"{size if size is not None else 'some'} bytes")
    return value


def read_file(path: Path, limit: int) -> bytes:
    """A file of at most ``limit`` bytes. Raises :class:`DisclosureError` ``export-io`` or ``export-format``."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise DisclosureError(
            "export-io", found=f"{path.name}: {error.strerror}", expected="a readable file"
        ) from error
    if len(data) > limit:
        raise _bad(path.name, f"over {limit} bytes", "a smaller file")
    return data


def sha256(data: bytes) -> str:
    """In hex, as manifests have it."""
    return hashlib.sha256(data).hexdigest()


def _bad(where: str, found: str, expected: str) -> DisclosureError:
    return DisclosureError("export-format", found=f"{where}: {found}", expected=expected)
