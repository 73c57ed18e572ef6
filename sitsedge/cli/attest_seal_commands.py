"""``sitsctl attest seal``: approve the boot states in which a device's sealed key and secrets may be used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest import cose
from attest.boot.policy import MAX_POLICY_BYTES, BootPolicy, parse_policy
from attest.evidence.record import MAX_RECORD_BYTES, parse_record
from attest.structures import PCR_COUNT
from attest.tpm import SealError
from attest.tpm.approval import (
    MAX_FILE_BYTES,
    Approval,
    SealTarget,
    Use,
    approve_policy,
    encode_approvals,
    parse_approvals,
    parse_target,
)
from attest.tpm.authority import create_authority, load_authority, load_authority_point, public_pem
from sitsedge.cli.common import StateOption
from sitsedge.cli.files import put, read_at_most, signed_file
from sitsedge.cli.output import Output, OutputOption, emit, note, reported
from sitsedge.supervisor.keys import read_public
from sitsedge.supervisor.prepare import load_files
from sitsedge.supervisor.state import state_dir_of
from sitsedge.supervisor.tpm import opened_tpm

if TYPE_CHECKING:
    from attest.tpm import Sealing, TpmDevice

UNMEASURED = (bytes(32), b"\xff" * 32)  # a PCR after a reset, until something is measured
app = typer.Typer(
    name="seal",
    help="Boot states in which a device's TPM may use its signing key and open its secrets.",
    no_args_is_help=True,
)
TRIAL = hashlib.sha256(b"sits-seal-trial-v1").digest()  # what `try` signs: no command hashes to this
USES: tuple[Use, ...] = ("sign", "unseal")

ConfigOption = Annotated[Path, typer.Option("--config", help="deployment file of the device")]
AuthorityOption = Annotated[Path, typer.Option("--authority", help="public key of the policy authority, PEM")]


@app.command("authority")
def authority(
    out: Annotated[Path, typer.Argument(metavar="KEY", help="new key file; KEY.pub gets the public key")],
) -> None:
    """Make the policy authority's key (P-256). It approves states; keep it off the devices."""
    with reported():
        put(out.with_name(f"{out.name}.pub"), public_pem(create_authority(out)))
        note(f"key written to {out}, its public half to {out}.pub")


@app.command("target")
def target(
    config: ConfigOption,
    authority: AuthorityOption,
    out: Annotated[Path, typer.Option("--out", help="new file for the policy authority")],
    key_out: Annotated[Path | None, typer.Option("--key-out", help="new file: the sealed key's public half")] = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """1. On the device: make the sealed signing key, and tell the authority what approvals are for."""
    with reported(output):
        with _sealing(config, state_dir, authority) as (_, sealing):
            made, key = sealing.target(), sealing.create_key()
        put(out, made.encode())
        if key_out is not None:
            public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + key.point)
            put(key_out, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        data = _target_data(made) | {"key": key.point, "key_handle": f"0x{key.handle:08x}"}
        emit(output, data, lambda: _fields(data))


@app.command("approve")
def approve(
    target_file: Annotated[Path, typer.Argument(metavar="TARGET", help="file of the device")],
    policy: Annotated[Path, typer.Option("--policy", help="boot policy whose states are approved")],
    policy_key: Annotated[Path, typer.Option("--policy-key", help="policy.pub, which must have signed it")],
    key: Annotated[Path, typer.Option("--key", help="the authority's key, PEM of mode 0600")],
    pcr: Annotated[str, typer.Option("--pcr", help="PCRs that must have the state's values, as 0,2,4,7")],
    out: Annotated[Path, typer.Option("--out", help="new file of approvals")],
    generation: Annotated[
        int | None, typer.Option("--generation", min=0, help="above the target's: lets the device retire older ones")
    ] = None,
    use: Annotated[list[str] | None, typer.Option("--use", help="sign or unseal (default: both)")] = None,
    output: Output = OutputOption,
) -> None:
    """2. Where the authority's key lies: approve every state of a boot policy for one device."""
    with reported(output):
        wanted = parse_target(read_at_most(target_file, MAX_FILE_BYTES))
        approvals = approve_policy(
            wanted,
            _signed_policy(policy, policy_key),
            pcrs=_numbers(pcr),
            authority=load_authority(key),
            uses=_uses(use),
            generation=generation,
        )
        put(out, encode_approvals(approvals))
        _warn_of_unmeasured(approvals)
        data = _approvals_data(approvals)
        emit(output, data, lambda: _print_approvals(data))


@app.command("show")
def show(
    approvals_file: Annotated[Path, typer.Argument(metavar="APPROVALS")],
    output: Output = OutputOption,
) -> None:
    """What a file of approvals says; its signatures are checked by the TPM that uses it."""
    with reported(output):
        data = _approvals_data(parse_approvals(read_at_most(approvals_file, MAX_FILE_BYTES)))
        emit(output, data, lambda: _print_approvals(data))


@app.command("try")
def attempt(
    approvals_file: Annotated[Path, typer.Argument(metavar="APPROVALS")],
    config: ConfigOption,
    authority: AuthorityOption,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """3. On the device: does the TPM sign and unseal in the state it is in now?"""
    with reported(output):
        approvals = parse_approvals(read_at_most(approvals_file, MAX_FILE_BYTES))
        uses = [use for use in USES if any(approval.use == use for approval in approvals)]
        with _sealing(config, state_dir, authority) as (tpm, sealing):
            if "sign" in uses:
                sealing.sign(TRIAL, approvals)
            if "unseal" in uses:
                sealing.unseal(sealing.seal(TRIAL), approvals)
            data: dict[str, Any] = {"ok": True, "uses": uses, "tpm_kind": tpm.kind}
        emit(output, data, lambda: _fields(data))


@app.command("retire")
def retire(
    generation: Annotated[int, typer.Argument(min=0, help="approvals below this hold no more, for good")],
    config: ConfigOption,
    authority: AuthorityOption,
    approvals_file: Annotated[
        Path, typer.Option("--approvals", help="approvals of this generation, which must work here first")
    ],
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """4. On the device, once it runs in the new state: withdraw older approvals."""
    with reported(output):
        kept = [a for a in parse_approvals(read_at_most(approvals_file, MAX_FILE_BYTES)) if a.generation >= generation]
        with _sealing(config, state_dir, authority) as (_, sealing):
            sealing.sign(TRIAL, kept)  # whoever retires what works now and has nothing better locks the key
            sealing.generation.advance_to(generation)
            data = _target_data(sealing.target())
        emit(output, data, lambda: _fields(data))


@contextmanager
def _sealing(config: Path, state_dir: Path | None, authority: Path) -> Iterator[tuple[TpmDevice, Sealing]]:
    from attest.tpm import Sealing  # needs the TPM library, which no other command of a policy authority does

    point = load_authority_point(authority)
    deployment, _, _ = load_files(config)
    state = state_dir_of(deployment, state_dir)
    with opened_tpm(deployment, state, say=note) as tpm:
        record = state.trust / "device-record.cbor"
        if record.exists():  # enrolled: secrets go to the enrolled TPM only
            tpm.trusted_ek = parse_record(read_at_most(record, MAX_RECORD_BYTES))[0].ek_name
        yield tpm, Sealing(tpm, point)


def _signed_policy(path: Path, public: Path) -> BootPolicy:
    with signed_file(path):
        policy, message = parse_policy(read_at_most(path, MAX_POLICY_BYTES))
        cose.verify(message, public=read_public(public))
    return policy


def _warn_of_unmeasured(approvals: Sequence[Approval]) -> None:
    """A PCR that nobody extended is the same in every boot: an approval over such PCRs alone holds nothing back."""
    bare = {a.label for a in approvals if all(value in UNMEASURED for value in a.pcrs.values())}
    for label in sorted(bare):
        note(f"warning: in state {label!r} nothing was measured into the chosen PCRs: any such boot may use the key")


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 3 and int(word) < PCR_COUNT for word in words):
        raise SealError("seal-pcrs", found=repr(text[:40]), expected=f"numbers 0..{PCR_COUNT - 1} with commas between")
    return [int(word) for word in words]


def _uses(chosen: Sequence[str] | None) -> tuple[Use, ...]:
    found = tuple(use for use in USES if chosen is None or use in chosen)
    if not found or (chosen and set(chosen) - set(USES)):
        raise typer.BadParameter("--use wants sign or unseal")
    return found


def _target_data(made: SealTarget) -> dict[str, Any]:
    return {"device": made.device, "counter": made.counter, "generation": made.generation}


def _approvals_data(approvals: Sequence[Approval]) -> dict[str, Any]:
    return {
        "approvals": [
            {
                "label": approval.label,
                "use": approval.use,
                "generation": approval.generation,
                "device": approval.device,
                "pcrs": {str(pcr): value for pcr, value in sorted(approval.pcrs.items())},
                "policy": approval.policy_digest,
                "authority": approval.authority,
            }
            for approval in approvals
        ]
    }


def _print_approvals(data: dict[str, Any]) -> None:
    for item in data["approvals"]:
        pcrs = ", ".join(item["pcrs"])
        print(f"{item['label']}: {item['use']}, generation {item['generation']}, PCRs {pcrs}")
        print(f"  device {item['device'].hex()}")


def _fields(data: dict[str, Any]) -> None:
    for key, value in data.items():
        print(f"{key:11} {value.hex() if isinstance(value, bytes) else value}")
