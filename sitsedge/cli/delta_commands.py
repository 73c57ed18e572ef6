"""``sitsctl module delta|import|remove``: sparing a slow link to a device, and what the device's store holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sitsedge.cli.common import ConfigOption, StateOption, existing_state
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported
from sitsedge.modules import DeltaSummary, ModuleStore, PublisherTrust, make_delta

_DIGEST = re.compile(r"[0-9a-f]{64}")


def delta_command(
    base: Annotated[Path, typer.Option("--base", help="the bundle the device has: a folder or .sits archive")],
    new: Annotated[Path, typer.Option("--new", help="the bundle it is to get")],
    out: Annotated[Path, typer.Option("--out", help="delta to make, one file if it ends in .sits; must not exist")],
    trust: Annotated[list[Path], typer.Option("--trust", help="PEM public key of a publisher; may be repeated")],
    output: Output = OutputOption,
) -> None:
    """Write what a device that has one bundle needs to get another: its signed manifest, and patches."""
    with reported(output):
        made = make_delta(out, base=base, new=new, trust=PublisherTrust.from_files(trust))
        data = {
            "digest": made.module,
            "base": made.base,
            "path": str(out),
            "bytes": made.bytes,
            "whole_bytes": made.whole,
            "kept": dict(made.kept),
            "patched": {name: {"patch": size, "layer": whole} for name, (size, whole) in made.patched.items()},
        }
        emit(output, data, lambda: _print(made, out))


def _print(made: DeltaSummary, out: Path) -> None:
    print(f"delta to module {made.module.hex()}")
    print(f"  from module  {made.base.hex()}")
    for name, size in made.kept.items():
        print(f"  {name:<18} kept     {size:>11,} bytes")
    for name, (size, whole) in made.patched.items():
        print(f"  {name:<18} patched  {whole:>11,} bytes by {size:,}")
    print(f"  {out}: {made.bytes:,} bytes instead of {made.whole:,}")


def import_command(
    source: Annotated[Path, typer.Argument(help="bundle or delta: a folder or .sits archive")],
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Verify a bundle, or a delta with what its base in the store has, and keep it; deploy --bundle makes it active."""
    with reported(output):
        store = _store(config, state_dir)
        digest = store.import_bundle(source)
        data = {"digest": digest, "active": store.active()}
        emit(output, data, lambda: print(f"module {digest.hex()} is in the store"))


def remove_command(
    digest: Annotated[str, typer.Argument(help="module digest, 64 hex digits, as module list shows it")],
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Remove a module that is not active; what other modules share with it stays."""
    if _DIGEST.fullmatch(digest) is None:
        complain(f"module {digest}", "64 lower-case hex digits")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        _store(config, state_dir).remove(bytes.fromhex(digest))
        emit(output, {"removed": digest}, lambda: print(f"module {digest} removed"))


def _store(config: Path | None, state_dir: Path | None) -> ModuleStore:
    state = existing_state(config, state_dir)
    return ModuleStore(state.modules, PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub"))))
