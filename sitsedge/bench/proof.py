"""Times the prover and the native verifier: what ``sitsctl bench proof`` prints.

CPU time is the whole process's clock (``CLOCK_PROCESS_CPUTIME_ID``), so the work of every thread counts; wall time is
the monotonic clock. Every proof is of another input and another context and is verified afterwards, outside the timed
part. The first proofs of a prover warm caches and are not counted.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from attest.proof import Curve, Groth16Prover, NativeVerifier, development_setup, key_hash
from attest.proof.prover import kernels
from sitsedge.bench.networks import bench_inputs, bench_model
from sitsedge.compiler.backends.circuit.emit import emit_circuit
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.reference import IntegerModel
from sitsedge.errors import SitsError

CURVES: Final = tuple(curve.text for curve in Curve)
THREADS: Final = (1, 2)
COUNT: Final = 50
COUNT_MIN: Final = 3
COUNT_MAX: Final = 100_000
"""Times are kept in memory."""
WARM_UP: Final = 3
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One prover measured. Times in milliseconds over ``count`` proofs; ``table_mib`` in MiB of tables in memory."""

    network: str
    curve: str
    kernel: str
    threads: int
    constraints: int
    prove_cpu_ms_median: float
    prove_cpu_ms_min: float
    prove_wall_ms_p99: float
    verify_ms_median: float
    proof_bytes: int
    table_mib: float

    def as_data(self) -> dict[str, Any]:
        """Plain data with exactly these members."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Subject:
    """A network on a curve with its keys: what all kernels and thread counts share."""

    network: str
    curve: str
    model: IntegerModel
    circuit: bytes
    proving_key: bytes
    verification_key: bytes


def make_subject(network: str, curve: str) -> Subject:
    """Circuit and development keys. Raises :class:`SitsError` ``bench-network``, ``CircuitError`` ``curve-unknown``."""
    on = Curve.named(curve)
    model = bench_model(network)
    circuit = emit_circuit(graph_of(model), curve=on).data
    return Subject(network, curve, model, circuit, *development_setup(circuit))


def chosen_kernels(curve: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Kernels to measure on ``curve``: ``wanted`` ones, or all this machine has, fastest first.

    Raises :class:`SitsError` ``kernel-unknown`` for one that it has not, ``CircuitError`` ``curve-unknown``.
    """
    usable = kernels(Curve.named(curve).text)
    if wanted is None:
        return tuple(usable)
    missing = [name for name in wanted if name not in usable]
    if missing:
        raise SitsError("kernel-unknown", found=f"kernel {missing[0]!r}", expected=f"one of {', '.join(usable)}")
    return tuple(wanted)


def measure(subject: Subject, kernel: str, threads: int, count: int) -> Row:
    """Makes and verifies ``count`` proofs. Raises ``ProofRefused`` if one does not verify."""
    prover = Groth16Prover(subject.circuit, subject.proving_key, kernel=kernel, threads=threads)
    verifier = NativeVerifier(subject.verification_key, vk_sha256=key_hash(subject.verification_key))
    cpu, wall, checked = [], [], []
    proof_bytes = 0
    gc.collect()
    for number, inputs in enumerate(bench_inputs(subject.model, WARM_UP + count)):
        ctx = number.to_bytes(31, "big")
        started, cpu_started = time.perf_counter_ns(), time.process_time_ns()
        proven = prover.prove(inputs, ctx)
        cpu_ended, ended = time.process_time_ns(), time.perf_counter_ns()
        verifier.verify(inputs, proven.outputs, ctx, proven.proof)
        verified = time.perf_counter_ns()
        if number >= WARM_UP:
            cpu.append((cpu_ended - cpu_started) / 1e6)
            wall.append((ended - started) / 1e6)
            checked.append((verified - ended) / 1e6)
        proof_bytes = len(proven.proof)
    return Row(
        network=subject.network,
        curve=subject.curve,
        kernel=kernel,
        threads=threads,
        constraints=prover.n_constraints,
        prove_cpu_ms_median=round(statistics.median(cpu), 4),
        prove_cpu_ms_min=round(min(cpu), 4),
        prove_wall_ms_p99=round(percentile(wall, 99), 4),
        verify_ms_median=round(statistics.median(checked), 4),
        proof_bytes=proof_bytes,
        table_mib=round(prover.table_bytes / MIB, 2),
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Nearest rank: the least value that at least ``percent`` of a hundred do not exceed."""
    rank = -(-percent * len(values) // 100)
    return sorted(values)[max(rank, 1) - 1]


def measure_all(
    networks: Sequence[str],
    curves: Sequence[str],
    wanted_kernels: Sequence[str] | None,
    threads: Sequence[int],
    count: int,
    *,
    say: Callable[[str], None],
) -> Iterator[Row]:
    """Every combination, one at a time; the names are checked before the first is measured."""
    by_curve = {curve: chosen_kernels(curve, wanted_kernels) for curve in curves}
    for network in networks:
        for curve in curves:
            say(f"{network} on {curve}: keys and tables")
            subject = make_subject(network, curve)
            for kernel in by_curve[curve]:
                for number in threads:
                    yield measure(subject, kernel, number, count)
