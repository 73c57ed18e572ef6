"""Makes owed proofs: the module's prover, the circuit's outputs against the command's, the proofs checked again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from attest.command import Command
from attest.errors import AttestError
from attest.proof import Groth16Prover, NativeVerifier, key_hash
from sitsedge.errors import SitsError
from sitsedge.modules import Bundle

PROVERS_MAX: Final = 2  # the active module and its predecessor; tables take tens of MiB each


class ProofImpossible(SitsError):
    """This command will get no proof; codes ``divergence``, ``module``, ``prover``, ``self-check``."""


@dataclass(frozen=True, slots=True)
class _Module:
    prover: Groth16Prover
    verifier: NativeVerifier
    rest: tuple[int, ...]
    """Inputs that are allowed, in counts: nought, or what is nearest to it."""


class Workshop:
    """Provers by module; ``load(module_digest)`` gives a verified bundle or raises ``SitsError``."""

    def __init__(self, load: Callable[[bytes], Bundle], *, threads: int = 1) -> None:
        self._load = load
        self._threads = threads
        self._modules: OrderedDict[bytes, _Module] = OrderedDict()

    @property
    def kernel(self) -> str:
        """Arithmetic of the newest prover; empty before the first."""
        return next(reversed(self._modules.values())).prover.kernel if self._modules else ""

    def prove(self, commands: Sequence[Command]) -> list[bytes | ProofImpossible]:
        """For each command the proof of its statement, or why there is none.

        The proofs are verified before they are handed on, those of one module together at half the cost: bad memory
        must not look like a forgery to the gate.
        """
        results: list[bytes | ProofImpossible] = []
        made: dict[bytes, tuple[_Module, list[int]]] = {}
        for place, command in enumerate(commands):
            digest = command.header.module_digest
            try:
                module = made[digest][0] if digest in made else self._module(digest)
                results.append(_prove(module, command))
                made.setdefault(digest, (module, []))[1].append(place)
            except ProofImpossible as impossible:
                results.append(impossible)
        for module, places in made.values():
            statements = []
            for place in places:
                command, proof = commands[place], results[place]
                assert isinstance(proof, bytes)
                statements.append((command.inputs, command.outputs, command.header.ctx(), proof))
            for place, failed in zip(places, module.verifier.verify_batch(statements), strict=True):
                if failed is not None:
                    results[place] = ProofImpossible("self-check", found=failed, expected="a proof that verifies")
        return results

    def warm(self, digest: bytes) -> None:
        """Build a module's tables before its first job. Raises :class:`ProofImpossible`."""
        self._module(digest)

    def pace(self, digest: bytes, *, count: int) -> int:
        """Nanoseconds one proof takes now, with its part of the check afterwards: the mean of ``count`` of them.

        The statements are the model's outputs for zeros (or the nearest allowed inputs) and leave this function as
        little as the proofs do. Raises :class:`ProofImpossible`.
        """
        module = self._module(digest)
        inputs = module.rest
        started = time.monotonic_ns()
        try:
            made = [(ctx, module.prover.prove(inputs, ctx)) for ctx in (bytes(30) + bytes([n]) for n in range(count))]
        except AttestError as error:
            raise ProofImpossible("prover", found=f"{error.code}: {error.found}", expected=error.expected) from error
        module.verifier.verify_batch([(inputs, proven.outputs, ctx, proven.proof) for ctx, proven in made])
        return (time.monotonic_ns() - started) // count

    def _module(self, digest: bytes) -> _Module:
        module = self._modules.get(digest)
        if module is not None:
            self._modules.move_to_end(digest)
            return module
        try:
            bundle = self._load(digest)
            key = bundle.verification_key
            module = _Module(
                Groth16Prover(bundle.circuit, bundle.proving_key, threads=self._threads),
                NativeVerifier(key, vk_sha256=key_hash(key)),
                tuple(min(max(0, signal.counts[0]), signal.counts[1]) for signal in bundle.config.inputs),
            )
        except (SitsError, AttestError) as error:
            raise ProofImpossible("module", found=f"{error.code}: {error.found}", expected=error.expected) from error
        self._modules[digest] = module
        if len(self._modules) > PROVERS_MAX:
            self._modules.popitem(last=False)
        return module


def _prove(module: _Module, command: Command) -> bytes:
    try:
        proven = module.prover.prove(command.inputs, command.header.ctx())
    except AttestError as error:
        raise ProofImpossible("prover", found=f"{error.code}: {error.found}", expected=error.expected) from error
    if proven.outputs != command.outputs:
        raise ProofImpossible(
            "divergence",
            found=f"outputs {command.outputs} in the command, {proven.outputs} from the circuit",
            expected="the same outputs from both",
            hint="the module and its circuit do not belong together: stop and inspect the bundle",
        )
    return proven.proof
