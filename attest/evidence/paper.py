"""Any small file as lines that a person can print, read out and type in, each line with its own check.

    -----BEGIN SITS ENROL CHALLENGE-----
    01  MFRGGZDF MZTWQ2LK NNWG23TP OBYXE43U OV3HO6DZ  K7
    02  PI
    -----END SITS ENROL CHALLENGE 27 BYTES 5RUO-----

Base32 (RFC 4648 §6, no padding), 25 bytes a line. The two check characters are ten bits of SHA-256 over title, line
number and bytes, so that swapped lines are noticed as well as wrong letters; the last line has the size and 20 bits
over everything. It is for typing errors: what the file says is authenticated by other means.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from attest.evidence.errors import EnrolError

LINE_BYTES: Final = 25
MAX_BYTES: Final = 16 * 1024  # some 650 lines: more than anybody types
MAX_TEXT: Final = 64 * 1024
_GROUP: Final = 8
_CHECK_CHARS: Final = 2
_END_CHARS: Final = 4
_BEGIN: Final = re.compile(r"-----BEGIN SITS ([A-Z ]{1,40})-----")
_END: Final = re.compile(r"-----END SITS ([A-Z ]{1,40}?) (\d{1,5}) BYTES ([A-Z2-7]{4})-----")
_LINE: Final = re.compile(r"(\d{1,3})\s+([A-Z2-7 \t]+?)\s+([A-Z2-7]{2})")
# digits that Base32 leaves out because people read them as letters
_READ_AS: Final = str.maketrans({"0": "O", "1": "I", "8": "B"})


def is_paper(data: bytes) -> bool:
    """Whether the file is in this form rather than binary."""
    return data.lstrip()[:10] == b"-----BEGIN"


def to_paper(data: bytes, *, title: str) -> str:
    """``title`` in capitals, such as ``ENROL CHALLENGE``. Raises ``EnrolError`` (``paper``) above ``MAX_BYTES``."""
    if not data or len(data) > MAX_BYTES:
        raise _bad(f"{len(data)} bytes", f"1..{MAX_BYTES}")
    lines = [f"-----BEGIN SITS {title}-----"]
    for number, start in enumerate(range(0, len(data), LINE_BYTES), start=1):
        chunk = data[start : start + LINE_BYTES]
        text = _base32(chunk)
        groups = " ".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))
        lines.append(f"{number:02}  {groups}  {_check(title, number, chunk)}")
    lines.append(f"-----END SITS {title} {len(data)} BYTES {_seal(title, data)}-----")
    return "\n".join(lines) + "\n"


def from_paper(text: str, *, title: str) -> bytes:
    """The bytes again; lower case, other spacing and 0, 1, 8 for O, I, B are read as meant.

    Raises ``EnrolError`` (``paper``) naming the line that is wrong.
    """
    if len(text) > MAX_TEXT:
        raise _bad(f"{len(text)} characters", f"at most {MAX_TEXT}")
    rows = [row.strip().upper() for row in text.splitlines() if row.strip()]
    begin = _BEGIN.fullmatch(rows[0]) if rows else None
    if begin is None or begin.group(1) != title:
        raise _bad("another first line", f"-----BEGIN SITS {title}-----")
    end = _END.fullmatch(rows[-1])
    if end is None or end.group(1) != title:
        raise _bad("another last line", f"-----END SITS {title} … BYTES …-----")
    data = b"".join(_line(row, title, number) for number, row in enumerate(rows[1:-1], start=1))
    if len(data) != int(end.group(2)) or _seal(title, data) != end.group(3):
        raise _bad(f"{len(data)} bytes that do not match the last line", f"{end.group(2)} bytes", "lines are missing")
    if to_paper(data, title=title).splitlines()[1:-1] != [_tidy(row) for row in rows[1:-1]]:
        raise _bad("lines of another length", f"{LINE_BYTES} bytes a line")
    return data


def _line(row: str, title: str, number: int) -> bytes:
    found = _LINE.fullmatch(_letters(row))
    if found is None or int(found.group(1)) != number:
        raise _bad(f"line {number}: {row[:12]!r}…", f"line {number:02}, groups of letters, two check letters")
    letters = re.sub(r"\s", "", found.group(2))
    try:
        chunk = base64.b32decode(letters + "=" * (-len(letters) % _GROUP))
    except ValueError as error:
        raise _bad(f"line {number} with {len(letters)} letters", "as many as printed") from error
    if _base32(chunk) != letters or _check(title, number, chunk) != found.group(3):
        raise _bad(
            f"line {number} with another check", "the line as printed", "a letter is wrong or a group is missing"
        )
    return chunk


def _letters(row: str) -> str:
    """The row with its number kept and the look-alike digits of the rest read as letters."""
    number, _, rest = row.partition(" ")
    return f"{number} {rest.translate(_READ_AS)}"


def _tidy(row: str) -> str:
    number, *rest = _letters(row).split()
    *groups, check = rest
    letters = "".join(groups)
    spaced = " ".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))
    return f"{int(number):02}  {spaced}  {check}"


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=")


def _check(title: str, number: int, chunk: bytes) -> str:
    return _base32(hashlib.sha256(f"{title} {number} ".encode() + chunk).digest())[:_CHECK_CHARS]


def _seal(title: str, data: bytes) -> str:
    return _base32(hashlib.sha256(f"{title} ".encode() + data).digest())[:_END_CHARS]


def _bad(found: str, expected: str, hint: str = "compare the printed lines letter by letter") -> EnrolError:
    return EnrolError("paper", found=found, expected=expected, hint=hint)
