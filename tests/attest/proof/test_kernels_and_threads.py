"""Every kernel with one thread and several: the same statements; threads end with their prover; a fork is harmless."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from attest.proof import Groth16Prover, NativeVerifier, ProverError, failed_check
from attest.proof.prover import kernels
from tests.attest.proof.support import BOX, CTX, Toy, model


def worker_threads() -> int:
    """Threads of this process that belong to provers."""
    names = [entry / "comm" for entry in Path("/proc/self/task").iterdir()]
    return sum(name.read_text().strip() == "sits-prover" for name in names)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_kernel_proves_on_several_threads(toy: Toy, native: NativeVerifier, threads: int) -> None:
    names = kernels(toy.circuit.curve.text)
    assert names[-1] == "scalar"
    for name in names:
        prover = Groth16Prover(toy.data, toy.proving_key, kernel=name, threads=threads)
        assert (prover.kernel, prover.threads) == (name, threads)
        for x in [(0, 0), (BOX.lo, BOX.hi), (BOX.hi, BOX.lo)]:
            proven = prover.prove(x, CTX)
            assert proven.outputs == (model(x),)
            assert failed_check(native, x, proven.outputs, CTX, proven.proof) is None
        assert prover.work_bytes > 0


@pytest.mark.parametrize("threads", [0, 9, 2**40])
def test_threads_range(toy: Toy, threads: int) -> None:
    with pytest.raises(ProverError) as caught:
        Groth16Prover(toy.data, toy.proving_key, threads=threads)
    assert caught.value.code == "threads-range"


def test_kernel_unavailable(toy: Toy) -> None:
    known = {"ifma", "adx", "aarch64", "scalar"}
    for name in known - set(kernels(toy.circuit.curve.text)):
        with pytest.raises(ProverError) as caught:
            Groth16Prover(toy.data, toy.proving_key, kernel=name)
        assert caught.value.code == "kernel-unavailable"


def test_threads_belong_to_their_prover(toy: Toy) -> None:
    before = worker_threads()
    alone = Groth16Prover(toy.data, toy.proving_key, threads=1)
    assert worker_threads() == before
    several = Groth16Prover(toy.data, toy.proving_key, threads=3)
    assert worker_threads() == before + 2
    several.prove((0, 0), CTX)
    del several
    assert worker_threads() == before
    assert alone.prove((0, 0), CTX).outputs == (model((0, 0)),)


def test_a_forked_child_proves_alone(toy: Toy, native: NativeVerifier) -> None:
    prover = Groth16Prover(toy.data, toy.proving_key, threads=3)
    prover.prove((0, 0), CTX)
    child = os.fork()
    if child == 0:
        # Only this thread exists here: no test machinery, no return.
        try:
            proven = prover.prove((1, 2), CTX)
            good = failed_check(native, (1, 2), proven.outputs, CTX, proven.proof) is None
            del prover
            os._exit(0 if good else 1)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must learn of it
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert prover.prove((1, 2), CTX).outputs == (model((1, 2)),)


def test_callers_from_several_threads_take_turns(toy: Toy, native: NativeVerifier) -> None:
    prover = Groth16Prover(toy.data, toy.proving_key, threads=2)
    failures: list[str | None] = []

    def work(i: int) -> None:
        for j in range(5):
            proven = prover.prove((i, j), CTX)
            failures.append(failed_check(native, (i, j), proven.outputs, CTX, proven.proof))

    callers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert failures == [None] * 20
