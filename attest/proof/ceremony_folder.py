"""The folder of one circuit's phase 2: everything that ``verify-setup`` needs, to be copied as a whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
        """The folder, if ``path`` is one: told by its transcript."""
        folder = cls(path)
        return folder if folder.transcript.is_file() else None

    @classmethod
    def create(cls, path: Path, *, circuit: bytes, phase1: Path) -> CeremonyFolder:
        """Makes the folder, which must not exist, from a circuit and a phase 1 file of ours or of snarkjs.

        A ``.ptau`` file is cut down to what the circuit needs. Raises :class:`CeremonyError`; then nothing is left.
        """
        kind = ceremony.file_kind(phase1)
        if kind not in (FileKind.PHASE1, FileKind.PTAU):
            raise CeremonyError("file-kind", found=f"{phase1.name}", expected="a phase 1 file or a .ptau file")
        try:
            path.mkdir()
        except FileExistsError as error:
            raise CeremonyError("file-exists", found=f"{path} exists", expected="a new folder") from error
        folder = cls(path)
        try:
            folder.circuit.write_bytes(circuit)
            if kind is FileKind.PTAU:
                ceremony.import_ptau(phase1, folder.phase1, power=ceremony.power_for(circuit))
            else:
                shutil.copyfile(phase1, folder.phase1)
            ceremony.start(circuit, folder.phase1, folder.transcript)
        except BaseException:
            shutil.rmtree(path)
            raise
        return folder

    def verify(self, circuit: bytes | None = None) -> CeremonyKeys:
        """Recomputes the set-up; with ``circuit`` the folder's must be that one. Raises :class:`CeremonyError`."""
        held = ceremony.read_circuit(self.circuit)
        if circuit is not None and held != circuit:
            raise CeremonyError(
                "setup-circuit",
                found=f"the ceremony of another circuit in {self.path}",
                expected="one for the circuit of this module",
                hint="model, calibration, limits, curve and compiler must be those the ceremony was started with",
            )
        return ceremony.verify(held, self.phase1, self.transcript)
