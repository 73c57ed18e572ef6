"""Commands of an old ledger proven again on another curve, in a folder that can be checked alone."""

from attest.archive.check import ArchiveReport, Finding, verify_archive
from attest.archive.errors import ArchiveError
from attest.archive.format import ArchivedCommand, ArchiveManifest, ModuleEntry
from attest.archive.write import ArchiveWriter, ModuleSource

__all__ = [
    "ArchiveError",
    "ArchiveManifest",
    "ArchiveReport",
    "ArchiveWriter",
    "ArchivedCommand",
    "Finding",
    "ModuleEntry",
    "ModuleSource",
    "verify_archive",
]
