"""Checkpoints in the C2SP formats."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.command import SessionKey
from attest.ledger import Checkpoint, LedgerError, parse_checkpoint, sign_checkpoint
from attest.ledger.note import key_id, verifier_key
from attest.ledger.witness import check_extension

KEY, OTHER = SessionKey.generate(), SessionKey.generate()
HONEST = Checkpoint("sits/log", 42, bytes(range(32)))
NOTE = sign_checkpoint(HONEST, KEY)


@given(
    st.text(st.sampled_from("abcXYZ019/.-_~"), min_size=1, max_size=128),
    st.integers(0, 2**63 - 1),
    st.binary(min_size=32, max_size=32),
    st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1), max_size=8),
)
def test_round_trip(origin: str, size: int, root: bytes, extensions: list[str]) -> None:
    checkpoint = Checkpoint(origin, size, root, tuple(extensions))
    signed = parse_checkpoint(sign_checkpoint(checkpoint, KEY))
    assert signed.checkpoint == checkpoint
    signed.verify(KEY.public)
    assert signed.signed_by([OTHER.public, KEY.public]) == KEY.public
    with pytest.raises(LedgerError, match="note-signature"):
        signed.verify(OTHER.public)


def test_the_text_is_that_of_the_format() -> None:
    text = NOTE.decode()
    body, _, tail = text.partition("\n\n")
    assert body == f"sits/log\n42\n{base64.b64encode(HONEST.root).decode()}"
    mark, name, blob = tail.rstrip("\n").split(" ")
    assert (mark, name) == ("\u2014", "sits/log")
    assert base64.b64decode(blob)[:4] == key_id("sits/log", KEY.public)
    expected = base64.b64encode(b"\x01" + KEY.public).decode()
    assert verifier_key("sits/log", KEY.public) == f"sits/log+{key_id('sits/log', KEY.public).hex()}+{expected}"


def test_the_verifier_key_of_the_go_sumdb_note_example() -> None:
    """The public example key of the signed-note format: its key id is part of its text."""
    name, hash_, blob = ["PeterNeumann", "c74f20a3", "ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"]
    assert key_id(name, base64.b64decode(blob)[1:]).hex() == hash_


BAD = {
    "no-utf8": b"\xff" + NOTE,
    "too-long": NOTE + b"x" * 9000,
    "control-character": NOTE.replace(b"42", b"4\r2"),
    "no-signature": NOTE.split(b"\n\n")[0] + b"\n",
    "no-final-newline": NOTE[:-1],
    "leading-zero": NOTE.replace(b"\n42\n", b"\n042\n"),
    "negative-size": NOTE.replace(b"\n42\n", b"\n-42\n"),
    "size-over-63-bits": NOTE.replace(b"\n42\n", b"\n9223372036854775808\n"),
    "short-root": NOTE.replace(b"\nAAEC", b"\n"),
    "root-not-canonical": NOTE.replace(b"Hh8=", b"Hh9="),
    "origin-with-plus": NOTE.replace(b"sits/log\n", b"sits+log\n", 1),
    "two-lines": b"sits/log\n42\n\n" + NOTE.split(b"\n\n")[1],
    "signature-without-dash": NOTE.replace("\u2014 ".encode(), b"- "),
    "signature-too-short": NOTE.split(b"\n\n")[0] + "\n\n\u2014 sits/log AAAA\n".encode(),
    "too-many-signatures": NOTE + NOTE.split(b"\n\n")[1] * 16,
    "empty-extension": NOTE.replace(b"\n\n", b"\n\n\n", 1),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_notes(name: str) -> None:
    with pytest.raises(LedgerError, match="note-format"):
        parse_checkpoint(BAD[name])


def test_a_changed_note_does_not_verify() -> None:
    for changed in (NOTE.replace(b"\n42\n", b"\n43\n"), NOTE.replace(b"AAEC", b"AAED")):
        with pytest.raises(LedgerError, match="note-signature"):
            parse_checkpoint(changed).verify(KEY.public)


def test_origins_that_cannot_be_key_names() -> None:
    for origin in ("", "a b", "a+b", "x" * 129):
        with pytest.raises(LedgerError, match="ledger-origin"):
            sign_checkpoint(Checkpoint(origin, 1, bytes(32)), KEY)


def test_a_witness_vouches_only_for_extensions() -> None:
    def check(note: bytes, seen: Checkpoint | None, proof: tuple[bytes, ...] = ()) -> Checkpoint:
        return check_extension(note, proof, origin="sits/log", public=KEY.public, seen=seen)

    assert check(NOTE, None) == HONEST
    assert check(NOTE, HONEST) == HONEST
    for seen in (Checkpoint("sits/log", 43, HONEST.root), Checkpoint("sits/log", 42, bytes(32))):
        with pytest.raises(LedgerError, match="ledger-cut"):
            check(NOTE, seen)
    with pytest.raises(LedgerError, match="ledger-cut"):
        check(NOTE, Checkpoint("sits/log", 41, bytes(32)), (bytes(32),))
    with pytest.raises(LedgerError, match="ledger-origin"):
        check(sign_checkpoint(Checkpoint("other", 42, bytes(32)), KEY), None)
    with pytest.raises(LedgerError, match="note-signature"):
        check(sign_checkpoint(HONEST, OTHER), None)
