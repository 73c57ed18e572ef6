"""Appends and commits for ever, printing every acknowledged size; the test kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from attest.command import Alarm, GateKey, sign_record
from attest.ledger import Ledger


def main() -> None:
    path, key = Path(sys.argv[1]), GateKey.load(Path(sys.argv[2]))
    ledger = Ledger.open(path, origin="sits/crash", signer=key)
    number = ledger.size
    while True:
        for _ in range(number % 7 + 1):
            record = Alarm("gate", 1, number + 1, "code", "x" * (number % 300 + 1), "y", number)
            ledger.append("alarm", sign_record(record, key))
            number += 1
        if number % 5 == 0:
            ledger.checkpoint()
        else:
            ledger.commit()
        sys.stdout.write(f"{ledger.size} {ledger.root().hex()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
