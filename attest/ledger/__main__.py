"""``python -m attest.ledger DIR``: the audit for a laptop that has nothing but this package, cryptography and py_ecc.

Prints the report as one JSON object. Exit codes: 0 nothing wrong, 1 findings, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Literal

from attest import jsontext
from attest.files import FileError, require, wrong_use
from attest.ledger.audit import verify


def main(argv: list[str] | None = None) -> int:
    """Audit one ledger folder; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attest.ledger", description="audit two ledgers with files alone")
    parser.add_argument("directory", type=Path, help="folder with device/, gate/ and anchors/")
    parser.add_argument("--proofs", default="all", help="all, none, or how many chosen at random")
    parser.add_argument("--engine", choices=("native", "py-ecc"), default="py-ecc", help="py-ecc needs no Rust core")
    arguments = parser.parse_args(argv)
    proofs: Literal["all", "none"] | int
    if arguments.proofs.isdigit():
        proofs = int(arguments.proofs)
    elif arguments.proofs in ("all", "none"):
        proofs = "all" if arguments.proofs == "all" else "none"
    else:
        parser.error(f"--proofs {arguments.proofs}: expected all, none, or a number")
    try:
        require(arguments.directory, folder=True)
    except FileError as error:
        print(jsontext.dumps(wrong_use(error), ensure_ascii=False))
        return 2
    report = verify(arguments.directory, proofs=proofs, engine=arguments.engine)
    print(jsontext.dumps(report.to_dict(), ensure_ascii=False))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
