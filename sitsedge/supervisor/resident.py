"""What attestation mode ``tpm2-resident`` needs before a start: authority, approvals, and a TPM that is fast enough."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from attest.boot.measure import QUOTED_PCRS
from attest.boot.policy import BootPolicy, parse_policy
from attest.tpm import Sealing, TpmDevice
from attest.tpm.approval import Approval, approve_policy, encode_approvals
from attest.tpm.authority import create_authority, load_authority, public_pem
from sitsedge.config import Deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.keys import KeyFileError
from sitsedge.supervisor.sealfiles import APPROVALS, AUTHORITY_KEY, AUTHORITY_PUBLIC, read_approvals, seal_authority
from sitsedge.supervisor.state import StateDir

TRIALS = 8
SHARE_MAX = 0.5  # of the cycle: the other half is for everything else, and for a TPM that is slower at times


@dataclass(frozen=True, slots=True)
class SignTime:
    """Of ``TRIALS`` signatures of this TPM, after one that does not count; milliseconds."""

    median_ms: float
    worst_ms: float


def prepare_resident(
    tpm: TpmDevice, deployment: Deployment, state: StateDir, *, say: Callable[[str], None]
) -> SignTime:
    """Authority and approvals made (development) or checked, then the TPM timed against the cycle.

    Raises ``SealError`` with the condition that fails, :class:`SitsError` ``tpm-too-slow``, ``KeyFileError``.
    """
    key = _authority(state, development=deployment.profile == "development")
    sealing = Sealing(tpm, seal_authority(state))
    if key is not None:
        policy, _ = parse_policy((state.trust / "boot-policy.cose").read_bytes())
        approvals = approve_policy(sealing.target(), policy, pcrs=sealed_pcrs(policy), authority=key, uses=("sign",))
        (state.trust / APPROVALS).write_bytes(encode_approvals(approvals))
    took = measure_signing(sealing, read_approvals(state))
    require_speed(took, deployment)
    say(f"commands are signed in the TPM: {took.median_ms:.1f} ms each, {took.worst_ms:.1f} ms at worst")
    return took


def sealed_pcrs(policy: BootPolicy) -> tuple[int, ...]:
    """The PCRs that every state of a policy fixes by value: what a TPM can check by itself."""
    return tuple(pcr for pcr in QUOTED_PCRS if all(pcr in state.pcrs for state in policy.states))


def measure_signing(sealing: Sealing, approvals: Sequence[Approval]) -> SignTime:
    """Time the TPM; the first signature, which looks everything up, does not count."""
    digest = hashlib.sha256(b"sits-signing-time").digest()
    sealing.sign(digest, approvals)
    times = []
    for _ in range(TRIALS):
        started = time.perf_counter()
        sealing.sign(digest, approvals)
        times.append(1000 * (time.perf_counter() - started))
    return SignTime(statistics.median(times), max(times))


def require_speed(took: SignTime, deployment: Deployment) -> None:
    """Raise :class:`SitsError` ``tpm-too-slow`` where signatures would take more than their share of the cycle."""
    cycle = deployment.cycle
    limit_ms = SHARE_MAX * min(cycle.period_ms, cycle.deadline_ms)
    if took.worst_ms > limit_ms:
        raise SitsError(
            "tpm-too-slow",
            found=f"{took.worst_ms:.1f} ms for a signature (slowest of {TRIALS}; median {took.median_ms:.1f} ms)",
            expected=f"at most {limit_ms:g} ms, half of the shorter of period_ms and deadline_ms",
            hint="use --attestation-mode tpm2, whose session key signs in memory, or a slower cycle",
        )


def _authority(state: StateDir, *, development: bool) -> ec.EllipticCurvePrivateKey | None:
    """The private key where a development profile keeps it here; a production device holds none."""
    private, public = state.keys / AUTHORITY_KEY, state.trust / AUTHORITY_PUBLIC
    if not development:
        if private.exists():
            raise KeyFileError(
                "key-file",
                found=f"{private.name} on a device in production",
                expected=f"only the public key {public.name}",
                hint="keep it with the people who approve boot states; remove it here",
            )
        return None
    key = load_authority(private) if private.exists() else create_authority(private)
    public.write_bytes(public_pem(key))
    return key
