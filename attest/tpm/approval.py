"""Approvals: which boot states may use a device's sealed key or secrets, signed offline by the policy authority.

The sealed objects carry one policy for good, PolicyAuthorize(authority, policyRef), where policyRef names the device.
An approval is a policy the authority signs under it:

    PolicyPCR(the approved boot state) · PolicyNV(approval counter ≤ generation) · PolicyCommandCode(sign or unseal)

So a new boot state needs a new signature and no new key; an approval for another device has another policyRef; and
once the device's counter has passed an approval's generation, the TPM itself refuses it, whoever kept a copy.
Formats: ``seal-files.cddl``. No TPM needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature

from attest import cbor
from attest import policies as policy
from attest.policies import POINT_BYTES, policy_reference
from attest.structures import DIGEST_BYTES, PCR_COUNT
from attest.tpm.errors import SealError

if TYPE_CHECKING:
    from attest.boot.policy import BootPolicy

Use = Literal["sign", "unseal"]
NAME_BYTES: Final = 34  # nameAlg ‖ SHA-256
MAX_APPROVALS: Final = 64  # 32 boot states, two uses
MAX_FILE_BYTES: Final = 128 * 1024
MAX_GENERATION: Final = (1 << 64) - 1
_TARGET: Final = "sits-seal-target-1"
_APPROVALS: Final = "sits-seal-approvals-1"
_COMMANDS: Final[dict[Use, int]] = {"sign": policy.CC_SIGN, "unseal": policy.CC_UNSEAL}
_LABEL_CHARS: Final = 128


@dataclass(frozen=True, slots=True)
class SealTarget:
    """What a device tells the authority: AK name, name of its approval counter, the lowest generation that counts."""

    device: bytes
    counter: bytes
    generation: int

    def encode(self) -> bytes:
        """The file."""
        return cbor.dumps({0: _TARGET, 1: self.device, 2: self.counter, 3: self.generation})


@dataclass(frozen=True, slots=True)
class Approval:
    """One signed approval. ``label`` is for people and not signed; everything else is under the signature."""

    label: str
    use: Use
    device: bytes
    counter: bytes
    generation: int
    pcrs: Mapping[int, bytes]
    authority: bytes
    signature: bytes

    @property
    def policy_digest(self) -> bytes:
        """The approved policy."""
        return approved_policy(
            counter=self.counter, generation=self.generation, pcrs=self.pcrs, command=_COMMANDS[self.use]
        )

    @property
    def signed_digest(self) -> bytes:
        """What the authority signed."""
        return policy.authorized_digest(self.policy_digest, reference=policy_reference(self.device))


def approved_policy(*, counter: bytes, generation: int, pcrs: Mapping[int, bytes], command: int) -> bytes:
    """The policy digest of an approval."""
    digest = policy.policy_pcr(policy.START, pcrs)
    digest = policy.policy_nv(
        digest, name=counter, operand=generation.to_bytes(8, "big"), operation=policy.EO_UNSIGNED_LE
    )
    return policy.policy_command_code(digest, command)


def authority_point(key: ec.EllipticCurvePublicKey) -> bytes:
    """x ‖ y of a P-256 key. Raises ``SealError`` (``seal-authority``) for another curve."""
    if not isinstance(key.curve, ec.SECP256R1):
        raise SealError("seal-authority", found=f"a key on {key.curve.name}", expected="a P-256 key")
    numbers = key.public_numbers()
    return numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def approve(
    target: SealTarget,
    *,
    label: str,
    use: Use,
    pcrs: Mapping[int, bytes],
    authority: ec.EllipticCurvePrivateKey,
    generation: int | None = None,
) -> Approval:
    """Sign one boot state for one use. ``generation`` (default: the target's) above the target's withdraws older ones
    once the device retires them. Raises ``SealError`` (``seal-pcrs``, ``seal-stale``, ``seal-authority``)."""
    if not pcrs or any(not 0 <= pcr < PCR_COUNT or len(value) != DIGEST_BYTES for pcr, value in pcrs.items()):
        raise SealError("seal-pcrs", found=f"{len(pcrs)} PCRs", expected="1..24 PCRs with 32 bytes each")
    chosen = target.generation if generation is None else generation
    if not target.generation <= chosen <= MAX_GENERATION:
        raise SealError("seal-stale", found=f"generation {chosen}", expected=f"{target.generation} or more")
    approved = approved_policy(counter=target.counter, generation=chosen, pcrs=pcrs, command=_COMMANDS[use])
    signed = policy.authorized_digest(approved, reference=policy_reference(target.device))
    point = authority_point(authority.public_key())
    r, s = decode_dss_signature(authority.sign(signed, ec.ECDSA(Prehashed(hashes.SHA256()))))
    return Approval(
        label=label[:_LABEL_CHARS] or "unnamed",
        use=use,
        device=target.device,
        counter=target.counter,
        generation=chosen,
        pcrs=dict(pcrs),
        authority=point,
        signature=r.to_bytes(32, "big") + s.to_bytes(32, "big"),
    )


def approve_policy(
    target: SealTarget,
    boot_policy: BootPolicy,
    *,
    pcrs: Iterable[int],
    authority: ec.EllipticCurvePrivateKey,
    uses: Sequence[Use] = ("sign", "unseal"),
    generation: int | None = None,
) -> tuple[Approval, ...]:
    """Every state of a boot policy, over ``pcrs``. A state must fix each of them by value (``seal-pcrs``): a set of
    allowed events is something a TPM cannot check."""
    chosen = tuple(sorted(set(pcrs)))
    approvals = []
    for state in boot_policy.states:
        for pcr in chosen:
            if pcr not in state.pcrs:
                found = f"no value for PCR {pcr} in state {state.label!r}"
                raise SealError("seal-pcrs", found=found, expected="a value for every PCR", hint="leave this PCR out")
        values = {pcr: state.pcrs[pcr] for pcr in chosen}
        approvals += [
            approve(target, label=state.label, use=use, pcrs=values, authority=authority, generation=generation)
            for use in uses
        ]
    return tuple(approvals)


def encode_approvals(approvals: Sequence[Approval]) -> bytes:
    """The file of approvals."""
    return cbor.dumps({0: _APPROVALS, 1: [_approval_map(approval) for approval in approvals]})


def parse_approvals(data: bytes) -> tuple[Approval, ...]:
    """The approvals in a file; their signatures are the TPM's business. Raises ``SealError`` or ``CborError``."""
    fields = open_file(data, _APPROVALS)
    items = fields.array(1, low=1, high=MAX_APPROVALS)
    fields.done()
    return tuple(_parse_approval(cbor.Fields(item, "approval")) for item in items)


def parse_target(data: bytes) -> SealTarget:
    """The target in a file. Raises ``SealError`` or ``CborError``."""
    fields = open_file(data, _TARGET)
    device, counter = fields.octets(1, size=NAME_BYTES), fields.octets(2, size=NAME_BYTES)
    target = SealTarget(device=device, counter=counter, generation=fields.integer(3))
    fields.done()
    return target


def open_file(data: bytes, name: str) -> cbor.Fields:
    """The fields after the name. Raises ``SealError`` (``seal-file``) or ``CborError``."""
    fields = cbor.Fields(cbor.loads(data, max_bytes=MAX_FILE_BYTES, max_depth=5), "sealing file")
    found = fields.take(0) if fields.has(0) else None
    if found != name:
        said = repr(found[:40]) if isinstance(found, str) else "no name"
        raise SealError("seal-file", found=said, expected=repr(name))
    return fields


def _approval_map(approval: Approval) -> dict[int, object]:
    return {
        1: approval.label,
        2: approval.use,
        3: approval.device,
        4: approval.counter,
        5: approval.generation,
        6: dict(approval.pcrs),
        7: approval.authority,
        8: approval.signature,
    }


def _parse_approval(fields: cbor.Fields) -> Approval:
    approval = Approval(
        label=fields.text(1, high=_LABEL_CHARS),
        use=cast(Use, fields.text(2, choices=_COMMANDS)),
        device=fields.octets(3, size=NAME_BYTES),
        counter=fields.octets(4, size=NAME_BYTES),
        generation=fields.integer(5),
        pcrs=_parse_pcrs(fields.take(6)),
        authority=fields.octets(7, size=POINT_BYTES),
        signature=fields.octets(8, size=POINT_BYTES),
    )
    fields.done()
    return approval


def _parse_pcrs(value: cbor.CborValue) -> dict[int, bytes]:
    entries = value.items() if isinstance(value, dict) else ()
    pcrs = {
        pcr: digest
        for pcr, digest in entries
        if isinstance(pcr, int) and 0 <= pcr < PCR_COUNT and isinstance(digest, bytes) and len(digest) == DIGEST_BYTES
    }
    if not pcrs or len(pcrs) != len(entries):
        raise SealError("seal-file", found="other PCR values", expected="1..24 PCRs with 32 bytes each")
    return pcrs
