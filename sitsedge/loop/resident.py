"""Commands signed inside the TPM (attestation mode ``tpm2-resident``): for loops slower than the TPM.

The key is the sealed signing key of ``attest.tpm.sealing``: it never leaves the TPM, and the TPM uses it only in a boot
state that the plant approved, judged anew at every signature. The loop waits for one no longer than its own deadline:
signatures are made on a thread of their own, and one that is still under way refuses the next cycle at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late

from attest.evidence.claims import CommandKey
from attest.tpm import Sealing, TpmBusy, TpmDeadline, TpmDevice
from attest.tpm.approval import Approval


class ResidentSigner:
    """An ES256 signer over one TPM connection, which it keeps open; ``public`` is the uncompressed point (65 bytes).

    Raises ``TpmError`` and what derives from it; ``SealError`` where the boot state is not (or no longer) approved.
    """

    def __init__(
        self,
        tcti: str,
        *,
        authority: bytes,
        approvals: Sequence[Approval],
        deadline_s: float,
        tpm_deadline_s: float,
    ) -> None:
        """``deadline_s``: what one signature may cost the caller; ``tpm_deadline_s``: when a TPM counts as hung."""
        self.device = TpmDevice(tcti, deadline_s=tpm_deadline_s)
        self._sealing = Sealing(self.device, authority)
        self._approvals = tuple(approvals)
        self._deadline_s = deadline_s
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tpm-sign")
        self._pending: Future[bytes] | None = None
        try:
            self.public = b"\x04" + self._sealing.create_key().point
        except BaseException:
            self.close()
            raise

    def sign(self, data: bytes, /) -> bytes:
        """r ‖ s over SHA-256 of ``data``. ``tpm-deadline``: not in time; ``tpm-busy``: an earlier one is under way."""
        if self._pending is not None and not self._pending.done():
            raise TpmBusy("tpm-busy", found="a signature still under way", expected="an idle TPM")
        self._pending = self._pool.submit(self._sealing.sign, hashlib.sha256(data).digest(), self._approvals)
        try:
            return self._pending.result(self._deadline_s)
        except Late as error:
            found = f"no signature in {1000 * self._deadline_s:g} ms"
            raise TpmDeadline("tpm-deadline", found=found, expected="one within the cycle") from error

    def certify(self, qualifying: bytes) -> CommandKey:
        """The TPM's word that this key lives in it, for the evidence of one epoch."""
        return self._sealing.certify_key(qualifying)

    def close(self) -> None:
        """A signature under way ends with the TPM's deadline at the latest; safe to call twice."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.device.close()
