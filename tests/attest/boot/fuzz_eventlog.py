"""Fuzzer of boot logs and IMA's lists: ``python tests/attest/boot/fuzz_eventlog.py SECONDS [SEED] [FOLDER]``.

Mutates recorded boots (FOLDER, default: the recordings beside the checkout) and logs made here with all formats and
banks, and asserts what the tests assert: a value or one typed error; a changed log verifies only if every digest, PCR
and order in it is as recorded, so that only words differ which no digest covers. Prints what it reached.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from attest.boot import banks, eventlog, ima, logformat
from attest.boot.errors import EventLogError, ImaError, PcrFileError
from attest.boot.explain import explain, of_log
from attest.boot.replay import PcrValues, parse_pcrs, replay
from tests.attest.boot import captures, made

RECORDINGS = Path(__file__).resolve().parents[4] / "shared" / "fixtures"
SECONDS_MAX_EACH = 2.0  # of CPU; far above the slowest real log (0.05 s)
HANGING_S = 120.0  # of wall time in one mutation: a traceback and the end


@dataclass(frozen=True, slots=True)
class Seed:
    """A boot whose mutations are tried."""

    log: bytes
    values: PcrValues
    ima: bytes


def seeds(folder: Path) -> list[Seed]:
    """Recorded boots where they are, and made ones of every format."""
    found = [Seed(log, {bank: eventlog.view(logformat.read(log), bank).replay() for bank in logformat.read(log).banks},
                  made.ima_list()) for log in made.logs().values()]  # fmt: skip
    if (folder / "boot").is_dir():
        recorded = [captures.load(folder, name) for name in captures.NAMES]
        found += [Seed(capture.log, parse_pcrs(capture.pcrs), capture.ima) for capture in recorded]
    return found


def measured(log: bytes) -> list[tuple[int, list[tuple[bytes, ...]]]]:
    """What the PCRs vouch for: by PCR, the digests in order."""
    records = [record for record in logformat.read(log).records if record.extends]
    return [(pcr, [r.digests for r in records if r.pcr == pcr]) for pcr in sorted({r.pcr for r in records})]


def unvouched(before: bytes, after: bytes) -> bool:
    """Whether two logs measure the same, so that no replay can tell them apart."""
    return measured(before) == measured(after)


def try_log(seed: Seed, data: bytes) -> str:
    """Replay a changed log; AssertionError is a finding."""
    try:
        result = replay(data, pcrs=seed.values)
    except (EventLogError, PcrFileError) as error:
        return error.code
    full = logformat.read(data)
    if banks.SHA256 in full.banks:
        view = eventlog.view(full, banks.SHA256)
        assert eventlog.parse(view.encode()) == view, data.hex()
        explain(of_log(view), of_log(view))
    if not result.ok:
        return "mismatch"
    assert unvouched(seed.log, data), data.hex()
    return "same" if data == seed.log else "words only"


def try_ima(seed: Seed, data: bytes) -> str:
    """Match a changed list; only what comes after the vouched-for entries may differ."""
    try:
        log = ima.parse(data)
    except ImaError as error:
        return error.code
    value = seed.values.get(banks.SHA256, {}).get(ima.PCR_IMA)
    match = None if value is None else ima.match(log, value)
    if match is None or match.entries == 0:
        return "ima mismatch"
    assert log.entries[: match.entries] == ima.parse(seed.ima).entries[: match.entries], data.hex()
    return "ima prefix"


def attempt(pool: list[Seed], rng: random.Random) -> str:
    """One mutation of one boot; what it led to."""
    chosen = rng.choice(pool)
    action = rng.randrange(8)
    if action == 0:
        return try_ima(chosen, captures.mutate(chosen.ima, rng))
    if action == 1 and logformat.read(chosen.log).crypto_agile:
        swapped = captures.reorder(chosen.log, rng)
        word = "not reordered" if swapped is None else try_log(chosen, swapped)
        assert word != "words only", chosen.log.hex()
        return word
    return try_log(chosen, captures.mutate(chosen.log, rng))


def fuzz(seconds: float, seed: int, folder: Path) -> Counter[str]:
    """Mutations for so long; returns what they led to."""
    rng = random.Random(seed)
    pool = seeds(folder)
    reached: Counter[str] = Counter()
    end = time.monotonic() + seconds
    slowest = 0.0
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(HANGING_S, exit=True)
        begin = time.thread_time()
        reached[attempt(pool, rng)] += 1
        slowest = max(slowest, time.thread_time() - begin)
        assert slowest < SECONDS_MAX_EACH
    faulthandler.cancel_dump_traceback_later()
    reached["slowest, microseconds of CPU"] = int(slowest * 1e6)
    return reached


if __name__ == "__main__":
    where = Path(sys.argv[3]) if len(sys.argv) > 3 else RECORDINGS
    for code, number in sorted(fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, where).items()):
        sys.stdout.write(f"{number:9} {code}\n")
