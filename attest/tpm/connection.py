"""One connection to a TPM: a lock, a deadline on every call, and a fresh context after a fault.

An ESAPI context serves one thread at a time, and one that saw a broken connection stays broken. So every call
takes the lock, uses the open context or makes one, and on any fault below the TPM itself drops the context; the
caller gets a typed error and may simply call again.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

os.environ.setdefault("TSS2_LOG", "all+none")  # the library writes to stderr otherwise; errors reach us typed

from tpm2_pytss import ESAPI, TSS2_Exception
from tpm2_pytss.constants import TPM2_HC

from attest.tpm.errors import TpmBusy, TpmError, TpmFull, TpmLost
from attest.tpm.nv import handles
from attest.tpm.responses import error_of
from attest.tpm.transport import DeadlineTcti

KEY_DEADLINE_FACTOR: Final = 12  # RSA key generation on hardware: up to a minute


class Connection:
    """A TPM behind a TCTI text. ``auth``: passwords of hierarchies by ``ESYS_TR``."""

    def __init__(self, tcti: str, *, deadline_s: float, auth: Mapping[Any, bytes]) -> None:
        self.tcti = tcti
        self.deadline_s = deadline_s
        self._auth = auth
        self._lock = threading.Lock()
        self._esapi: Any = None
        self._transport: DeadlineTcti | None = None
        self._closed = False

    @property
    def shared(self) -> bool:
        """Whether a resource manager stands between, so that handles there are not all ours."""
        return self.tcti.startswith("device:")

    @contextlib.contextmanager
    def call(self, *, key: bool = False) -> Iterator[Any]:
        """An ESAPI context for one operation; ``key``: one that may make a key and so takes longer.

        Raises ``TpmError`` and what derives from it. A context object of an earlier call may have been replaced:
        what was looked up in one (``ESYS_TR``) is good only while ``call`` yields the same object.
        """
        with self._lock:
            if self._closed:
                raise TpmError("tpm-closed", found="a closed device", expected="an open one")
            try:
                esapi = self._open()
                assert self._transport is not None
                self._transport.deadline_s = self.deadline_s * (KEY_DEADLINE_FACTOR if key else 1)
                yield esapi
            except TSS2_Exception as error:
                raise self._translate(error) from error

    def close(self) -> None:
        """Close for good; safe to call twice."""
        with self._lock:
            self._closed = True
            self._drop()

    def _open(self) -> Any:
        if self._esapi is None:
            self._transport = DeadlineTcti(self.tcti, deadline_s=self.deadline_s)
            self._esapi = ESAPI(self._transport)
            for hierarchy, value in self._auth.items():
                if value:
                    self._esapi.tr_set_auth(hierarchy, value)
            if not self.shared:
                _flush_leftovers(self._esapi)  # what a killed predecessor left; the kernel does this on a device
        return self._esapi

    def _drop(self) -> None:
        if self._esapi is not None:
            self._esapi.close()
        if self._transport is not None:
            self._transport.do_finalize()
        self._esapi = self._transport = None

    def _translate(self, error: Any) -> TpmError:
        fault = self._transport.fault if self._transport is not None else None
        typed = fault if fault is not None else error_of(int(error.rc), str(error))
        if isinstance(typed, TpmLost | TpmBusy | TpmFull):
            self._drop()  # and the next one flushes whatever this call could not
        return typed


def _flush_leftovers(esapi: Any) -> None:
    for kind in (TPM2_HC.TRANSIENT_FIRST, TPM2_HC.LOADED_SESSION_FIRST):
        for number in handles(esapi, kind):
            esapi.flush_context(esapi.tr_from_tpmpublic(number))
