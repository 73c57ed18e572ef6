"""The set-up ceremony: from a phase 1 that many contributed to, to one circuit's keys that anyone can check.

Whoever knows all secrets of a set-up can forge proofs, so several people each contribute one and erase it; one honest
one is enough. Phase 1 serves every circuit (Bowe, Gabizon, Miers 2017; files of snarkjs, ``.ptau``, come in and go
out with their history), phase 2 makes the keys of one (Kohlweiss, Maller, Siim, Volkhov, "Snarky Ceremonies",
ASIACRYPT 2021). Formats: docs/interfaces.md. The work is done by the Rust core, on files: a phase 1 may be large.

Needs no device; contributors and auditors use it without the rest of the product.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from attest.files import KIND, named
from attest.proof.ceremony_errors import CeremonyError, native_errors
from attest.proof.ceremony_files import locked, place
from attest.proof.circuit import FILE_BYTES_MAX, Curve

POWER_MIN, POWER_MAX = 2, 20
"""Of a phase 1; the core's limits."""

ENTROPY_BYTES_MAX: Final = 1 << 20
"""More than anyone types or rolls; keeps a wrong file out of memory."""

__all__ = [
    "Beacon", "CeremonyError", "CeremonyKeys", "Contributor", "FileKind", "Phase1", "Transcript", "contribute",
    "contributions", "export_ptau", "file_kind", "import_ptau", "new_phase1", "power_for", "read_circuit",
    "require_kind", "start", "verify", "verify_phase1",
]  # fmt: skip
_MAGIC_BYTES: Final = 8


class FileKind(Enum):
    """What a file of a ceremony is, by its first bytes."""

    PHASE1 = b"SITSPT01"
    TRANSCRIPT = b"SITSCT01"
    PTAU = b"ptau"
    CIRCUIT = b"SITSR1C"


_NAMES: Final = {
    FileKind.PHASE1: "a phase 1 file",
    FileKind.TRANSCRIPT: "a transcript",
    FileKind.PTAU: "a .ptau file",
    FileKind.CIRCUIT: "a circuit",
}


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

    @property
    def after_beacon(self) -> int:
        """How many contributions follow the first beacon, which should be the last step: other tools allow it."""
        return next((len(self.contributors) - i - 1 for i, one in enumerate(self.contributors) if one.beacon), 0)


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


def _contributors(found: list[tuple[str | None, bool, bytes]]) -> tuple[Contributor, ...]:
    return tuple(Contributor(name, beacon, bytes(digest)) for name, beacon, digest in found)


def _phase1(found: tuple[str, int, int, bytes, list[tuple[str | None, bool, bytes]], bool]) -> Phase1:
    curve, power, ceremony_power, sha256, contributors, hashed = found
    return Phase1(Curve.named(curve), power, ceremony_power, bytes(sha256), _contributors(contributors), hashed)


def file_kind(path: Path) -> FileKind:
    """Raises :class:`CeremonyError` ``file-kind``, ``file-missing``, ``file``."""
    with named(path, CeremonyError):
        if path.is_dir():
            raise CeremonyError(
                KIND,
                found=f"{path}: a folder that is no ceremony",
                expected="a file of a ceremony, or a ceremony folder",
                hint="sitsctl proof setup makes both",
            )
        with path.open("rb") as file:
            magic = file.read(_MAGIC_BYTES)
    for kind in FileKind:
        if magic.startswith(kind.value):
            return kind
    raise CeremonyError(KIND, found=f"{path}, which begins {magic!r}", expected="a file of a ceremony")


def require_kind(path: Path, *kinds: FileKind) -> FileKind:
    """The kind of ``path``, which must be one of ``kinds``. Raises :class:`CeremonyError` as :func:`file_kind`."""
    kind = file_kind(path)
    if kind not in kinds:
        expected = " or ".join(_NAMES[wanted] for wanted in kinds)
        raise CeremonyError(KIND, found=f"{path}: {_NAMES[kind]}", expected=expected, hint="check the path")
    return kind


def read_circuit(path: Path) -> bytes:
    """A circuit file within its limit; its content is judged by the core.

    Raises :class:`CeremonyError` as :func:`file_kind`.
    """
    require_kind(path, FileKind.CIRCUIT)
    with named(path, CeremonyError), path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def new_phase1(out: Path, *, curve: Curve, power: int) -> None:
    """Powers to which nobody has contributed; ``power`` from 2 to 20."""
    from attest import _native

    size = _phase1_bytes(curve, power)
    place(out, lambda part: _native.phase1_new(curve.text, power, part), needed=size)


def _phase1_bytes(curve: Curve, power: int) -> int:
    """About: points of G1 have half the bytes of G2's, a proof is two of G1 and one of G2."""
    n, first = 1 << min(max(power, POWER_MIN), POWER_MAX), curve.parameters.proof_bytes // 4
    return (4 * n - 1) * first + (n + 1) * 2 * first


def power_for(circuit: bytes) -> int:
    """The smallest power of a phase 1 from which the circuit's keys can be made."""
    from attest import _native

    with native_errors():
        return _native.phase1_power_for(circuit)


def contribute(
    source: Path, out: Path | None = None, *, name: str, entropy: bytes = b"", beacon: Beacon | None = None
) -> bytes:
    """Contributes to a phase 1 file or a transcript, in place unless ``out`` is given; returns the hash to publish.

    The secrets come from the operating system with ``entropy`` hashed in, and are erased; none is ever written.
    A beacon ends its phase: nothing follows it (``phase1-ended``, ``setup-ended``). In place, ``file-busy`` while
    another one is being made. Raises :class:`CeremonyError`.
    """
    from attest import _native

    kind = require_kind(source, FileKind.PHASE1, FileKind.TRANSCRIPT)
    if len(entropy) > ENTROPY_BYTES_MAX:
        raise CeremonyError("entropy", found=f"{len(entropy)} bytes", expected=f"at most {ENTROPY_BYTES_MAX}")
    work = _native.phase1_contribute if kind is FileKind.PHASE1 else _native.phase2_contribute
    published = b""

    def write(part: Path) -> None:
        nonlocal published
        value = None if beacon is None else (beacon.value, beacon.exponent)
        published = work(source, part, name=name, entropy=entropy, beacon=value)

    with named(source, CeremonyError), locked(source) if out is None else nullcontext():
        place(out or source, write, replace=out is None, needed=source.stat().st_size)
    return published


def verify_phase1(path: Path) -> Phase1:
    """Checks a phase 1 file completely: powers, proofs of knowledge, order, hashes."""
    from attest import _native

    require_kind(path, FileKind.PHASE1)
    with native_errors():
        return _phase1(_native.phase1_verify(path))


def import_ptau(source: Path, out: Path, *, power: int | None = None) -> tuple[Phase1, bool]:
    """Checks a ``.ptau`` file of snarkjs and writes it, or its first 2^``power`` powers, as a phase 1 file.

    Also says whether it was prepared: its Lagrange bases are not used, so they were not looked at.
    """
    from attest import _native

    require_kind(source, FileKind.PTAU)
    found: list[tuple[Phase1, bool]] = []

    def write(part: Path) -> None:
        report, prepared = _native.ptau_import(source, part, power=power)
        found.append((_phase1(report), prepared))

    place(out, write)
    return found[0]


def export_ptau(source: Path, out: Path) -> None:
    """Writes a phase 1 file as an unprepared ``.ptau`` file, with its history."""
    from attest import _native

    require_kind(source, FileKind.PHASE1)
    place(out, lambda part: _native.ptau_export(source, part))


def start(circuit: bytes, phase1: Path, out: Path) -> None:
    """Starts a circuit's phase 2: verifies the phase 1 file and writes a transcript without contributions."""
    from attest import _native

    require_kind(phase1, FileKind.PHASE1)
    place(out, lambda part: _native.phase2_start(circuit, phase1, part))


def contributions(transcript: Path) -> Transcript:
    """Who contributed to a transcript; proofs and order are checked, what the contributions started from is not."""
    from attest import _native

    require_kind(transcript, FileKind.TRANSCRIPT)
    with native_errors():
        curve, circuit, phase1, found = _native.phase2_contributions(transcript)
    return Transcript(Curve.named(curve), bytes(circuit), bytes(phase1), _contributors(found))


def verify(circuit: bytes, phase1: Path, transcript: Path) -> CeremonyKeys:
    """Recomputes the whole set-up from its files; the keys are made only if every step holds."""
    from attest import _native

    require_kind(phase1, FileKind.PHASE1)
    require_kind(transcript, FileKind.TRANSCRIPT)
    with native_errors():
        proving, verification, found, report = _native.phase2_verify(circuit, phase1, transcript)
    return CeremonyKeys(bytes(proving), bytes(verification), _contributors(found), _phase1(report))
