"""Sessions with a TPM: always flushed by the call that made them; salted and encrypted where a secret crosses the bus.

The salt goes to the EK: its certificate is what enrolment checked, so a device between us and the TPM would have to
show that very key. A salted session has a key of its own that only the TPM can know; with it, parameters are
encrypted with AES-128-CFB and authenticated (Part 1 §19.6, §21).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_SE, TPMA_SESSION
from tpm2_pytss.types import TPMT_SYM_DEF, TPMU_SYM_KEY_BITS, TPMU_SYM_MODE


@contextlib.contextmanager
def policy_session(esapi: Any, *, salt_key: Any = ESYS_TR.NONE) -> Iterator[Any]:
    """A policy session; with ``salt_key``, the first parameter of a response comes back encrypted."""
    attributes = TPMA_SESSION.ENCRYPT if salt_key != ESYS_TR.NONE else TPMA_SESSION(0)
    with _session(esapi, TPM2_SE.POLICY, salt_key, attributes) as session:
        yield session


@contextlib.contextmanager
def encrypted_session(esapi: Any, *, salt_key: Any) -> Iterator[Any]:
    """An HMAC session for an object with a password: first parameters travel encrypted both ways."""
    with _session(esapi, TPM2_SE.HMAC, salt_key, TPMA_SESSION.DECRYPT | TPMA_SESSION.ENCRYPT) as session:
        yield session


@contextlib.contextmanager
def _session(esapi: Any, kind: Any, salt_key: Any, attributes: Any) -> Iterator[Any]:
    symmetric = TPMT_SYM_DEF(
        algorithm=TPM2_ALG.AES, keyBits=TPMU_SYM_KEY_BITS(aes=128), mode=TPMU_SYM_MODE(aes=TPM2_ALG.CFB)
    )
    session = esapi.start_auth_session(salt_key, ESYS_TR.NONE, kind, symmetric if attributes else None, TPM2_ALG.SHA256)
    try:
        esapi.trsess_set_attributes(session, attributes | TPMA_SESSION.CONTINUESESSION, 0xFF)
        yield session
    finally:
        esapi.flush_context(session)
