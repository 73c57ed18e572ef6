"""One TPM through ESAPI: a lock, a deadline on every call, and a fresh context after a fault.

An ESAPI context serves one thread at a time, and one that saw a broken connection stays broken. So every call
takes the lock, uses the open context or makes one, and on any fault below the TPM itself drops the context; the
caller gets a typed error and may simply call again. Handles: the EK and AK are persistent, everything transient
is flushed in the call that made it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

os.environ.setdefault("TSS2_LOG", "all+none")  # the library writes to stderr otherwise; errors reach us typed

from tpm2_pytss import ESAPI, TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_CAP, TPM2_HC, TPM2_SE, TPMA_SESSION
from tpm2_pytss.types import (
    TPM2B_ENCRYPTED_SECRET,
    TPM2B_ID_OBJECT,
    TPM2B_PUBLIC,
    TPML_DIGEST_VALUES,
    TPML_PCR_SELECTION,
    TPMS_PCR_SELECTION,
    TPMT_HA,
    TPMT_PUBLIC,
    TPMU_HA,
)

from attest.structures import (
    DIGEST_BYTES,
    PCR_COUNT,
    RH_ENDORSEMENT,
    Ak,
    Ek,
    Quote,
    ak_template,
    object_name,
    pcr_selection,
    primary_qualified_name,
    rsa_template,
)
from attest.tpm import nv
from attest.tpm.choice import TpmKind
from attest.tpm.errors import TpmError, TpmLost
from attest.tpm.transport import DeadlineTcti

EK_HANDLE: Final = 0x81010001  # TCG TPM v2.0 Provisioning Guidance §7.8
AK_FIRST_HANDLE: Final = 0x81000001
AK_LAST_HANDLE: Final = 0x8100FFFF
EK_CERTIFICATE_NV: Final = 0x01C00002  # TCG EK Credential Profile §2.2.1.4
EK_CHAIN_NV: Final = range(0x01C00100, 0x01C00110)  # the profile allows more; nobody ships more than a few
DEADLINE_S: Final = 5.0  # a hardware TPM needs up to about 1 s for a signature
KEY_DEADLINE_FACTOR: Final = 12  # RSA key generation on hardware: up to a minute
_LAYER_MASK: Final = 0x00FF0000
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
    """A TPM behind a TCTI text (``find_tcti``). All calls raise ``TpmError``, ``TpmLost`` or ``TpmDeadline``."""

    def __init__(
        self,
        tcti: str,
        *,
        deadline_s: float = DEADLINE_S,
        owner_auth: bytes = b"",
        endorsement_auth: bytes = b"",
    ) -> None:
        self._tcti_text = tcti
        self._deadline_s = deadline_s
        self._auth: Mapping[Any, bytes] = {ESYS_TR.OWNER: owner_auth, ESYS_TR.ENDORSEMENT: endorsement_auth}
        self._lock = threading.Lock()
        self._esapi: Any = None
        self._tcti: DeadlineTcti | None = None
        self._closed = False
        self._ak: Ak | None = None
        self._ak_tr: Any = None
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
        return self._tcti_text

    @property
    def kind(self) -> TpmKind:
        """``swtpm`` where the TPM says it is software, whatever device it hides behind; else ``hardware``."""
        if self._kind is None:
            with self._call() as esapi:
                text = _vendor(esapi)
            self._kind = "swtpm" if text.startswith("SW") or not self._tcti_text.startswith("device:") else "hardware"
        return self._kind

    def close(self) -> None:
        """Close the connection for good; safe to call twice."""
        with self._lock:
            self._closed = True
            self._drop()

    def ek(self) -> Ek:
        """The RSA-2048 EK (template L-1) with its certificates; made and kept at 0x81010001 where absent."""
        with self._call(key=True) as esapi:
            with self._ek_object(esapi) as (_, public):
                certificate = nv.read(esapi, EK_CERTIFICATE_NV)
            chain = b"".join(nv.read(esapi, index) or b"" for index in EK_CHAIN_NV if nv.exists(esapi, index))
            return Ek(public=public, certificates=nv.split_der((certificate or b""), chain))

    def ak(self) -> Ak:
        """Our AK, found among the persistent objects or made at the first free handle from 0x81000001.

        A primary key under the endorsement hierarchy: the same TPM gives the same key again, and its quotes show
        the reset count plainly. Its identity is the name, not the handle.
        """
        with self._call(key=True) as esapi:
            return self._ak_loaded(esapi)[0]

    def activate(self, *, credential: bytes, secret: bytes) -> bytes:
        """TPM2_ActivateCredential with our EK and AK: the credential, if it was made for exactly these two."""
        with self._call(key=True) as esapi:
            _, ak_tr = self._ak_loaded(esapi)
            with self._ek_object(esapi) as (ek_tr, _), _policy_session(esapi) as session:
                esapi.policy_secret(ESYS_TR.ENDORSEMENT, session, expiration=0)
                answer = esapi.activate_credential(
                    ak_tr,
                    ek_tr,
                    TPM2B_ID_OBJECT(credential=credential),
                    TPM2B_ENCRYPTED_SECRET(secret=secret),
                    session1=ESYS_TR.PASSWORD,
                    session2=session,
                )
                return bytes(answer)

    def quote(self, pcrs: Iterable[int], qualifying: bytes) -> Quote:
        """TPM2_Quote over the SHA-256 bank by our AK; ``qualifying`` has at most 64 bytes."""
        selection = _selection(pcrs)
        with self._call() as esapi:
            _, ak_tr = self._ak_loaded(esapi)
            attest, signature = esapi.quote(ak_tr, selection, qualifying)
            return Quote(attest=bytes(attest.attestationData), signature=bytes(signature.marshal()))

    def extend(self, pcr: int, digest: bytes) -> None:
        """TPM2_PCR_Extend of the SHA-256 bank."""
        if not 0 <= pcr < PCR_COUNT or len(digest) != DIGEST_BYTES:
            raise TpmError(
                "tpm-argument", found=f"PCR {pcr}, {len(digest)} bytes", expected=f"PCR 0..23, {DIGEST_BYTES} bytes"
            )
        values = TPML_DIGEST_VALUES([TPMT_HA(hashAlg=TPM2_ALG.SHA256, digest=TPMU_HA(sha256=digest))])
        with self._call() as esapi:
            esapi.pcr_extend(ESYS_TR(pcr), values)

    def read_pcrs(self, pcrs: Iterable[int]) -> dict[int, bytes]:
        """Values of the SHA-256 bank by PCR index."""
        wanted = sorted(set(pcrs))
        values: dict[int, bytes] = {}
        with self._call() as esapi:
            while wanted:
                batch = wanted[:_PCRS_PER_READ]
                _, selected, digests = esapi.pcr_read(_selection(batch))
                got = _selected(selected)
                if not got or len(got) != len(digests):
                    raise TpmError(
                        "tpm-pcr-bank", found=f"no SHA-256 value for PCR {batch[0]}", expected="an active SHA-256 bank"
                    )
                values.update({pcr: bytes(digest) for pcr, digest in zip(got, digests, strict=True)})
                wanted = [pcr for pcr in wanted if pcr not in values]
        return values

    def clock(self) -> ClockInfo:
        """TPM2_ReadClock. Outside a quote nothing vouches for it."""
        with self._call() as esapi:
            info = esapi.read_clock().clockInfo
            return ClockInfo(int(info.clock), int(info.resetCount), int(info.restartCount), bool(info.safe))

    def counter_create(self, index: int = nv.COUNTER_INDEX) -> int:
        """Make an NV counter unless it is there, and return its value; it never starts below one that was."""
        with self._call() as esapi:
            return nv.counter_create(esapi, index)

    def counter_increment(self, index: int = nv.COUNTER_INDEX) -> int:
        """Increment an NV counter and return its new value."""
        with self._call() as esapi:
            return nv.counter_increment(esapi, index)

    def counter_read(self, index: int = nv.COUNTER_INDEX) -> int:
        """The value of an NV counter."""
        with self._call() as esapi:
            return nv.counter_read(esapi, index)

    def handles_in_use(self) -> dict[str, int]:
        """How many transient objects and loaded sessions the TPM holds: both are zero between calls."""
        with self._call() as esapi:
            return {
                "transient": len(nv.handles(esapi, TPM2_HC.TRANSIENT_FIRST)),
                "loaded sessions": len(nv.handles(esapi, TPM2_HC.LOADED_SESSION_FIRST)),
            }

    @contextlib.contextmanager
    def _call(self, *, key: bool = False) -> Iterator[Any]:
        with self._lock:
            if self._closed:
                raise TpmError("tpm-closed", found="a closed device", expected="an open one")
            try:
                esapi = self._open()
                assert self._tcti is not None
                self._tcti.deadline_s = self._deadline_s * (KEY_DEADLINE_FACTOR if key else 1)
                yield esapi
            except TSS2_Exception as error:
                raise self._translate(error) from error

    def _open(self) -> Any:
        if self._esapi is None:
            self._tcti = DeadlineTcti(self._tcti_text, deadline_s=self._deadline_s)
            self._esapi = ESAPI(self._tcti)
            for hierarchy, value in self._auth.items():
                if value:
                    self._esapi.tr_set_auth(hierarchy, value)
            if not self._tcti_text.startswith("device:"):
                _flush_leftovers(self._esapi)  # what a killed predecessor left; the kernel does this on a device
        return self._esapi

    def _drop(self) -> None:
        if self._esapi is not None:
            self._esapi.close()
        if self._tcti is not None:
            self._tcti.do_finalize()
        self._esapi = self._tcti = self._ak_tr = None

    def _translate(self, error: Any) -> TpmError:
        rc = int(error.rc)
        fault = self._tcti.fault if self._tcti is not None else None
        if fault is not None or rc & _LAYER_MASK:
            self._drop()
        if fault is not None:
            return fault
        if rc & _LAYER_MASK:
            return TpmLost(
                "tpm-lost",
                found=f"0x{rc:x} {error}",
                expected="a usable context",
                hint="the next call opens a fresh connection",
            )
        return TpmError("tpm-refused", found=f"0x{rc:x} {error}", expected="success", hint=_hint(rc))

    @contextlib.contextmanager
    def _ek_object(self, esapi: Any) -> Iterator[tuple[Any, bytes]]:
        """The EK loaded: the persistent one if it has our template, else made, and kept if the handle is free."""
        taken = EK_HANDLE in nv.handles(esapi, TPM2_HC.PERSISTENT_FIRST)
        if taken:
            handle = esapi.tr_from_tpmpublic(EK_HANDLE)
            public = _public_bytes(esapi.read_public(handle)[0])
            if public[:-256] == rsa_template()[:-256]:
                yield handle, public
                return
        handle, made, _, _, _ = esapi.create_primary(
            None, TPM2B_PUBLIC(publicArea=_template(rsa_template())), primary_handle=ESYS_TR.ENDORSEMENT
        )
        try:
            if not taken:
                esapi.tr_close(esapi.evict_control(ESYS_TR.OWNER, handle, EK_HANDLE))
            yield handle, _public_bytes(made)
        finally:
            esapi.flush_context(handle)

    def _ak_loaded(self, esapi: Any) -> tuple[Ak, Any]:
        if self._ak is not None and self._ak_tr is not None:
            return self._ak, self._ak_tr
        persistent = nv.handles(esapi, TPM2_HC.PERSISTENT_FIRST)
        for number in persistent:
            if AK_FIRST_HANDLE <= number <= AK_LAST_HANDLE:
                handle = esapi.tr_from_tpmpublic(number)
                public, _, qualified = esapi.read_public(handle)
                data = _public_bytes(public)
                if _is_ours(data, bytes(qualified)):
                    return self._keep_ak(number, data, handle)
        free = next((n for n in range(AK_FIRST_HANDLE, AK_LAST_HANDLE + 1) if n not in persistent), None)
        if free is None:
            raise TpmError("tpm-handles", found="no free persistent handle", expected="one in 0x81000001..0x8100ffff")
        made_handle, made, _, _, _ = esapi.create_primary(
            None, TPM2B_PUBLIC(publicArea=_template(ak_template())), primary_handle=ESYS_TR.ENDORSEMENT
        )
        try:
            handle = esapi.evict_control(ESYS_TR.OWNER, made_handle, free)
        finally:
            esapi.flush_context(made_handle)
        return self._keep_ak(free, _public_bytes(made), handle)

    def _keep_ak(self, number: int, public: bytes, handle: Any) -> tuple[Ak, Any]:
        self._ak = Ak(handle=number, name=object_name(public), public=public)
        self._ak_tr = handle
        return self._ak, handle


def _is_ours(public: bytes, qualified_name: bytes) -> bool:
    fixed = ak_template()[:-4]  # everything before the two coordinates
    expected = primary_qualified_name(RH_ENDORSEMENT, object_name(public))
    return public.startswith(fixed) and qualified_name == expected


def _template(data: bytes) -> Any:
    return TPMT_PUBLIC.unmarshal(data)[0]


def _public_bytes(public: Any) -> bytes:
    return bytes(public.publicArea.marshal())


def _selection(pcrs: Iterable[int]) -> Any:
    bits = pcr_selection(pcrs)
    return TPML_PCR_SELECTION([TPMS_PCR_SELECTION(hash=TPM2_ALG.SHA256, sizeofSelect=len(bits), pcrSelect=bits)])


def _selected(selection: Any) -> list[int]:
    found: list[int] = []
    for bank in selection:
        bits = bytes(bank.pcrSelect)[: int(bank.sizeofSelect)]
        found += [pcr for pcr in range(8 * len(bits)) if bits[pcr // 8] >> (pcr % 8) & 1]
    return found


@contextlib.contextmanager
def _policy_session(esapi: Any) -> Iterator[Any]:
    session = esapi.start_auth_session(ESYS_TR.NONE, ESYS_TR.NONE, TPM2_SE.POLICY, None, TPM2_ALG.SHA256)
    try:
        esapi.trsess_set_attributes(session, TPMA_SESSION.CONTINUESESSION, 0xFF)
        yield session
    finally:
        esapi.flush_context(session)


def _flush_leftovers(esapi: Any) -> None:
    for number in nv.handles(esapi, TPM2_HC.TRANSIENT_FIRST):
        esapi.flush_context(esapi.tr_from_tpmpublic(number))
    for number in nv.handles(esapi, TPM2_HC.LOADED_SESSION_FIRST):
        esapi.flush_context(esapi.tr_from_tpmpublic(number))


def _vendor(esapi: Any) -> str:
    _, data = esapi.get_capability(TPM2_CAP.TPM_PROPERTIES, _VENDOR_STRING_1, 4)
    wanted = range(_VENDOR_STRING_1, _VENDOR_STRING_1 + 4)
    words = [int(entry.value) for entry in data.data.tpmProperties if int(entry.property) in wanted]
    raw = b"".join(word.to_bytes(4, "big") for word in words)
    return raw.replace(b"\0", b"").decode("ascii", "replace").strip()


def _hint(rc: int) -> str:
    hints = {
        0x921: "the TPM is in dictionary-attack lockout: wait, or reset it with the lockout password",
        0x101: "the TPM is in failure mode: restart it (a simulated one: is its disk full?)",
    }
    if rc & 0xBF == 0x8E or rc & 0xFFF == 0x9A2:
        return "a hierarchy password is set: give the owner and endorsement passwords"
    return hints.get(rc, "")
