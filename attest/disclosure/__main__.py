"""``python -m attest.disclosure DIR``: a sealed export checked where there is nothing but cryptography and py_ecc.

Prints the report as one JSON object. Exit codes: 0 nothing wrong, 1 findings, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attest import jsontext
from attest.disclosure.verify import Trust, verify_export
from attest.files import FileError, require, wrong_use

HASH_BYTES = 32


def _hash(text: str) -> bytes:
    value = bytes.fromhex(text)
    if len(value) != HASH_BYTES:
        raise ValueError(text)
    return value


def main(argv: list[str] | None = None) -> int:
    """Check one export; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attest.disclosure", description="check a sealed export")
    parser.add_argument("directory", type=Path, help="folder with manifest.json")
    parser.add_argument("--gate-key", type=_hash, help="the gate's raw Ed25519 key in hex, got by a way of your own")
    parser.add_argument("--vk-sha256", type=_hash, help="hash of the verification key, got by a way of your own")
    parser.add_argument("--opening", type=Path, action="append", default=[], help="an opened command; repeat it")
    parser.add_argument("--engine", choices=("native", "py-ecc"), default="py-ecc", help="py-ecc needs no Rust core")
    arguments = parser.parse_args(argv)
    try:
        require(arguments.directory, folder=True)
        for opening in arguments.opening:
            require(opening)
    except FileError as error:
        print(jsontext.dumps(wrong_use(error), ensure_ascii=False))
        return 2
    report = verify_export(
        arguments.directory,
        engine=arguments.engine,
        trust=Trust(arguments.gate_key, arguments.vk_sha256),
        openings=tuple(arguments.opening),
    )
    print(jsontext.dumps(report.to_dict(), ensure_ascii=False))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
