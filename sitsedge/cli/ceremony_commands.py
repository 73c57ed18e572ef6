"""``sitsctl proof setup|contribute|verify-setup|import``, and what ``export`` writes of a ceremony."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attest.files import named
from attest.proof import ceremony
from attest.proof.ceremony import Beacon, CeremonyError, CeremonyKeys, Contributor, FileKind, Phase1
from attest.proof.ceremony_folder import CeremonyFolder
from attest.proof.circuit import Curve
from attest.proof.errors import LayoutError, ProofRefused
from attest.proof.keys import key_hash
from attest.proof.snarkjs import TEXT_CHARS_MAX, export_verification_key, import_verification_key
from sitsedge.cli.circuit_commands import load_circuit
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported

_HEX = re.compile(r"([0-9a-f]{2})+")
STDIN = "-"


def _usage(message: str, hint: str) -> typer.Exit:
    complain(message, hint)
    return typer.Exit(Exit.USAGE)


@contextlib.contextmanager
def judged(output: Output = Output.text) -> Iterator[None]:
    """Like ``reported``, and what was checked and found wrong exits with 1."""
    with reported(output):
        try:
            yield
        except (CeremonyError, LayoutError, ProofRefused) as error:
            if isinstance(error, CeremonyError) and not error.refusal:
                raise
            complain(f"{error.code}: got {error.found}, expected {error.expected}", error.hint)
            emit(output, {"ok": False, "failed": error.code, "found": error.found}, lambda: None)
            raise typer.Exit(Exit.REFUSED) from None


def setup(
    out: Annotated[Path, typer.Argument(help="phase 1: the file to make; phase 2: the ceremony folder to make")],
    power: Annotated[int | None, typer.Option("--power", help="phase 1: for circuits of up to 2^POWER rows")] = None,
    curve: Annotated[str, typer.Option("--curve", help="phase 1: bn254 or bls12-381")] = "bn254",
    circuit: Annotated[
        Path | None, typer.Option("--circuit", help="phase 2: bundle folder (with --trust) or circuit file")
    ] = None,
    phase1: Annotated[
        Path | None, typer.Option("--phase1", "--ptau", help="phase 2: phase 1 file, or snarkjs's .ptau")
    ] = None,
    trust: Annotated[
        list[Path] | None, typer.Option("--trust", help="PEM public key of the bundle's publisher")
    ] = None,
) -> None:
    """Begin a ceremony: phase 1 with --power, or one circuit's phase 2 with --circuit and --phase1."""
    if (power is None) == (circuit is None) or (circuit is None) != (phase1 is None):
        raise _usage("setup needs --power, or --circuit and --phase1", "sitsctl proof setup pot.sitspt --power 12")
    with judged():
        if power is not None:
            ceremony.new_phase1(out, curve=Curve.named(curve), power=power)
            note(f"{out}: a phase 1 that nobody has contributed to yet")
            return
        assert circuit is not None
        assert phase1 is not None
        if circuit.is_dir() and not trust:
            raise _usage(f"{circuit} without --trust", "the publisher's public key beside a bundle")
        if not circuit.is_dir():
            ceremony.require_kind(circuit, FileKind.CIRCUIT)
        data, _ = load_circuit(circuit, trust or [])
        folder = CeremonyFolder.create(out, circuit=data, phase1=phase1)
        note(f"{folder.transcript}: a phase 2 that nobody has contributed to yet")


def contribute(
    path: Annotated[Path, typer.Argument(help="phase 1 file, transcript, or ceremony folder")],
    name: Annotated[str, typer.Option("--name", help="who contributes; stands in the transcript")],
    out: Annotated[Path | None, typer.Option("--out", help="file to write (default: in place)")] = None,
    entropy_file: Annotated[
        str | None, typer.Option("--entropy-file", help="your own randomness, hashed in; - reads standard input")
    ] = None,
    beacon: Annotated[
        str | None, typer.Option("--beacon", help="end with public randomness (hex) instead of a secret")
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", help="the beacon is hashed 2^N times, 10 to 24")] = 10,
    output: Output = OutputOption,
) -> None:
    """Add a secret of your own (or a beacon), erase it, and print the hash to publish."""
    if beacon is not None and _HEX.fullmatch(beacon) is None:
        raise _usage(f"--beacon {beacon}", "lower-case hex, such as a block's hash")
    if not 0 <= iterations <= 255:
        raise _usage(f"--iterations {iterations}", "10 to 24")
    with judged(output):
        folder = CeremonyFolder.found_at(path)
        source = path if folder is None else folder.found_transcript()
        public = None if beacon is None else Beacon(bytes.fromhex(beacon), iterations)
        digest = ceremony.contribute(source, out, name=name, entropy=_entropy(entropy_file), beacon=public)
        data = {"path": str(out or source), "name": name, "beacon": public is not None, "contribution": digest}
        emit(output, data, lambda: print(f"{digest.hex()}  {name}"))
        note("publish this hash; verify-setup --contribution shows that it is in the result")


def _entropy(source: str | None) -> bytes:
    if source is None:
        return b""
    if source == STDIN:
        return sys.stdin.buffer.read(ceremony.ENTROPY_BYTES_MAX + 1)
    with named(Path(source)), Path(source).open("rb") as file:
        return file.read(ceremony.ENTROPY_BYTES_MAX + 1)


def verify_setup(
    path: Annotated[Path, typer.Argument(help="ceremony folder, transcript, phase 1 file or .ptau")],
    circuit: Annotated[Path | None, typer.Option("--circuit", help="circuit file, beside a transcript alone")] = None,
    phase1: Annotated[Path | None, typer.Option("--phase1", help="phase 1 file, beside a transcript alone")] = None,
    contribution: Annotated[
        list[str] | None, typer.Option("--contribution", help="hash that must be among the contributions")
    ] = None,
    output: Output = OutputOption,
) -> None:
    """Recompute a ceremony from its files alone; the first step that does not hold is named, exit code 1."""
    with reported(output):
        folder = CeremonyFolder.found_at(path)
        kind = FileKind.TRANSCRIPT if folder is not None else ceremony.file_kind(path)
        if folder is None and kind is FileKind.TRANSCRIPT and (circuit is None or phase1 is None):
            raise _usage("a transcript alone", "also --circuit and --phase1, or the whole ceremony folder")
        failed: CeremonyError | None = None
        data: dict[str, Any] = {}
        try:
            data = _verified(path, folder, kind, circuit, phase1)
            _require(contribution or [], data)
        except CeremonyError as error:
            if not error.refusal:
                raise
            failed = error
        data = {"ok": failed is None, "failed": failed and failed.code, "found": failed and failed.found} | data
        emit(output, data, lambda: _print(data))
    raise typer.Exit(Exit.OK if failed is None else Exit.REFUSED)


def _verified(
    path: Path, folder: CeremonyFolder | None, kind: FileKind, circuit: Path | None, phase1: Path | None
) -> dict[str, Any]:
    if folder is not None:
        return describe(folder.verify())
    if kind is FileKind.TRANSCRIPT:
        assert circuit is not None
        assert phase1 is not None
        return describe(ceremony.verify(ceremony.read_circuit(circuit), phase1, path))
    if kind is FileKind.PHASE1:
        return {"phase1": _describe_phase1(ceremony.verify_phase1(path))}
    if kind is FileKind.PTAU:
        with named(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory() as scratch:
            report, prepared = ceremony.import_ptau(path, Path(scratch) / "phase1")
        return {"phase1": _describe_phase1(report, prepared=prepared)}
    raise CeremonyError("file-kind", found=f"{path}: a circuit", expected="a ceremony", hint="check the path")


def _require(wanted: list[str], data: dict[str, Any]) -> None:
    found = {entry["hash"].hex() for entry in data.get("contributions", data["phase1"]["contributions"])}
    for digest in wanted:
        if digest.lower() not in found:
            raise CeremonyError("setup-missing", found=f"no contribution {digest}", expected="it among the others")


def import_command(
    source: Annotated[Path, typer.Argument(help=".ptau file, or verification_key.json of snarkjs")],
    out: Annotated[Path, typer.Argument(help="file to make: a phase 1 file, or a verification key")],
    power: Annotated[int | None, typer.Option("--power", help="keep the first 2^POWER powers of a .ptau")] = None,
    snarkjs: Annotated[
        bool, typer.Option("--snarkjs", help="accept a key with a generator as gamma, to check foreign proofs")
    ] = False,
    output: Output = OutputOption,
) -> None:
    """Take over a .ptau file after checking it, or a verification key in the snarkjs layout."""
    with judged(output):
        with named(source), source.open("rb") as file:
            head = file.read(1)
            rest = file.read(TEXT_CHARS_MAX) if head == b"{" else b""
        if head == b"{":
            key = import_verification_key((head + rest).decode("utf-8", errors="replace"), fixed_gamma=snarkjs)
            with named(out), out.open("xb") as new:
                new.write(key)
            imported: dict[str, Any] = {"verification_key": key_hash(key), "fixed_gamma": snarkjs}
            emit(output, imported, lambda: print(f"verification key {key_hash(key).hex()}"))
            return
        report, prepared = ceremony.import_ptau(source, out, power=power)
        data = {"ok": True, "failed": None, "phase1": _describe_phase1(report, prepared=prepared)}
        emit(output, data, lambda: _print(data))


def export(source: Path, out: Path) -> bool:
    """Writes a ceremony's keys, or a phase 1 as .ptau; False if ``source`` is neither."""
    folder = CeremonyFolder.found_at(source)
    if folder is None and not source.is_file():
        return False
    with judged():
        if folder is None:
            ceremony.export_ptau(source, out)
            note(f"{out}: unprepared; snarkjs powersoftau prepare phase2 makes it ready for snarkjs")
            return True
        keys = folder.verify()
        text = export_verification_key(keys.verification_key)
        with named(out):
            out.mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("proving.key", keys.proving_key),
            ("verification.key", keys.verification_key),
            ("verification_key.json", text.encode()),
        ):
            with named(out / name, needed=len(content)):
                (out / name).write_bytes(content)
        note(f"keys of {keys.contributions} contributors written to {out}")
    return True


def describe(keys: CeremonyKeys) -> dict[str, Any]:
    """A verified set-up as plain data; module reports hold it too."""
    return {
        "phase1": _describe_phase1(keys.phase1),
        "contributions": _describe(keys.contributors),
        "contributors": keys.contributions,
        "vk_sha256": key_hash(keys.verification_key),
    }


def _describe(contributors: tuple[Contributor, ...]) -> list[dict[str, Any]]:
    return [{"name": c.name, "beacon": c.beacon, "hash": c.hash} for c in contributors]


def _describe_phase1(report: Phase1, *, prepared: bool = False) -> dict[str, Any]:
    unchecked = []
    if len(report.contributors) > 1:
        unchecked.append("the powers that contributions before the last left behind: no file keeps them")
    if not report.powers_hashed:
        unchecked.append(f"the last contribution's hashes: cut down from a ceremony of 2^{report.ceremony_power}")
    if prepared:
        unchecked.append("the Lagrange bases of the prepared file: they are not used")
    return {
        "curve": report.curve.text,
        "power": report.power,
        "sha256": report.sha256,
        "contributions": _describe(report.contributors),
        "after_beacon": report.after_beacon,
        "not_rechecked": unchecked,
    }


def _print(data: dict[str, Any]) -> None:
    if "phase1" in data:
        phase1 = data["phase1"]
        print(f"phase 1   {phase1['curve']}, 2^{phase1['power']}, {len(phase1['contributions'])} contributions")
        _print_contributions(phase1["contributions"])
        if phase1["after_beacon"]:
            print(
                f"  note: {phase1['after_beacon']} contributions after a beacon, which should have been the last step"
            )
        for line in phase1["not_rechecked"]:
            print(f"  not re-checked: {line}")
    if "contributions" in data:
        print(f"phase 2   {len(data['contributions'])} contributions")
        _print_contributions(data["contributions"])
        print(f"keys      of {data['contributors']} contributors, verification key {data['vk_sha256'].hex()}")
    print("verified" if data["ok"] else f"REFUSED: {data['failed']}: {data['found']}")


def _print_contributions(contributions: list[dict[str, Any]]) -> None:
    for number, entry in enumerate(contributions, 1):
        kind = " (beacon)" if entry["beacon"] else ""
        print(f"  {number}. {_shown(entry['name'] or 'no name')}{kind}  {entry['hash'].hex()}")


def _shown(name: str) -> str:
    """A stranger's text on this terminal: without what could steer it or turn its line around."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
