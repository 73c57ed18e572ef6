"""Times reading one 16-field UADP message: ``python -m benchmarks.uadp_path [--messages N] [--output json]``.

The rows are taken in turn, message by message, so that a busy machine changes all of them alike: the compiled layout
(LayoutReader on plain, signed and encrypted messages), the general decoder, and the writer. Every message is another
one: nothing is read twice. Wall time of one call by ``perf_counter_ns``, the garbage collector frozen as in the loop.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    FieldEncoding,
    KeyRing,
    LayoutReader,
    LayoutWriter,
    PublisherId,
    PublisherIdType,
    SecureReader,
    SecureWriter,
    SecurityMode,
    SecurityPolicy,
    decode,
)

FIELDS = 16
WARM = 200
LAYOUT = DataSetLayout(
    PublisherId(PublisherIdType.UINT16, 2234),
    100,
    62_541,
    tuple((f"signal{index}", BuiltinType.DOUBLE) for index in range(FIELDS)),
)
T_NS = 1_795_966_248_980_525_900


@dataclass(frozen=True, slots=True)
class Row:
    """One way to treat a message: ``make`` gives the next one, ``work`` is timed."""

    name: str
    make: Callable[[int], bytes]
    work: Callable[[bytes], object]


def keys(policy: SecurityPolicy) -> KeyRing:
    ring = KeyRing(policy)
    ring.install(1, [os.urandom(policy.key_data_bytes)])
    return ring


def reading(name: str, layout: DataSetLayout, security: tuple[SecurityPolicy, SecurityMode] | None = None) -> Row:
    ring = keys(security[0]) if security is not None else None
    writer = LayoutWriter(layout, security=SecureWriter(ring, security[1], 1) if ring and security else None)
    reader = LayoutReader(layout, security=SecureReader(ring, security[1]) if ring and security else None)
    return Row(name, lambda step: message(writer, step), reader.read)


def message(writer: LayoutWriter, step: int) -> bytes:
    return writer.write(t_source_ns=T_NS + step * 1_000_000, values=[step + index / 7 for index in range(FIELDS)])


def rows() -> list[Row]:
    plain, writer = LayoutWriter(LAYOUT), LayoutWriter(LAYOUT)
    raw = replace(LAYOUT, encoding=FieldEncoding.RAW)
    encrypt, sign = SecurityMode.SIGN_AND_ENCRYPT, SecurityMode.SIGN
    return [
        reading("compiled layout", LAYOUT),
        reading("compiled layout, RawData", raw),
        reading("compiled layout, signed", LAYOUT, (SecurityPolicy.AES256_CTR, sign)),
        reading("compiled layout, encrypted (AES-128)", LAYOUT, (SecurityPolicy.AES128_CTR, encrypt)),
        reading("compiled layout, encrypted (AES-256)", LAYOUT, (SecurityPolicy.AES256_CTR, encrypt)),
        Row("general decoder", lambda step: message(plain, step), decode),
        Row("writer", lambda step: step.to_bytes(4, "big"), lambda data: message(writer, int.from_bytes(data, "big"))),
    ]


def percentile(ordered: list[int], share: float) -> float:
    """Microseconds below which ``share`` of the calls took."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000


def measure(messages: int) -> list[dict[str, float | str]]:
    """One dict a row: P50, P99 and P99.9 in µs over ``messages`` calls."""
    table = rows()
    taken: list[list[int]] = [[] for _ in table]
    gc.collect()
    gc.freeze()
    for step in range(messages + WARM):
        for row, times in zip(table, taken, strict=True):
            data = row.make(step)
            start = time.perf_counter_ns()
            row.work(data)
            end = time.perf_counter_ns()
            if step >= WARM:
                times.append(end - start)
    found: list[dict[str, float | str]] = []
    for row, times in zip(table, taken, strict=True):
        times.sort()
        shares = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}
        found.append({"row": row.name} | {key: round(percentile(times, share), 2) for key, share in shares.items()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found = measure(arguments.messages)
    if arguments.output == "json":
        sys.stdout.write(json.dumps({"load": load, "cores": os.cpu_count(), "rows": found}) + "\n")
        return
    sys.stdout.write(f"{arguments.messages} messages of {FIELDS} fields, load {load:.1f} on {os.cpu_count()} cores\n")
    for item in found:
        sys.stdout.write(f"{item['row']:40} {item['p50_us']:8} {item['p99_us']:8} {item['p999_us']:8} us\n")


if __name__ == "__main__":
    main()
