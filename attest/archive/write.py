"""Writing an archive: begun, continued after any interruption, completed.

A line is written whole and synced in groups; a torn last line of an interrupted run is cut off before the next one
continues. Nothing that was written is proven again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from attest.archive.errors import ArchiveError
from attest.archive.format import (
    COMMANDS_FILE,
    KEY_BYTES_MAX,
    LINE_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    MANIFEST_FILE,
    ArchivedCommand,
    ArchiveManifest,
    ModuleEntry,
    circuit_digest,
    read_file,
    rows_sha256,
)
from attest.command import parse_command
from attest.ledger.kinds import RecordKind
from attest.ledger.store import Leaf, Ledger
from attest.proof.circuit import Curve, curve_of, on_curve
from attest.proof.circuit import decode as decode_circuit
from attest.proof.keys import VerificationKey
from attest.proof.prover import Groth16Prover, development_setup

SYNC_EVERY: Final = 64
PROVING_KEY_BYTES_MAX: Final = 1 << 30
PROVERS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module as found: its OCI manifest and the circuit that names, both as bytes."""

    manifest: bytes
    circuit: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of the archive's curve; without ``contributors`` they are development keys."""

    proving_key: bytes
    verification_key: bytes
    contributors: int = 0


FindModule = Callable[[bytes], ModuleSource]
"""``find(module_digest)``; raises ``AttestError`` or the caller's own."""
MakeKeys = Callable[[bytes, bytes], Keys]
"""``make(module_digest, circuit)`` on the archive's curve."""


def development_keys(_: bytes, circuit: bytes) -> Keys:
    """Keys from this machine's randomness alone."""
    return Keys(*development_setup(circuit))


class ArchiveWriter:
    """Commands ``first`` to ``last`` of one ledger into ``folder``; ``run`` continues what is there."""

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        *,
        name: str,
        first: int,
        last: int,
        curve: Curve,
        find_module: FindModule,
        make_keys: MakeKeys = development_keys,
    ) -> None:
        """Begin, or take up what is there. Raises :class:`ArchiveError` ``archive-other`` for another archive."""
        self._folder, self._ledger, self._curve = folder, ledger, curve
        self._find, self._make_keys = find_module, make_keys
        self._provers: dict[bytes, Groth16Prover] = {}
        fresh = ArchiveManifest(
            curve=curve.text,
            ledger=name,
            origin=ledger.origin,
            size=ledger.size,
            root=ledger.root().hex(),
            first=first,
            last=last,
            complete=False,
            commands=0,
            commands_sha256=hashlib.sha256().hexdigest(),
            modules={},
        )
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MANIFEST_FILE).exists():
            self.manifest = ArchiveManifest.decode(read_file(folder / MANIFEST_FILE, MANIFEST_BYTES_MAX))
            for key in ("curve", "ledger", "origin", "first", "last"):
                found, wanted = getattr(self.manifest, key), getattr(fresh, key)
                if found != wanted:
                    raise ArchiveError(
                        "archive-other",
                        found=f"an archive with {key} {found}",
                        expected=f"{wanted}",
                        hint="choose an empty folder",
                    )
            if self.manifest.size > ledger.size or ledger.root(self.manifest.size).hex() != self.manifest.root:
                raise ArchiveError("archive-other", found="an archive of another ledger", expected="this one's")
        elif any(folder.iterdir()):
            raise ArchiveError("archive-other", found="other files in the folder", expected="an empty folder")
        else:
            self.manifest = fresh
            self._write_manifest()

    def run(self, progress: Callable[[int], None] = lambda _: None) -> ArchiveManifest:
        """Prove what is missing and complete the archive; ``progress`` gets the number of lines so far.

        Raises :class:`ArchiveError`, ``ProverError`` and what the ledger raises; calling again continues.
        """
        if self.manifest.complete:
            return self.manifest
        path = self._folder / COMMANDS_FILE
        done, position = self._resume(path)
        try:
            with path.open("ab") as file:
                for leaf in self._commands(after=position):
                    file.write(self._line(leaf))
                    done += 1
                    if done % SYNC_EVERY == 0:
                        _sync(file)
                        progress(done)
                _sync(file)
        except OSError as error:
            raise ArchiveError("archive-io", found=str(error.strerror), expected="a writable folder") from error
        with path.open("rb") as lines:
            digest = hashlib.file_digest(lines, "sha256").hexdigest()
        self.manifest = replace(self.manifest, complete=True, commands=done, commands_sha256=digest)
        self._write_manifest()
        progress(done)
        return self.manifest

    def _resume(self, path: Path) -> tuple[int, int]:
        """Lines that are whole, and the record of the last of them; a torn last line is cut off."""
        done, position, end = 0, self.manifest.first - 1, 0
        if not path.exists():
            return done, position
        with path.open("rb+") as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                if not line.endswith(b"\n"):
                    break
                done += 1
                position = ArchivedCommand.decode(line, done).record
                end += len(line)
            file.truncate(end)
        return done, position

    def _commands(self, *, after: int) -> Iterator[Leaf]:
        for leaf in self._ledger.iterate(after + 1):
            if leaf.index > self.manifest.last:
                return
            if leaf.kind is RecordKind.COMMAND:
                yield leaf

    def _line(self, leaf: Leaf) -> bytes:
        command = parse_command(leaf.data, None).command
        header = command.header
        proven = self._prover(header.module_digest).prove(command.inputs, header.ctx())
        if proven.outputs != command.outputs:
            raise ArchiveError(
                "archive-outputs",
                found=f"record {leaf.index} with outputs {command.outputs}",
                expected=f"{proven.outputs} as the module's circuit gives",
                hint="this command was never proven: leave it out with --from and --to, and ask why",
            )
        return ArchivedCommand(leaf.index, leaf.hash, leaf.data, command, proven.proof).encode()

    def _prover(self, digest: bytes) -> Groth16Prover:
        if digest not in self._provers:
            if len(self._provers) == PROVERS_MAX:
                del self._provers[next(iter(self._provers))]
            self._provers[digest] = self._make_prover(digest)
        return self._provers[digest]

    def _make_prover(self, digest: bytes) -> Groth16Prover:
        source = self._find(digest)
        if hashlib.sha256(source.manifest).digest() != digest:
            raise ArchiveError("archive-module", found="a manifest of another module", expected=digest.hex())
        if hashlib.sha256(source.circuit).hexdigest() != circuit_digest(source.manifest):
            raise ArchiveError("archive-module", found="another circuit", expected="the one the manifest names")
        circuit = on_curve(source.circuit, self._curve)
        path = self._folder / "keys" / f"{digest.hex()}.bin"
        if digest.hex() in self.manifest.modules:
            if not path.exists():
                raise ArchiveError(
                    "archive-keys", found="no proving key", expected=f"{path.name} of the interrupted run"
                )
            return Groth16Prover(circuit, read_file(path, PROVING_KEY_BYTES_MAX))
        keys = self._make_keys(digest, circuit)
        self._check_key(keys, circuit)
        prover = Groth16Prover(circuit, keys.proving_key)
        folder = self._folder / "modules" / digest.hex()
        _write(path, keys.proving_key)
        _write(folder / "manifest.json", source.manifest)
        _write(folder / "circuit.bin", source.circuit)
        _write(folder / "verification_key.bin", keys.verification_key)
        entry = ModuleEntry(
            source_curve=curve_of(source.circuit).text,
            source_circuit_sha256=hashlib.sha256(source.circuit).hexdigest(),
            circuit_sha256=hashlib.sha256(circuit).hexdigest(),
            rows_sha256=rows_sha256(circuit),
            vk_sha256=hashlib.sha256(keys.verification_key).hexdigest(),
            development=keys.contributors == 0,
            contributors=keys.contributors,
        )
        self.manifest = replace(self.manifest, modules={**self.manifest.modules, digest.hex(): entry})
        self._write_manifest()
        return prover

    def _check_key(self, keys: Keys, circuit: bytes) -> None:
        key = VerificationKey.decode(keys.verification_key)
        shape = decode_circuit(circuit)
        n_public = shape.n_inputs + shape.n_outputs + 1
        if key.curve is not self._curve or key.n_public != n_public or len(keys.verification_key) > KEY_BYTES_MAX:
            found = f"a key on {key.curve.text} with {key.n_public} public signals"
            raise ArchiveError("archive-keys", found=found, expected=f"{self._curve.text} with {n_public}")

    def _write_manifest(self) -> None:
        _write(self._folder / MANIFEST_FILE, self.manifest.encode())


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            _sync(file)
        part.replace(path)
    except OSError as error:
        raise ArchiveError(
            "archive-io", found=f"{path.name}: {error.strerror}", expected="a writable folder"
        ) from error
