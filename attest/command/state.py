"""What the gate remembers between two commands: small, explicit, bounded."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

RUNS_MAX: Final = 4096  # gaps in the accepted sequence numbers remembered exactly; more gaps lose the oldest
PROOFS_MAX: Final = 4096  # about 40 s at 100 Hz; a moved proof that old is refused all the same, as forged


@dataclass(slots=True)
class GateState:
    """Memory of one open epoch. Only an accepted command changes it (``judge`` calls ``accept`` last).

    ``inputs``/``outputs`` and their times are those of the last accepted command of this epoch, ``None``
    before the first; ``plant_outputs`` is what the plant had when the epoch opened, where the gate knew it.
    """

    epoch: int
    plant_outputs: tuple[int, ...] | None = None
    sequence: int = 0
    inputs: tuple[int, ...] | None = None
    outputs: tuple[int, ...] | None = None
    t_source_ns: int = 0
    t_decided_ns: int = 0
    _run_starts: list[int] = field(default_factory=list)
    _run_ends: list[int] = field(default_factory=list)
    _proofs: OrderedDict[bytes, int] = field(default_factory=OrderedDict)

    def successor(self, epoch: int, plant_outputs: tuple[int, ...] | None) -> GateState:
        """The state of the next epoch: nothing is carried over but the proofs seen, which only serve diagnosis."""
        return GateState(epoch, plant_outputs, _proofs=self._proofs)

    def accepted(self, sequence: int) -> bool:
        """Whether ``sequence`` was accepted; below the oldest remembered run the answer is yes.

        The unknown counts as accepted because refusing it as a replay is the safe name for it.
        """
        at = bisect_right(self._run_starts, sequence) - 1
        if at < 0:
            return len(self._run_starts) == RUNS_MAX
        return sequence <= self._run_ends[at]

    def proof_seen(self, proof_digest: bytes) -> int | None:
        """Sequence number of an accepted command that carried this proof, if remembered."""
        return self._proofs.get(proof_digest)

    def accept(
        self,
        *,
        sequence: int,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        t_source_ns: int,
        t_decided_ns: int,
        proof_digest: bytes | None,
    ) -> None:
        """Take over an accepted command."""
        assert sequence > self.sequence, "only a rising sequence can be accepted"
        if self._run_ends and self._run_ends[-1] == sequence - 1:
            self._run_ends[-1] = sequence
        else:
            self._run_starts.append(sequence)
            self._run_ends.append(sequence)
            if len(self._run_starts) > RUNS_MAX:
                del self._run_starts[0], self._run_ends[0]
        if proof_digest is not None:
            self._proofs[proof_digest] = sequence
            if len(self._proofs) > PROOFS_MAX:
                self._proofs.popitem(last=False)
        self.sequence = sequence
        self.inputs, self.outputs = inputs, outputs
        self.t_source_ns, self.t_decided_ns = t_source_ns, t_decided_ns
