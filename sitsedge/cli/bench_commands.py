"""``sitsctl bench proof`` and ``bench inference``: the prover and the sandbox on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from attest import jsontext
from sitsedge.bench.inference import ROUNDS, ROUNDS_MAX, ROUNDS_MIN, InferenceRow, measure_inference
from sitsedge.bench.networks import NETWORKS, parse_widths
from sitsedge.bench.proof import COUNT, COUNT_MAX, COUNT_MIN, CURVES, THREADS, Row, measure_all
from sitsedge.cli.output import Exit, Output, OutputOption, complain, note, reported

THREADS_MAX = 8  # what the core takes

NetworksOption = Annotated[str, typer.Option("--networks", help="layer widths, comma between networks")]
CurvesOption = Annotated[str, typer.Option("--curves", help="bn254, bls12-381")]
KernelsOption = Annotated[str, typer.Option("--kernels", help="ifma, adx, aarch64, scalar (default: all usable here)")]
ThreadsOption = Annotated[str, typer.Option("--threads", help="numbers of threads, comma between them")]
CountOption = Annotated[int, typer.Option("--count", help="proofs measured for each row")]
RoundsOption = Annotated[int, typer.Option("--rounds", help="rounds of a thousand calls measured for each row")]


def bench_proof(
    networks: NetworksOption = ",".join(NETWORKS),
    curves: CurvesOption = ",".join(CURVES),
    kernels: KernelsOption = "",
    threads: ThreadsOption = ",".join(map(str, THREADS)),
    count: CountOption = COUNT,
    output: Output = OutputOption,
) -> None:
    """CPU and wall time of proofs, time of verification, size of proof and tables; a JSON list with --output json."""
    chosen_networks, chosen_curves = _words(networks), _words(curves)
    numbers = [int(word) for word in _words(threads) if word.isascii() and word.isdigit()]
    if len(numbers) != len(_words(threads)) or not all(1 <= n <= THREADS_MAX for n in numbers):
        complain(f"--threads {threads}", f"numbers from 1 to {THREADS_MAX} with a comma between them")
        raise typer.Exit(Exit.USAGE)
    if not COUNT_MIN <= count <= COUNT_MAX:
        complain(f"--count {count}", f"{COUNT_MIN} to {COUNT_MAX}")
        raise typer.Exit(Exit.USAGE)
    if not (chosen_networks and chosen_curves and numbers):
        complain("nothing to measure", "name at least one network, curve and number of threads")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        for name in chosen_networks:
            parse_widths(name)
        wanted = _words(kernels) or None
        rows = list(measure_all(chosen_networks, chosen_curves, wanted, numbers, count, say=note))
        if output is Output.json:
            print(jsontext.dumps([row.as_data() for row in rows], indent=1))
        else:
            _print(rows)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _print(rows: list[Row]) -> None:
    print("proofs on this machine; times in milliseconds, tables in MiB")
    times = "".join(f"{heading:>8}" for heading in ("CPU", "least", "P99", "verify", "tables"))
    print(f"{'network':12}{'curve':10}{'kernel':8}{'threads':>7}{'rows':>6}{times}")
    for row in rows:
        numbers = (row.prove_cpu_ms_median, row.prove_cpu_ms_min, row.prove_wall_ms_p99, row.verify_ms_median)
        figures = "".join(f"{number:8.2f}" for number in numbers) + f"{row.table_mib:8.1f}"
        print(f"{row.network:12}{row.curve:10}{row.kernel:8}{row.threads:7}{row.constraints:6}{figures}")
    print("CPU: median of the whole process for one proof; P99: wall time, nearest rank; verify: median")


def bench_inference(
    networks: NetworksOption = ",".join(NETWORKS), rounds: RoundsOption = ROUNDS, output: Output = OutputOption
) -> None:
    """CPU time of one inference in the guest and of a call from Python; a JSON list with --output json."""
    chosen = _words(networks)
    if not ROUNDS_MIN <= rounds <= ROUNDS_MAX:
        complain(f"--rounds {rounds}", f"{ROUNDS_MIN} to {ROUNDS_MAX}")
        raise typer.Exit(Exit.USAGE)
    if not chosen:
        complain("nothing to measure", "name at least one network")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        for name in chosen:
            parse_widths(name)
        rows = list(measure_inference(chosen, rounds))
        if output is Output.json:
            print(jsontext.dumps([row.as_data() for row in rows], indent=1))
        else:
            _print_inference(rows)


def _print_inference(rows: list[InferenceRow]) -> None:
    print("inferences on this machine; CPU times in microseconds, medians")
    print(f"{'network':12}{'module':14}{'engine':8}{'relaxed':>8}{'bytes':>8}{'fuel':>8}{'kernel':>9}{'call':>9}")
    for row in rows:
        numbers = f"{row.relaxed_layers:8}{row.module_bytes:8}{row.fuel:8}"
        print(
            f"{row.network:12}{row.module:14}{row.engine:8}{numbers}{row.kernel_us_median:9.3f}{row.call_us_median:9.3f}"
        )
    print("relaxed: layers on the relaxed dot product; kernel: in the guest alone; call: from Python with all checks")
