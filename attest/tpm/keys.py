"""Primary keys in a TPM: found among the persistent ones, or made and kept without overwriting what is there.

A primary key derives from its hierarchy's seed and its template: evicted or lost, it is made again and is the same.
Its identity is its name, not its handle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tpm2_pytss.constants import ESYS_TR, TPM2_HC
from tpm2_pytss.types import TPM2B_PUBLIC, TPMT_PUBLIC

from attest.structures import RH_ENDORSEMENT, Ek, object_name, primary_qualified_name
from attest.tpm import nv
from attest.tpm.errors import TpmError
from attest.tpm.templates import EK, EK_CHAIN_NV, RH_OWNER, EkTemplate, Template

FIRST_HANDLE: Final = 0x81000001  # TCG TPM v2.0 Provisioning Guidance §7.8: the owner's range
LAST_HANDLE: Final = 0x8100FFFF
_HIERARCHIES: Final = {RH_OWNER: ESYS_TR.OWNER, RH_ENDORSEMENT: ESYS_TR.ENDORSEMENT}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A persistent key: its handle, TPMT_PUBLIC, and the ``ESYS_TR`` of the context that looked it up."""

    handle: int
    public: bytes
    tr: Any

    @property
    def name(self) -> bytes:
        """0x000b ‖ SHA-256(public)."""
        return object_name(self.public)


def keep_primary(esapi: Any, template: Template) -> Loaded:
    """The key of ``template``, found or made and persisted at the first free handle from 0x81000001."""
    persistent = nv.handles(esapi, TPM2_HC.PERSISTENT_FIRST)
    for number in persistent:
        if FIRST_HANDLE <= number <= LAST_HANDLE:
            handle = esapi.tr_from_tpmpublic(number)
            public, _, qualified = esapi.read_public(handle)
            data = public_bytes(public)
            if _is_of(template, data, bytes(qualified)):
                return Loaded(number, data, handle)
    free = next((n for n in range(FIRST_HANDLE, LAST_HANDLE + 1) if n not in persistent), None)
    if free is None:
        raise TpmError("tpm-handles", found="no free persistent handle", expected="one in 0x81000001..0x8100ffff")
    with primary(esapi, template) as (made, data):
        return Loaded(free, data, esapi.evict_control(ESYS_TR.OWNER, made, free))


@dataclass(frozen=True, slots=True)
class Created:
    """A key just made: ``ESYS_TR``, TPMT_PUBLIC, and the TPM's own word that it made it."""

    handle: Any
    public: bytes
    creation_hash: Any
    ticket: Any


@contextlib.contextmanager
def created(esapi: Any, template: Template) -> Iterator[Created]:
    """The key of ``template`` as a transient object, with the ticket of its creation."""
    public = TPM2B_PUBLIC(publicArea=unmarshal_public(template.public))
    handle, made, _, creation_hash, ticket = esapi.create_primary(
        None, public, primary_handle=_HIERARCHIES[template.hierarchy]
    )
    try:
        yield Created(handle, public_bytes(made), creation_hash, ticket)
    finally:
        esapi.flush_context(handle)


@contextlib.contextmanager
def primary(esapi: Any, template: Template) -> Iterator[tuple[Any, bytes]]:
    """The key of ``template`` as a transient object: ``ESYS_TR`` and TPMT_PUBLIC."""
    with created(esapi, template) as made:
        yield made.handle, made.public


@contextlib.contextmanager
def endorsement_key(esapi: Any, kind: EkTemplate) -> Iterator[tuple[Any, bytes]]:
    """An EK loaded: the persistent one if it has the template, else made, and kept if its handle is free."""
    taken = kind.handle in nv.handles(esapi, TPM2_HC.PERSISTENT_FIRST)
    if taken:
        handle = esapi.tr_from_tpmpublic(kind.handle)
        data = public_bytes(esapi.read_public(handle)[0])
        if data.startswith(kind.template.fixed):
            yield handle, data
            return
    with primary(esapi, kind.template) as (made, data):
        if not taken:
            esapi.tr_close(esapi.evict_control(ESYS_TR.OWNER, made, kind.handle))
        yield made, data


def certificates(esapi: Any, kind: EkTemplate) -> tuple[bytes, ...]:
    """The EK's certificate and the chain that lies in NV beside it (DER, leaf first); empty where there is none."""
    leaf = nv.read(esapi, kind.certificate_nv)
    chain = b"".join(nv.read(esapi, index) or b"" for index in EK_CHAIN_NV if nv.exists(esapi, index))
    return nv.split_der(leaf, chain) if leaf else ()


def read_ek(esapi: Any, kind: EkTemplate) -> Ek:
    """Public area and certificates."""
    with endorsement_key(esapi, kind) as (_, public):
        return Ek(public=public, certificates=certificates(esapi, kind))


@contextlib.contextmanager
def salting_key(esapi: Any, trusted: bytes | None) -> Iterator[Any]:
    """The EK that takes a session's salt: the one named ``trusted`` (else ``tpm-ek``), or the RSA EK.

    The library's own name for the handle counts: it belongs to the public area that the salt is encrypted to.
    """
    found = b""
    for kind in EK.values():
        if trusted is not None and trusted[:2] != kind.template.name_algorithm:
            continue
        with endorsement_key(esapi, kind) as (handle, _):
            found = bytes(esapi.tr_get_name(handle))
            if trusted is None or found == trusted:
                yield handle
                return
    raise TpmError(
        "tpm-ek",
        found=found.hex() or "a name of another algorithm",
        expected=f"{(trusted or b'').hex()}, the enrolled endorsement key",
        hint="another TPM, or something between this machine and its TPM: do not go on",
    )


def unmarshal_public(data: bytes) -> Any:
    """TPMT_PUBLIC as the library's object."""
    return TPMT_PUBLIC.unmarshal(data)[0]


def public_bytes(public: Any) -> bytes:
    """TPM2B_PUBLIC as TPMT_PUBLIC bytes."""
    return bytes(public.publicArea.marshal())


def _is_of(template: Template, public: bytes, qualified_name: bytes) -> bool:
    expected = primary_qualified_name(template.hierarchy, object_name(public))
    return public.startswith(template.fixed) and qualified_name == expected
