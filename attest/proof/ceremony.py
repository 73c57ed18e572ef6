"""The set-up ceremony: from a phase 1 that many contributed to, to one circuit's keys that anyone can check.

Whoever knows all secrets of a set-up can forge proofs, so several people each contribute one and erase it; one honest
one is enough. Phase 1 serves every circuit (Bowe, Gabizon, Miers 2017; files of snarkjs, ``.ptau``, come in and go
out with their history), phase 2 makes the keys of one (Kohlweiss, Maller, Siim, Volkhov, "Snarky Ceremonies",
ASIACRYPT 2021). Formats: docs/interfaces.md. The work is done by the Rust core, on files: a phase 1 may be large.

Needs no device; contributors and auditors use it without the rest of the product.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from attest.errors import AttestError
from attest.proof.circuit import FILE_BYTES_MAX, Curve

ENTROPY_BYTES_MAX: Final = 1 << 20
"""More than anyone types or rolls; keeps a wrong file out of memory."""

_MAGIC_BYTES: Final = 8
_FIRST_PREFIX: Final = ("phase1-", "ptau-")
_EVERY_STEP: Final = "a ceremony in which every step follows"
_EXPECTED: Final = {
    "phase1-empty": ("at least one contributor", "sitsctl proof contribute FILE --name NAME"),
    "setup-empty": ("at least one contributor", "sitsctl proof contribute CEREMONY --name NAME"),
    "phase1-power": ("a power from 2 to 20", "--power takes the first 2^POWER powers of a larger file"),
    "phase1-small": ("a phase 1 that holds what the circuit needs", "begin or import one of that power"),
    "phase1-reduced": ("a whole phase 1", "contribute to the file that it was cut from"),
    "setup-circuit": ("the transcript of this circuit", ""),
    "setup-phase1": ("the phase 1 that the transcript was started from", ""),
    "curve-mismatch": ("circuit and phase 1 on one curve", ""),
    "name": ("a short printable name", ""),
    "beacon": ("public randomness within the limits", ""),
    "file": ("files that can be read and made", ""),
    "randomness": ("randomness from the operating system", ""),
}
"""What was expected and what to do about it, where there is more to say than that a step does not follow."""
_SECOND_PREFIX: Final = ("setup-", "transcript-", "circuit-", "key-lint", "beacon", "curve-")


class CeremonyError(AttestError):
    """A ceremony's file, or a step of it, was refused; ``code`` names the step.

    Phase 1: ``phase1-format``, ``ptau-format``, ``phase1-power``, ``phase1-empty``, ``phase1-start``,
    ``phase1-powers``, ``phase1-history``, ``phase1-end``, ``phase1-hash``, ``phase1-reduced``, ``phase1-full``,
    ``phase1-small``. Phase 2: ``transcript-format``, ``setup-circuit``, ``setup-phase1``, ``setup-origin``,
    ``setup-identity``, ``setup-proof``, ``setup-beacon``, ``setup-delta``, ``setup-empty``, ``setup-ic``,
    ``setup-k``, ``setup-h``, ``setup-full``, ``key-lint``. Both: ``name``, ``beacon``, ``curve-unknown``,
    ``curve-mismatch``, ``circuit-…``, ``file``, ``file-exists``, ``file-kind``, ``entropy``, ``randomness``.
    """

    @property
    def refusal(self) -> bool:
        """Whether something was checked and found wrong, rather than not done."""
        return self.code.startswith((*_FIRST_PREFIX, *_SECOND_PREFIX))


class FileKind(Enum):
    """What a file of a ceremony is, by its first bytes."""

    PHASE1 = b"SITSPT01"
    TRANSCRIPT = b"SITSCT01"
    PTAU = b"ptau"
    CIRCUIT = b"SITSR1C"


@dataclass(frozen=True, slots=True)
class Contributor:
    """One contribution. ``hash`` is what its contributor was told and can look for: the response's BLAKE2b in phase 1
    (64 bytes), the running hash in phase 2 (32 bytes). A ``beacon`` is public randomness, not somebody's secret."""

    name: str | None
    beacon: bool
    hash: bytes


@dataclass(frozen=True, slots=True)
class Beacon:
    """Public randomness of a later date, to be hashed 2^``exponent`` times (10 to 24)."""

    value: bytes
    exponent: int = 10


@dataclass(frozen=True, slots=True)
class Phase1:
    """A verified phase 1: powers of tau below 2^(``power`` + 1).

    ``powers_hashed``: the last contribution's hashes were recomputed from the powers, which a file cut down from one of
    2^``ceremony_power`` does not allow. What earlier contributions left behind is in no file: the hashes their
    proofs are bound to are taken as written.
    """

    curve: Curve
    power: int
    ceremony_power: int
    sha256: bytes
    contributors: tuple[Contributor, ...]
    powers_hashed: bool


@dataclass(frozen=True, slots=True)
class Transcript:
    """A phase 2 by itself: its contributions have valid proofs; what they started from was not looked at."""

    curve: Curve
    circuit_sha256: bytes
    phase1_sha256: bytes
    contributors: tuple[Contributor, ...]


@dataclass(frozen=True, slots=True)
class CeremonyKeys:
    """Keys of a transcript that was verified from its circuit and phase 1, with who contributed to them."""

    proving_key: bytes
    verification_key: bytes
    contributors: tuple[Contributor, ...]
    phase1: Phase1

    @property
    def contributions(self) -> int:
        """How many people's secrets are in the keys; a beacon is nobody's."""
        return sum(not contributor.beacon for contributor in self.contributors)


@contextmanager
def _typed() -> Iterator[None]:
    from attest import _native

    try:
        yield
    except _native.NativeError as error:
        code, detail = error.args
        expected, hint = _EXPECTED.get(code, (_EVERY_STEP, ""))
        raise CeremonyError(code, found=detail, expected=expected, hint=hint) from error


def _contributors(found: list[tuple[str | None, bool, bytes]]) -> tuple[Contributor, ...]:
    return tuple(Contributor(name, beacon, bytes(digest)) for name, beacon, digest in found)


def _phase1(found: tuple[str, int, int, bytes, list[tuple[str | None, bool, bytes]], bool]) -> Phase1:
    curve, power, ceremony_power, sha256, contributors, hashed = found
    return Phase1(Curve.named(curve), power, ceremony_power, bytes(sha256), _contributors(contributors), hashed)


def file_kind(path: Path) -> FileKind:
    """Raises :class:`CeremonyError` ``file-kind``, and OSError."""
    with path.open("rb") as file:
        magic = file.read(_MAGIC_BYTES)
    for kind in FileKind:
        if magic.startswith(kind.value):
            return kind
    raise CeremonyError("file-kind", found=f"{path.name}, which begins {magic!r}", expected="a file of a ceremony")


def read_circuit(path: Path) -> bytes:
    """A circuit file within its limit; its content is judged by the core. Raises OSError."""
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _place(out: Path, write: Callable[[Path], None], *, replace: bool = False) -> None:
    """``out`` appears complete or not at all."""
    if not replace and out.exists():
        raise CeremonyError("file-exists", found=f"{out} exists", expected="a new file")
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def new_phase1(out: Path, *, curve: Curve, power: int) -> None:
    """Powers to which nobody has contributed; ``power`` from 2 to 20."""
    from attest import _native

    with _typed():
        _place(out, lambda part: _native.phase1_new(curve.text, power, part))


def power_for(circuit: bytes) -> int:
    """The smallest power of a phase 1 from which the circuit's keys can be made."""
    from attest import _native

    with _typed():
        return _native.phase1_power_for(circuit)


def contribute(
    source: Path, out: Path | None = None, *, name: str, entropy: bytes = b"", beacon: Beacon | None = None
) -> bytes:
    """Contributes to a phase 1 file or a transcript, in place unless ``out`` is given; returns the hash to publish.

    The secrets come from the operating system with ``entropy`` hashed in, and are erased; none is ever written.
    """
    from attest import _native

    kind = file_kind(source)
    if len(entropy) > ENTROPY_BYTES_MAX:
        raise CeremonyError("entropy", found=f"{len(entropy)} bytes", expected=f"at most {ENTROPY_BYTES_MAX}")
    work = {FileKind.PHASE1: _native.phase1_contribute, FileKind.TRANSCRIPT: _native.phase2_contribute}.get(kind)
    if work is None:
        raise CeremonyError("file-kind", found=kind.name.lower(), expected="a phase 1 file or a transcript")
    published = b""

    def write(part: Path) -> None:
        nonlocal published
        value = None if beacon is None else (beacon.value, beacon.exponent)
        published = work(source, part, name=name, entropy=entropy, beacon=value)

    with _typed():
        _place(out or source, write, replace=out is None)
    return published


def verify_phase1(path: Path) -> Phase1:
    """Checks a phase 1 file completely: powers, proofs of knowledge, order, hashes."""
    from attest import _native

    with _typed():
        return _phase1(_native.phase1_verify(path))


def import_ptau(source: Path, out: Path, *, power: int | None = None) -> tuple[Phase1, bool]:
    """Checks a ``.ptau`` file of snarkjs and writes it, or its first 2^``power`` powers, as a phase 1 file.

    Also says whether it was prepared: its Lagrange bases are not used, so they were not looked at.
    """
    from attest import _native

    found: list[tuple[Phase1, bool]] = []

    def write(part: Path) -> None:
        report, prepared = _native.ptau_import(source, part, power=power)
        found.append((_phase1(report), prepared))

    with _typed():
        _place(out, write)
    return found[0]


def export_ptau(source: Path, out: Path) -> None:
    """Writes a phase 1 file as an unprepared ``.ptau`` file, with its history."""
    from attest import _native

    with _typed():
        _place(out, lambda part: _native.ptau_export(source, part))


def start(circuit: bytes, phase1: Path, out: Path) -> None:
    """Starts a circuit's phase 2: verifies the phase 1 file and writes a transcript without contributions."""
    from attest import _native

    with _typed():
        _place(out, lambda part: _native.phase2_start(circuit, phase1, part))


def contributions(transcript: Path) -> Transcript:
    """Who contributed to a transcript; proofs and order are checked, what the contributions started from is not."""
    from attest import _native

    with _typed():
        curve, circuit, phase1, found = _native.phase2_contributions(transcript)
    return Transcript(Curve.named(curve), bytes(circuit), bytes(phase1), _contributors(found))


def verify(circuit: bytes, phase1: Path, transcript: Path) -> CeremonyKeys:
    """Recomputes the whole set-up from its files; the keys are made only if every step holds."""
    from attest import _native

    with _typed():
        proving, verification, found, report = _native.phase2_verify(circuit, phase1, transcript)
    return CeremonyKeys(bytes(proving), bytes(verification), _contributors(found), _phase1(report))
