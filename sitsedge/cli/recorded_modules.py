"""What proving recorded commands again needs: the module they name, and keys from a ceremony."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from attest.proof.ceremony import CeremonyKeys
from attest.proof.ceremony_folder import CeremonyFolder
from sitsedge.cli.output import Exit, complain
from sitsedge.errors import SitsError
from sitsedge.modules.parts import ModuleParts, read_parts


def find_parts(digest: bytes, ledgers: Path, bundles: Sequence[Path]) -> ModuleParts:
    """The module among the bundles given, else in the store beside the ledgers. Raises ``SitsError``."""
    refusals = []
    for place in (*bundles, ledgers.parent / "modules" / digest.hex()):
        try:
            return read_parts(place, digest)
        except SitsError as error:
            refusals.append(f"{place.name}: {error.found}")
    raise SitsError(
        "module-missing",
        found="; ".join(refusals)[:400],
        expected=f"the bundle of module {digest.hex()}",
        hint="give it with --bundle",
    )


def ceremony_keys(folder: Path, circuit: bytes) -> CeremonyKeys:
    """The keys of a ceremony, recomputed from its transcript for this very circuit; a usage error without one."""
    ceremony = CeremonyFolder.found_at(folder)
    if ceremony is None:
        complain(f"--keys {folder}", "a ceremony folder, as sitsctl proof setup makes it")
        raise typer.Exit(Exit.USAGE)
    return ceremony.verify(circuit)
