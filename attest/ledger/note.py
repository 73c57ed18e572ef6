"""Checkpoints: the C2SP ``tlog-checkpoint`` text in a C2SP ``signed-note`` with Ed25519 signatures.

    <origin>\\n<size>\\n<base64 root>\\n[extension lines]\\n\\n— <key name> <base64(key id ‖ signature)>\\n

The key name is the origin; the key id is the first four bytes of SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.cose import Signer
from attest.ledger.errors import LedgerError
from attest.ledger.merkle import HASH_BYTES, SIZE_MAX

NOTE_BYTES_MAX: Final = 8192  # our own have about 250; the rest is room for witnesses' signatures
SIGNATURES_MAX: Final = 16
EXTENSIONS_MAX: Final = 8
_ED25519: Final = b"\x01"  # signed-note signature type
_ORIGIN: Final = re.compile(r"[\x21-\x2a\x2c-\x7e]{1,128}\Z")  # no space and no plus, as the note format wants
_SIZE: Final = re.compile(r"(0|[1-9][0-9]{0,18})\Z")
_SIGNATURE_LINE: Final = "\u2014 "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says: the log's origin, its number of leaves and the root over them."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def body(self) -> str:
        """The signed text, its final newline included."""
        root = base64.b64encode(self.root).decode()
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), root, *self.extensions))


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line of a note."""

    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A parsed note; ``verify`` checks it by a key."""

    checkpoint: Checkpoint
    text: bytes
    signatures: tuple[Signature, ...]

    def signed_by(self, publics: Iterable[bytes]) -> bytes | None:
        """The first of ``publics`` (raw Ed25519 keys) that signed under the origin's name, else ``None``."""
        for public in publics:
            wanted = key_id(self.checkpoint.origin, public)
            for line in self.signatures:
                if line.name == self.checkpoint.origin and line.key_id == wanted:
                    try:
                        Ed25519PublicKey.from_public_bytes(public).verify(line.signature, self.text)
                    except InvalidSignature:
                        continue
                    return public
        return None

    def verify(self, public: bytes) -> None:
        """Raises ``LedgerError`` (``note-signature``) unless ``public`` signed this note."""
        if self.signed_by([public]) is None:
            known = ", ".join(f"{line.name}+{line.key_id.hex()}" for line in self.signatures)
            wanted = f"{self.checkpoint.origin}+{key_id(self.checkpoint.origin, public).hex()}"
            raise LedgerError("note-signature", found=f"signatures of {known}"[:300], expected=wanted)


def key_id(name: str, public: bytes) -> bytes:
    """Key id of an Ed25519 key under a name (C2SP signed-note)."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


def verifier_key(name: str, public: bytes) -> str:
    """The text form of a public key that other signed-note tools read."""
    return f"{name}+{key_id(name, public).hex()}+{base64.b64encode(_ED25519 + public).decode()}"


def check_origin(origin: str) -> None:
    """Raises ``LedgerError`` (``ledger-origin``) if ``origin`` cannot be a key name."""
    if _ORIGIN.match(origin) is None:
        raise LedgerError(
            "ledger-origin", found=repr(origin)[:140], expected="1..128 ASCII characters, no space, no plus"
        )


def sign_checkpoint(checkpoint: Checkpoint, signer: Signer) -> bytes:
    """The signed note of ``checkpoint``. Raises ``LedgerError``."""
    check_origin(checkpoint.origin)
    if len(signer.public) != HASH_BYTES:
        raise LedgerError("ledger-signer", found=f"{len(signer.public)} bytes", expected="an Ed25519 key")
    body = checkpoint.body().encode()
    _parse_body(body.decode())
    blob = key_id(checkpoint.origin, signer.public) + signer.sign(body)
    line = f"{_SIGNATURE_LINE}{checkpoint.origin} {base64.b64encode(blob).decode()}\n"
    return body + b"\n" + line.encode()


def parse_checkpoint(note: bytes) -> SignedCheckpoint:
    """Parse a note strictly without checking signatures. Raises ``LedgerError`` (``note-format``)."""
    if len(note) > NOTE_BYTES_MAX:
        raise _format(f"{len(note)} bytes", f"at most {NOTE_BYTES_MAX}")
    try:
        text = note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _format("bytes that are no UTF-8", "UTF-8 text") from error
    if any(ord(char) < 0x20 and char != "\n" for char in text):
        raise _format("a control character", "text")
    body, separator, tail = text.rpartition("\n\n")
    if not separator or not tail.endswith("\n"):
        raise _format("no signature block", "a blank line, then signature lines")
    lines = tail[:-1].split("\n")
    if not 1 <= len(lines) <= SIGNATURES_MAX:
        raise _format(f"{len(lines)} signatures", f"1..{SIGNATURES_MAX}")
    signatures = tuple(_parse_signature(line) for line in lines)
    return SignedCheckpoint(_parse_body(body + "\n"), (body + "\n").encode(), signatures)


def _parse_body(body: str) -> Checkpoint:
    lines = body[:-1].split("\n")
    if not 3 <= len(lines) <= 3 + EXTENSIONS_MAX:
        raise _format(f"{len(lines)} lines", f"3..{3 + EXTENSIONS_MAX}")
    origin, size, root, *extensions = lines
    if _ORIGIN.match(origin) is None:
        raise _format(f"origin {origin[:64]!r}", "ASCII without space and plus")
    if _SIZE.match(size) is None or int(size) > SIZE_MAX:
        raise _format(f"size {size[:32]!r}", f"a decimal number up to {SIZE_MAX}")
    if not all(extensions):
        raise _format("an empty extension line", "text")
    return Checkpoint(origin, int(size), _base64(root, HASH_BYTES), tuple(extensions))


def _parse_signature(line: str) -> Signature:
    name, space, blob = line.removeprefix(_SIGNATURE_LINE).partition(" ")
    if not line.startswith(_SIGNATURE_LINE) or not space or not name or "+" in name:
        raise _format(f"signature line {line[:64]!r}", "'— name base64'")
    raw = _base64(blob, None)
    if not 5 <= len(raw) <= 1024:
        raise _format(f"a signature of {len(raw)} bytes", "key id and signature")
    return Signature(name, raw[:4], raw[4:])


def _base64(text: str, size: int | None) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _format(f"{text[:64]!r}", "standard base64") from error
    if base64.b64encode(raw).decode() != text or (size is not None and len(raw) != size):
        raise _format(f"{len(raw)} bytes in {text[:64]!r}", f"canonical base64 of {size or 'some'} bytes")
    return raw


def _format(found: str, expected: str) -> LedgerError:
    return LedgerError("note-format", found=found, expected=expected)
