"""TPM structures as bytes: golden templates, round trips, one refusal for each rule."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import structures
from attest.structures import StructureError, tpm2b, u16, u32
from tests.attest.evidence.forge import AK, Quoted, ak_public, tpm_sign

RSA = structures.rsa_template(modulus=b"\x80" + bytes(255))
ECC = ak_public(AK)
QUOTE = Quoted(extra=b"extra", pcr_digest=bytes(32)).encode()
SIGNATURE = tpm_sign(AK, QUOTE)
PARSERS = {
    "rsa": (structures.parse_rsa_public, RSA),
    "ecc": (structures.parse_ecc_public, ECC),
    "quote": (structures.parse_quote, QUOTE),
    "signature": (structures.parse_ecdsa_signature, SIGNATURE),
}


@pytest.mark.parametrize("name", PARSERS)
def test_every_truncation_and_extension_is_refused(name: str) -> None:
    parse, data = PARSERS[name]
    parse(data)
    for cut in range(len(data)):
        with pytest.raises(StructureError):
            parse(data[:cut])
    with pytest.raises(StructureError):
        parse(data + b"\0")
    with pytest.raises(StructureError):
        parse(data + bytes(structures.MAX_STRUCTURE_BYTES))


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_mutations_give_a_value_or_one_error(name: str, data: st.DataObject) -> None:
    parse, original = PARSERS[name]
    mutated = bytearray(original)
    mutated[data.draw(st.integers(0, len(mutated) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(StructureError):
        assert parse(bytes(mutated)) != parse(original) or name == "quote"  # the magic is judged elsewhere


def _replace(data: bytes, at: int, part: bytes) -> bytes:
    return data[:at] + part + data[at + len(part) :]


@pytest.mark.parametrize(
    ("parse", "data"),
    [
        (structures.parse_rsa_public, ECC),
        (structures.parse_ecc_public, RSA),
        (structures.parse_rsa_public, _replace(RSA, 2, u16(0x0004))),
        (structures.parse_rsa_public, structures.rsa_template()),
        (structures.parse_rsa_public, structures.rsa_template(modulus=b"\x80" + bytes(127))),
        (structures.parse_ecc_public, _replace(ECC, 2, u16(0x000C))),
        (structures.parse_ecc_public, ECC.replace(u16(structures.CURVE_P256) + u16(0x10), u16(4) + u16(0x10))),
        (structures.parse_ecc_public, ECC.replace(u16(structures.ALG_ECDSA), u16(0x0014), 1)),
        (structures.parse_ecdsa_signature, u16(0x0014) + SIGNATURE[2:]),
        (structures.parse_ecdsa_signature, u16(0x0018) + u16(4) + tpm2b(b"\1") + tpm2b(b"\1")),
        (structures.parse_ecdsa_signature, u16(0x0018) + u16(0xB) + tpm2b(bytes(33)) + tpm2b(b"\1")),
    ],
)
def test_other_algorithms_are_refused(parse: object, data: bytes) -> None:
    assert callable(parse)
    with pytest.raises(StructureError) as caught:
        parse(data)
    assert caught.value.code == "tpm-structure"


def test_short_coordinates_are_padded() -> None:
    parsed = structures.parse_ecc_public(structures.ak_template(x=b"\1", y=b"\2"))
    assert parsed.point == b"\4" + bytes(31) + b"\1" + bytes(31) + b"\2"


def test_default_exponent() -> None:
    assert structures.parse_rsa_public(RSA).exponent == 65537


@given(st.sets(st.integers(0, 23)))
def test_pcr_selection_reads_back(pcrs: set[int]) -> None:
    quoted = Quoted(select=structures.pcr_selection(pcrs), pcr_digest=bytes(32)).encode()
    assert structures.parse_quote(quoted).pcrs == tuple(sorted(pcrs))


@pytest.mark.parametrize("pcr", [-1, 24])
def test_pcr_outside_the_bank(pcr: int) -> None:
    with pytest.raises(StructureError):
        structures.pcr_selection([pcr])


def test_names() -> None:
    name = structures.object_name(ECC)
    assert name[:2] == b"\0\x0b"
    assert structures.primary_qualified_name(structures.RH_ENDORSEMENT, name) != name
    assert structures.quote_magic(b"abc") == 0
    assert u32(1) == b"\0\0\0\1"
