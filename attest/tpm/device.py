"""One TPM: keys, quotes, PCRs, counters. Whatever a call makes in the TPM for itself, it flushes.

The EK and the AK are persistent; at most two transient objects and two sessions exist at a time, within the three
slots that small TPMs have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_CAP, TPM2_HC
from tpm2_pytss.types import (
    TPM2B_ENCRYPTED_SECRET,
    TPM2B_ID_OBJECT,
    TPML_DIGEST_VALUES,
    TPML_PCR_SELECTION,
    TPMS_PCR_SELECTION,
    TPMT_HA,
    TPMU_HA,
)

from attest.evidence.application import APPLICATION_PCRS, application_digest
from attest.evidence.ek import EkKind
from attest.structures import DIGEST_BYTES, PCR_COUNT, Ak, Ek, Quote, extend, pcr_selection
from attest.tpm import keys, nv, sessions
from attest.tpm.choice import TpmKind
from attest.tpm.connection import Connection
from attest.tpm.counters import Counter, NvCounter
from attest.tpm.errors import TpmError
from attest.tpm.templates import AK, EK

DEADLINE_S: Final = 5.0  # a hardware TPM needs up to about 1 s for a signature
_PCRS_PER_READ: Final = 8  # a TPML_DIGEST holds eight
_VENDOR_STRING_1: Final = 0x106  # TPM_PT_VENDOR_STRING_1, the first of four words (Part 2 §6.13)


@dataclass(frozen=True, slots=True)
class ClockInfo:
    """TPMS_CLOCK_INFO: milliseconds powered, TPM resets and restarts since manufacture or clear."""

    clock_ms: int
    reset_count: int
    restart_count: int
    safe: bool


class TpmDevice:
    """A TPM behind a TCTI text (``find_tcti``).

    ``trusted_ek``: the name of the enrolled EK, as in the device record; sealing refuses any other (``tpm-ek``).
    All calls raise ``TpmError`` or what derives from it; after each of them the same device may be called again.
    """

    def __init__(
        self,
        tcti: str,
        *,
        deadline_s: float = DEADLINE_S,
        owner_auth: bytes = b"",
        endorsement_auth: bytes = b"",
        trusted_ek: bytes | None = None,
    ) -> None:
        passwords = {ESYS_TR.OWNER: owner_auth, ESYS_TR.ENDORSEMENT: endorsement_auth}
        self.connection = Connection(tcti, deadline_s=deadline_s, auth=passwords)
        self.trusted_ek = trusted_ek
        self._ak: tuple[Any, keys.Loaded] | None = None
        self._kind: TpmKind | None = None

    def __enter__(self) -> TpmDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tcti(self) -> str:
        """The TCTI text this device was made from."""
        return self.connection.tcti

    @property
    def kind(self) -> TpmKind:
        """``swtpm`` where the TPM says it is software, whatever device it hides behind; else ``hardware``."""
        if self._kind is None:
            with self.connection.call() as esapi:
                text = _vendor(esapi)
            self._kind = "swtpm" if text.startswith("SW") or not self.connection.shared else "hardware"
        return self._kind

    def close(self) -> None:
        """Close the connection for good; safe to call twice."""
        self.connection.close()

    def ek(self, kind: EkKind = "rsa2048") -> Ek:
        """An EK with its certificates from NV; made, and kept at its handle where that is free."""
        with self.connection.call(key=True) as esapi:
            return keys.read_ek(esapi, EK[kind])

    def ak(self) -> Ak:
        """Our AK, found among the persistent objects or made at the first free handle from 0x81000001.

        A primary key under the endorsement hierarchy: the same TPM gives the same key again, and its quotes show
        the reset count plainly. Its identity is the name, not the handle.
        """
        with self.connection.call(key=True) as esapi:
            found = self._ak_loaded(esapi)
            return Ak(handle=found.handle, name=found.name, public=found.public)

    def activate(self, *, credential: bytes, secret: bytes, ek: EkKind = "rsa2048") -> bytes:
        """TPM2_ActivateCredential with our EK and AK: the credential, if it was made for exactly these two.

        It crosses the bus encrypted, in a session salted to the EK.
        """
        blob, encrypted = TPM2B_ID_OBJECT(credential=credential), TPM2B_ENCRYPTED_SECRET(secret=secret)
        kind = EK[ek]
        with self.connection.call(key=True) as esapi, self._ak_in_use(esapi) as ak_tr:
            opened = sessions.policy_session if kind.by_policy else sessions.encrypted_session
            with keys.endorsement_key(esapi, kind) as (ek_tr, _), opened(esapi, salt_key=ek_tr) as session:
                if kind.by_policy:
                    esapi.policy_secret(ESYS_TR.ENDORSEMENT, session, expiration=0)
                answer = esapi.activate_credential(
                    ak_tr, ek_tr, blob, encrypted, session1=ESYS_TR.PASSWORD, session2=session
                )
                return bytes(answer)

    def quote(self, pcrs: Iterable[int], qualifying: bytes) -> Quote:
        """TPM2_Quote over the SHA-256 bank by our AK; ``qualifying`` has at most 64 bytes."""
        chosen = selection(pcrs)
        with self.connection.call() as esapi, self._ak_in_use(esapi) as ak_tr:
            attest, signature = esapi.quote(ak_tr, chosen, qualifying)
            return Quote(attest=bytes(attest.attestationData), signature=bytes(signature.marshal()))

    def extend(self, pcr: int, digest: bytes) -> None:
        """TPM2_PCR_Extend of the SHA-256 bank."""
        if not 0 <= pcr < PCR_COUNT or len(digest) != DIGEST_BYTES:
            raise TpmError(
                "tpm-argument", found=f"PCR {pcr}, {len(digest)} bytes", expected=f"PCR 0..23, {DIGEST_BYTES} bytes"
            )
        with self.connection.call() as esapi:
            esapi.pcr_extend(ESYS_TR(pcr), _digest_values(digest))

    def measure_application(self, pcr: int, *, module_digest: bytes, deployment_digest: bytes) -> bytes:
        """Reset ``pcr`` (16 or 23) and extend what runs; returns the value, ``application_value`` of the verifier.

        A PCR that has the value already is left as it is: nothing that is bound to it sees it change.
        """
        if pcr not in APPLICATION_PCRS:
            raise TpmError("tpm-argument", found=f"PCR {pcr}", expected="a resettable one, 16 or 23")
        digest = application_digest(module_digest=module_digest, deployment_digest=deployment_digest)
        wanted = extend(bytes(DIGEST_BYTES), digest)
        with self.connection.call() as esapi:
            if read_pcrs(esapi, [pcr])[pcr] != wanted:
                esapi.pcr_reset(ESYS_TR(pcr))
                esapi.pcr_extend(ESYS_TR(pcr), _digest_values(digest))
            value = read_pcrs(esapi, [pcr])[pcr]
        if value != wanted:
            hint = "another program extends this PCR: choose the other one in the deployment"
            raise TpmError("tpm-application", found=f"PCR {pcr} = {value.hex()}", expected=wanted.hex(), hint=hint)
        return value

    def read_pcrs(self, pcrs: Iterable[int]) -> dict[int, bytes]:
        """Values of the SHA-256 bank by PCR index."""
        with self.connection.call() as esapi:
            return read_pcrs(esapi, pcrs)

    def clock(self) -> ClockInfo:
        """TPM2_ReadClock. Outside a quote nothing vouches for it."""
        with self.connection.call() as esapi:
            info = esapi.read_clock().clockInfo
            return ClockInfo(int(info.clock), int(info.resetCount), int(info.restartCount), bool(info.safe))

    @property
    def deployment_counter(self) -> NvCounter:
        """Anti-rollback of deployments."""
        return NvCounter(self.connection, Counter.DEPLOYMENT)

    @property
    def ledger_counter(self) -> NvCounter:
        """Anchor of the device's ledger."""
        return NvCounter(self.connection, Counter.LEDGER)

    def handles_in_use(self) -> dict[str, int]:
        """How many transient objects and loaded sessions the TPM holds: both are zero between calls."""
        with self.connection.call() as esapi:
            return {
                "transient": len(nv.handles(esapi, TPM2_HC.TRANSIENT_FIRST)),
                "loaded sessions": len(nv.handles(esapi, TPM2_HC.LOADED_SESSION_FIRST)),
            }

    @contextlib.contextmanager
    def _ak_in_use(self, esapi: Any) -> Iterator[Any]:
        try:
            yield self._ak_loaded(esapi).tr
        except TSS2_Exception:
            self._ak = None  # another program may have removed it: look again in the next call
            raise

    def _ak_loaded(self, esapi: Any) -> keys.Loaded:
        if self._ak is None or self._ak[0] is not esapi:
            self._ak = esapi, keys.keep_primary(esapi, AK)
        return self._ak[1]


def selection(pcrs: Iterable[int]) -> Any:
    """TPML_PCR_SELECTION of the SHA-256 bank."""
    bits = pcr_selection(pcrs)
    return TPML_PCR_SELECTION([TPMS_PCR_SELECTION(hash=TPM2_ALG.SHA256, sizeofSelect=len(bits), pcrSelect=bits)])


def read_pcrs(esapi: Any, pcrs: Iterable[int]) -> dict[int, bytes]:
    """Values of the SHA-256 bank by PCR index. Raises ``TpmError`` (``tpm-pcr-bank``) where the bank is off."""
    wanted = sorted(set(pcrs))
    values: dict[int, bytes] = {}
    while wanted:
        batch = wanted[:_PCRS_PER_READ]
        _, selected, digests = esapi.pcr_read(selection(batch))
        got = _selected(selected)
        if not got or len(got) != len(digests):
            raise TpmError(
                "tpm-pcr-bank", found=f"no SHA-256 value for PCR {batch[0]}", expected="an active SHA-256 bank"
            )
        values.update({pcr: bytes(digest) for pcr, digest in zip(got, digests, strict=True)})
        wanted = [pcr for pcr in wanted if pcr not in values]
    return values


def _digest_values(digest: bytes) -> Any:
    return TPML_DIGEST_VALUES([TPMT_HA(hashAlg=TPM2_ALG.SHA256, digest=TPMU_HA(sha256=digest))])


def _selected(chosen: Any) -> list[int]:
    found: list[int] = []
    for bank in chosen:
        bits = bytes(bank.pcrSelect)[: int(bank.sizeofSelect)]
        found += [pcr for pcr in range(8 * len(bits)) if bits[pcr // 8] >> (pcr % 8) & 1]
    return found


def _vendor(esapi: Any) -> str:
    _, data = esapi.get_capability(TPM2_CAP.TPM_PROPERTIES, _VENDOR_STRING_1, 4)
    wanted = range(_VENDOR_STRING_1, _VENDOR_STRING_1 + 4)
    words = [int(entry.value) for entry in data.data.tpmProperties if int(entry.property) in wanted]
    raw = b"".join(word.to_bytes(4, "big") for word in words)
    return raw.replace(b"\0", b"").decode("ascii", "replace").strip()
