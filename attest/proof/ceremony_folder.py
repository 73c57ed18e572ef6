"""The folder of one circuit's phase 2: everything that ``verify-setup`` needs, to be copied as a whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.files import KIND, MISSING, named
from attest.proof import ceremony
from attest.proof.ceremony import CeremonyError, CeremonyKeys, FileKind

CIRCUIT_NAME: Final = "circuit.sitsr1c"
PHASE1_NAME: Final = "phase1.sitspt"
TRANSCRIPT_NAME: Final = "transcript.sitsct"


@dataclass(frozen=True, slots=True)
class CeremonyFolder:
    """``path`` holds the circuit, the phase 1 and the transcript, which alone travels between contributors."""

    path: Path

    @property
    def circuit(self) -> Path:
        return self.path / CIRCUIT_NAME

    @property
    def phase1(self) -> Path:
        return self.path / PHASE1_NAME

    @property
    def transcript(self) -> Path:
        return self.path / TRANSCRIPT_NAME

    @classmethod
    def found_at(cls, path: Path) -> CeremonyFolder | None:
        """The folder, if ``path`` is one: told by any of its three names, so that a missing one can be missed."""
        folder = cls(path)
        return folder if any(file.exists() for file in (folder.transcript, folder.phase1, folder.circuit)) else None

    @classmethod
    def create(cls, path: Path, *, circuit: bytes, phase1: Path) -> CeremonyFolder:
        """Makes the folder, which must not exist, from a circuit and a phase 1 file of ours or of snarkjs.

        A ``.ptau`` file is cut down to what the circuit needs. Raises :class:`CeremonyError`; then nothing is left.
        """
        kind = ceremony.require_kind(phase1, FileKind.PHASE1, FileKind.PTAU)
        if path.exists():
            raise CeremonyError(
                "file-exists", found=f"{path} exists", expected="a new folder", hint="give another name"
            )
        with named(path, CeremonyError):
            path.mkdir()
        folder = cls(path)
        try:
            with named(folder.circuit, CeremonyError):
                folder.circuit.write_bytes(circuit)
            if kind is FileKind.PTAU:
                ceremony.import_ptau(phase1, folder.phase1, power=ceremony.power_for(circuit))
            else:
                with named(folder.phase1, CeremonyError, needed=phase1.stat().st_size):
                    shutil.copyfile(phase1, folder.phase1)
            ceremony.start(circuit, folder.phase1, folder.transcript)
        except BaseException:
            shutil.rmtree(path)
            raise
        return folder

    def found_transcript(self) -> Path:
        """The transcript, which must be there. Raises :class:`CeremonyError` ``file-missing``, ``file-kind``."""
        self._require(self.transcript)
        return self.transcript

    def verify(self, circuit: bytes | None = None) -> CeremonyKeys:
        """Recomputes the set-up; with ``circuit`` the folder's must be that one. Raises :class:`CeremonyError`."""
        for file in (self.circuit, self.phase1, self.transcript):
            self._require(file)
        held = ceremony.read_circuit(self.circuit)
        if circuit is not None and held != circuit:
            raise CeremonyError(
                "setup-circuit",
                found=f"the ceremony of another circuit in {self.path}",
                expected="one for the circuit of this module",
                hint="model, calibration, limits, curve and compiler must be those the ceremony was started with",
            )
        return ceremony.verify(held, self.phase1, self.transcript)

    def _require(self, file: Path) -> None:
        """Raises :class:`CeremonyError` ``file-missing``, ``file-kind``."""
        if not file.is_file():
            there = file.exists()
            raise CeremonyError(
                KIND if there else MISSING,
                found=f"{file}: {'not a file' if there else 'missing'}",
                expected=f"a ceremony folder with {CIRCUIT_NAME}, {PHASE1_NAME} and {TRANSCRIPT_NAME}",
                hint="copy the folder as a whole; the transcript alone is checked with --circuit and --phase1",
            )
