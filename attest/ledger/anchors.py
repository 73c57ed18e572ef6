"""What an audit trusts, as files beside the ledgers (``ledger_dir/anchors/``).

    anchors.json                              names, origins, profile, approved modules, deployments
    gate.pub, policy.pub                      Ed25519 public keys, PEM (SubjectPublicKeyInfo)
    modules/<module digest>/verification_key.bin
    rules/<digest>.cbor                       gate rules, as pinned by epoch records
    device-records/<sha256>.cbor              signed device records
    boot-policies/<sha256>.cose               signed boot policies
    seal-authority.pub                        x ‖ y (hex) of the key that approves boot states to sealed keys

Files named by a digest are checked against it. The folder grows with every deployment, so that a ledger that
spans several modules stays auditable. Whoever audits must have got ``anchors.json`` and the keys, or their
hashes, by a way of their own: anchors found beside a ledger prove nothing by themselves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from attest import jsontext
from attest.command.errors import CommandError
from attest.command.rules import GateRules
from attest.ledger.errors import LedgerError

VERSION: Final = 1
PROFILES: Final = ("development", "production")
FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # a verification key of 2,049 signals has 66 KiB, a policy up to 1 MiB
FILES_MAX: Final = 10_000  # ten years of a new deployment every day
_JSON_KEYS: Final = frozenset({"version", "profile", "gate_id", "device_id", "origins", "modules", "deployments"})


@dataclass(frozen=True, slots=True)
class ModuleAnchor:
    """An approved module; without a key its proofs cannot be checked. ``development``: nobody contributed to it."""

    vk_sha256: bytes
    verification_key: bytes
    development: bool


@dataclass(frozen=True, slots=True)
class Anchors:
    """Everything loaded and checked; maps are keyed by raw digests."""

    profile: str
    gate_id: str
    device_id: str
    gate_origin: str
    device_origin: str
    gate_public: bytes
    policy_public: bytes | None
    modules: Mapping[bytes, ModuleAnchor]
    deployments: frozenset[bytes]
    rules: Mapping[bytes, GateRules]
    device_records: Mapping[bytes, bytes]
    boot_policies: Mapping[bytes, bytes]
    seal_authority: bytes | None = None


def write_anchors(
    folder: Path,
    *,
    profile: str,
    gate_id: str,
    device_id: str,
    gate_origin: str,
    device_origin: str,
    gate_public: bytes,
    policy_public: bytes | None,
    module_digest: bytes,
    deployment_digest: bytes,
    rules: GateRules,
    verification_key: bytes | None,
    development_key: bool,
    device_record: bytes | None,
    boot_policy: bytes | None,
    seal_authority: bytes | None = None,
) -> None:
    """Add one deployment to the anchors in ``folder`` (made if missing); each file is replaced atomically.

    Public keys are raw, 32 bytes. ``verification_key`` is ``None`` where no proof is demanded,
    ``device_record`` and ``boot_policy`` (the signed files) where attestation is ``none``, ``seal_authority`` (x ‖ y)
    where the session key signs the commands. Raises
    ``LedgerError`` (``anchors``) if the folder belongs to another gate, device or profile.
    """
    text: dict[str, Any] = {
        "version": VERSION,
        "profile": profile,
        "gate_id": gate_id,
        "device_id": device_id,
        "origins": {"device": device_origin, "gate": gate_origin},
        "modules": {},
        "deployments": [],
    }
    if (folder / "anchors.json").exists():
        known = load_anchors(folder)
        old = _read_json(folder)
        changed = [key for key in text if key not in ("modules", "deployments") and old[key] != text[key]]
        if changed or known.gate_public != gate_public:
            what = ", ".join(changed) or "gate.pub"
            raise _bad(folder, f"anchors with another {what}", "those of this deployment", hint="use a new folder")
        text["modules"], text["deployments"] = old["modules"], old["deployments"]
    vk_sha256 = hashlib.sha256(verification_key).hexdigest() if verification_key is not None else ""
    text["modules"][module_digest.hex()] = {"vk_sha256": vk_sha256, "development": development_key}
    text["deployments"] = sorted({*text["deployments"], deployment_digest.hex()})
    files = {f"rules/{rules.digest().hex()}.cbor": rules.encode(), "gate.pub": _pem(gate_public)}
    if policy_public is not None:
        files["policy.pub"] = _pem(policy_public)
    if verification_key is not None:
        files[f"modules/{module_digest.hex()}/verification_key.bin"] = verification_key
    if device_record is not None:
        files[f"device-records/{hashlib.sha256(device_record).hexdigest()}.cbor"] = device_record
    if boot_policy is not None:
        files[f"boot-policies/{hashlib.sha256(boot_policy).hexdigest()}.cose"] = boot_policy
    if seal_authority is not None:
        files["seal-authority.pub"] = seal_authority.hex().encode() + b"\n"
    files["anchors.json"] = jsontext.dumps(text, indent=2, sort_keys=True).encode() + b"\n"
    for name, data in files.items():  # anchors.json last: it names the others
        _write(folder / name, data)


def load_anchors(folder: Path) -> Anchors:
    """Read and check the folder. Raises ``LedgerError`` (``anchors``)."""
    text = _read_json(folder)
    modules = {}
    for name, entry in text["modules"].items():
        pinned = entry["vk_sha256"]
        key = b""
        if pinned:
            path = folder / "modules" / name / "verification_key.bin"
            key = _read(path)
            if hashlib.sha256(key).hexdigest() != pinned:
                raise _bad(path, "another key", f"SHA-256 {pinned}")
        modules[bytes.fromhex(name)] = ModuleAnchor(bytes.fromhex(pinned), key, entry["development"])
    rules = {}
    for digest, data in _digest_files(folder / "rules", ".cbor").items():
        try:
            rules[digest] = GateRules.decode(data)
        except CommandError as error:
            raise _bad(folder / "rules", error.found, error.expected) from error
    policy, sealing = folder / "policy.pub", folder / "seal-authority.pub"
    return Anchors(
        profile=text["profile"],
        gate_id=text["gate_id"],
        device_id=text["device_id"],
        gate_origin=text["origins"]["gate"],
        device_origin=text["origins"]["device"],
        gate_public=_public(folder / "gate.pub"),
        policy_public=_public(policy) if policy.exists() else None,
        modules=modules,
        deployments=frozenset(bytes.fromhex(digest) for digest in text["deployments"]),
        rules=rules,
        device_records=_digest_files(folder / "device-records", ".cbor"),
        boot_policies=_digest_files(folder / "boot-policies", ".cose"),
        seal_authority=_point(sealing) if sealing.exists() else None,
    )


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / "anchors.json"
    try:
        text = jsontext.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise _bad(path, "no JSON", "the anchors of a deployment") from error
    if not isinstance(text, dict) or set(text) != _JSON_KEYS or text["version"] != VERSION:
        raise _bad(path, "other keys or another version", f"version {VERSION} with {sorted(_JSON_KEYS)}")
    origins, modules, deployments = text["origins"], text["modules"], text["deployments"]
    names = [text["gate_id"], text["device_id"]]
    if not isinstance(origins, dict) or set(origins) != {"device", "gate"}:
        raise _bad(path, "other origins", "those of device and gate")
    if not all(isinstance(name, str) for name in [*names, *origins.values()]):
        raise _bad(path, "a name that is no text", "text")
    if text["profile"] not in PROFILES:
        raise _bad(path, f"profile {str(text['profile'])[:40]!r}", " or ".join(PROFILES))
    if not isinstance(deployments, list) or not all(_is_hex(digest) for digest in deployments):
        raise _bad(path, "deployments that are no digests", "SHA-256 in lower-case hex")
    if not isinstance(modules, dict) or not all(_is_module(*entry) for entry in modules.items()):
        raise _bad(path, "modules of another form", "digest: {vk_sha256, development}")
    return text


def _is_module(name: object, entry: object) -> bool:
    return (
        _is_hex(name)
        and isinstance(entry, dict)
        and set(entry) == {"vk_sha256", "development"}
        and (entry["vk_sha256"] == "" or _is_hex(entry["vk_sha256"]))
        and isinstance(entry["development"], bool)
    )


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _digest_files(folder: Path, suffix: str) -> dict[bytes, bytes]:
    files: dict[bytes, bytes] = {}
    if not folder.is_dir():
        return files
    for path in sorted(folder.iterdir()):
        if path.suffix != suffix or not _is_hex(path.stem):
            continue  # a file half written by write_anchors, or something that is none of ours
        if len(files) == FILES_MAX:
            raise _bad(folder, f"over {FILES_MAX} files", "fewer")
        data = _read(path)
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise _bad(path, f"SHA-256 {hashlib.sha256(data).hexdigest()}", path.stem)
        files[bytes.fromhex(path.stem)] = data
    return files


def _point(path: Path) -> bytes:
    """x ‖ y of a P-256 key, in hexadecimal."""
    text = _read(path).strip()
    if len(text) != 128 or set(text) - set(b"0123456789abcdef"):
        raise _bad(path, "another form", "64 bytes in lower-case hexadecimal")
    return bytes.fromhex(text.decode())


def _public(path: Path) -> bytes:
    try:
        key = load_pem_public_key(_read(path))
    except ValueError as error:
        raise _bad(path, "no PEM", "an Ed25519 public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _bad(path, type(key).__name__, "an Ed25519 public key")
    return key.public_bytes_raw()


def _pem(public: bytes) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _bad(path, str(error.strerror), "a readable file") from error
    if len(data) > FILE_BYTES_MAX:
        raise _bad(path, f"over {FILE_BYTES_MAX} bytes", "a smaller file")
    return data


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise _bad(path, str(error.strerror), "a writable folder") from error


def _bad(path: Path, found: str, expected: str, *, hint: str = "") -> LedgerError:
    return LedgerError("anchors", found=f"{path}: {found}", expected=expected, hint=hint)
