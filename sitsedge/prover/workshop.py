"""Makes one owed proof: the module's prover, the circuit's outputs against the command's, the proof checked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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

    def prove(self, command: Command) -> bytes:
        """The proof of the command's statement. Raises :class:`ProofImpossible`.

        The proof is verified before it is handed on: bad memory must not look like a forgery to the gate.
        """
        header = command.header
        module = self._module(header.module_digest)
        try:
            proven = module.prover.prove(command.inputs, header.ctx())
        except AttestError as error:
            raise ProofImpossible("prover", found=f"{error.code}: {error.found}", expected=error.expected) from error
        if proven.outputs != command.outputs:
            raise ProofImpossible(
                "divergence",
                found=f"outputs {command.outputs} in the command, {proven.outputs} from the circuit",
                expected="the same outputs from both",
                hint="the module and its circuit do not belong together: stop and inspect the bundle",
            )
        try:
            module.verifier.verify(command.inputs, command.outputs, header.ctx(), proven.proof)
        except AttestError as error:
            raise ProofImpossible("self-check", found=error.code, expected="a proof that verifies") from error
        return proven.proof

    def warm(self, digest: bytes) -> None:
        """Build a module's tables before its first job. Raises :class:`ProofImpossible`."""
        self._module(digest)

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
            )
        except (SitsError, AttestError) as error:
            raise ProofImpossible("module", found=f"{error.code}: {error.found}", expected=error.expected) from error
        self._modules[digest] = module
        if len(self._modules) > PROVERS_MAX:
            self._modules.popitem(last=False)
        return module
