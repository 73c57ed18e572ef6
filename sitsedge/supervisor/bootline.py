"""The outcome of the verification at boot, in one line that never says OK on a partial check."""

from __future__ import annotations

from dataclasses import dataclass

from attest.errors import AttestError
from attest.evidence.verdict import Check, Verdict
from sitsedge.supervisor.prepare import Prepared


@dataclass(frozen=True, slots=True)
class BootVerdict:
    """The outcome of ``--verify-on-boot``; ``verdict`` is ``None`` without evidence (mode ``none``, TPM lost)."""

    verdict: Verdict | None
    line: str
    ok: bool

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.verdict.checks if self.verdict is not None else ()


def summary_line(prepared: Prepared, verdict: Verdict) -> str:
    """The summary line; ``OK`` only when every check was made and passed."""
    assert prepared.tpm is not None
    fields = [
        f"DeviceID={_handle(prepared)}",
        f"ModelSHA256={prepared.bundle.digest.hex()}",
    ]
    if verdict.ok:
        fields += [
            "PolicySig=valid",
            f"BootPolicy={verdict.policy_name} v{verdict.policy_version} ({verdict.boot_state})",
        ]
        fields.append(f"AK={verdict.ak_name.hex()}")
        head = "Verified: [OK]"
    else:
        failed = verdict.failed
        signature = next((check for check in verdict.checks if check.name == "boot-policy-signature"), None)
        fields.append(f"PolicySig={'valid' if signature is not None and signature.ok else 'invalid'}")
        fields.append(f"Failed={'no checks' if failed is None else f'{failed.name} ({failed.found})'}")
        fields.append("Mode<=ADVISORY")
        head = "Verified: [FAILED]"
    fields += [f"TPM={prepared.tpm.kind}", f"Device={prepared.deployment.device_id}"]
    fields.append(f"ProofKey={'development' if prepared.bundle.config.proof.development else 'ceremony'}")
    fields.append(f"Profile={prepared.deployment.profile}")
    return f"{head} {' | '.join(fields)}"


def line_without_attestation(prepared: Prepared) -> str:
    """Of a deployment that was started with ``--attestation-mode none``."""
    return (
        f"Verified: [NOT ATTESTED] DeviceID=none | ModelSHA256={prepared.bundle.digest.hex()} | PolicySig=none"
        f" | TPM=none | Device={prepared.deployment.device_id} | Profile={prepared.deployment.profile}"
    )


def line_without_evidence(prepared: Prepared, failed: str) -> str:
    """Of a TPM that did not answer; ``failed`` says how."""
    assert prepared.tpm is not None
    return (
        f"Verified: [FAILED] DeviceID=unavailable | ModelSHA256={prepared.bundle.digest.hex()} | Failed={failed}"
        f" | Mode<=ADVISORY | TPM={prepared.tpm.kind} | Device={prepared.deployment.device_id}"
        f" | Profile={prepared.deployment.profile}"
    )


def _handle(prepared: Prepared) -> str:
    """The AK's handle. The evidence is made by now: a TPM lost since then is not what the line is about."""
    from attest.tpm import TpmDevice

    assert prepared.tpm is not None
    try:
        with TpmDevice(prepared.tpm.tcti) as tpm:
            return f"TPM2:0x{tpm.ak().handle:08X}"
    except AttestError:
        return "unavailable"


def named(error: AttestError | OSError) -> tuple[str, str]:
    """Code and finding of what kept the evidence from being made."""
    if isinstance(error, AttestError):
        return error.code, error.found
    return "evidence-file", str(error)
