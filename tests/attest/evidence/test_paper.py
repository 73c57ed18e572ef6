"""Files on paper: they come back as they were, and a typing error is found and named by its line."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.evidence import paper
from attest.evidence.errors import EnrolError

TITLE = "ENROL CHALLENGE"
DATA = bytes(range(200)) + b"the rest"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@given(st.binary(min_size=1, max_size=400))
def test_paper_gives_the_bytes_back(data: bytes) -> None:
    text = paper.to_paper(data, title=TITLE)
    assert paper.is_paper(text.encode())
    assert paper.from_paper(text, title=TITLE) == data
    assert all(len(line) < 72 for line in text.splitlines())


@given(st.text(max_size=300))
def test_any_text_is_bytes_or_one_typed_error(text: str) -> None:
    with pytest.raises(EnrolError):
        paper.from_paper(text, title=TITLE)


def test_people_may_type_it_their_way() -> None:
    lines = paper.to_paper(DATA, title=TITLE).splitlines()
    typed = [lines[0].lower()] + [
        f"  {line[:4]} {line[4:].lower().replace('o', '0').replace('i', '1')}" for line in lines[1:-1]
    ]
    assert paper.from_paper("\n\n".join([*typed, lines[-1]]), title=TITLE) == DATA


def test_one_wrong_letter_is_named_by_its_line() -> None:
    """Every position of every line; a check of ten bits lets one change in a thousand through, the last line none."""
    lines = paper.to_paper(DATA, title=TITLE).splitlines()
    chance, missed = random.Random(7), 0
    for number in range(1, len(lines) - 1):
        for at, letter in enumerate(lines[number]):
            if letter not in LETTERS or at < 4:
                continue
            other = chance.choice(LETTERS.replace(letter, ""))
            changed = [*lines]
            changed[number] = lines[number][:at] + other + lines[number][at + 1 :]
            with pytest.raises(EnrolError) as caught:
                paper.from_paper("\n".join(changed), title=TITLE)
            missed += f"line {number} " not in caught.value.found
    assert missed <= 2


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "lines-swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        "lines-swapped-and-renumbered": lambda lines: [
            lines[0], "01" + lines[2][2:], "02" + lines[1][2:], *lines[3:]
        ],
        "line-missing": lambda lines: [lines[0], *lines[2:]],
        "last-lines-missing": lambda lines: [*lines[:-2], lines[-1]],
        "line-twice": lambda lines: [*lines[:2], *lines[1:]],
        "no-begin": lambda lines: lines[1:],
        "no-end": lambda lines: lines[:-1],
        "other-title": lambda lines: [lines[0].replace("CHALLENGE", "ANSWER"), *lines[1:]],
        "other-size": lambda lines: [*lines[:-1], lines[-1].replace("208", "207")],
        "nothing": lambda lines: [],
        "bad-letters": lambda lines: [lines[0], lines[1][:6] + "!" + lines[1][7:], *lines[2:]],
        "too-long": lambda lines: [lines[0], *["x" * 1000] * 80, lines[-1]],
    }.items(),
)  # fmt: skip
def test_damaged_paper_is_refused(name: str, change: object) -> None:
    assert callable(change)
    with pytest.raises(EnrolError) as caught:
        paper.from_paper("\n".join(change(paper.to_paper(DATA, title=TITLE).splitlines())), title=TITLE)
    assert caught.value.code == "paper"


def test_paper_holds_small_files_only() -> None:
    for size in (0, paper.MAX_BYTES + 1):
        with pytest.raises(EnrolError, match=f"{size} bytes"):
            paper.to_paper(bytes(size), title=TITLE)
    whole = paper.to_paper(bytes(paper.MAX_BYTES), title=TITLE)
    assert paper.from_paper(whole, title=TITLE) == bytes(paper.MAX_BYTES)


@settings(max_examples=200)
@given(data=st.data())
def test_shuffled_characters_never_crash(data: st.DataObject) -> None:
    text = paper.to_paper(DATA, title=TITLE)
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :]
    with contextlib.suppress(EnrolError):
        assert paper.from_paper(changed, title=TITLE) == DATA
