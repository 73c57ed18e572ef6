"""``python -m attest.archive DIR``: an archive checked on a laptop that has nothing but cryptography and py_ecc.

Prints the report as one JSON object. Exit codes: 0 nothing wrong, 1 findings, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attest import jsontext
from attest.archive.check import verify_archive
from attest.files import FileError, require, wrong_use


def main(argv: list[str] | None = None) -> int:
    """Check one archive; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attest.archive", description="check an archive with files alone")
    parser.add_argument("directory", type=Path, help="folder with archive.json")
    parser.add_argument("--ledger", type=Path, help="ledger.db it was made from")
    parser.add_argument("--engine", choices=("native", "py-ecc"), default="py-ecc", help="py-ecc needs no Rust core")
    arguments = parser.parse_args(argv)
    try:
        require(arguments.directory, folder=True)
        if arguments.ledger is not None:
            require(arguments.ledger)
    except FileError as error:
        print(jsontext.dumps(wrong_use(error), ensure_ascii=False))
        return 2
    report = verify_archive(arguments.directory, engine=arguments.engine, ledger=arguments.ledger)
    print(jsontext.dumps(report.to_dict(), ensure_ascii=False))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
