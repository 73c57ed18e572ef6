"""Fuzzer of what the receive path and the clock read from outside: ``python tests/fieldbus/fuzz_net.py COUNT [SEED]``.

Mutates (flips, cuts, splices, lengths set to extremes) answers of a PTP daemon, netlink lists of disciplines, Ethernet
frames and recordings, and asserts: a value or the one typed error of each, and bounded output. Prints what it reached
and the memory of the process before and after.
"""

from __future__ import annotations

import io
import random
import resource
import struct
import sys
import tempfile
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fieldbus.capture import CaptureError
from fieldbus.clock.ptp_messages import PtpError, parse_response
from fieldbus.net import NetError, ReceivedFrame
from fieldbus.net.ethernet import ethernet_payload
from fieldbus.net.frames import STAMPS
from fieldbus.net.qdisc import parse_answer
from fieldbus.net.recording import LINK_ETHERNET, LINK_RAW_IP, RecordingWriter, Replay, datagram_packet
from tests.fieldbus.clock.ptp_support import BODIES, PORT, answer

EXTREMES = (b"\x00\x00", b"\xff\xff", b"\x7f\xff", b"\x00\x01", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")
ETHERNET = [
    bytes.fromhex("01005e000001020000000001" + tags + "b62c") + bytes(range(60))
    for tags in ("", "81000005", "88a8006481006007")
]


def netlink() -> bytes:
    """A list of two disciplines, one of them etf."""
    etf = struct.pack("@HHHH", 20, 2, 16, 1) + struct.pack("@iiI", 200_000, 11, 2)
    found = b""
    for kind, options in ((b"etf\0", etf), (b"taprio\0\0", b"")):
        body = struct.pack("@BxxxiIII", 0, 7, 1, 0, 0) + struct.pack("@HH", 4 + len(kind), 1) + kind + options
        found += struct.pack("@IHHII", 16 + len(body), 36, 2, 1, 0) + body
    return found + struct.pack("@IHHIIi", 20, 3, 2, 1, 0, 0)


def recordings() -> list[bytes]:
    """A recording of datagrams and one of Ethernet frames, with every quality of stamp and drops."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, link in (("ip", LINK_RAW_IP), ("eth", LINK_ETHERNET)):
            path = Path(folder) / name
            with RecordingWriter(path, link_type=link, interface="eth0") as writer:
                for n, data in enumerate(ETHERNET):
                    frame = ReceivedFrame(data, 10**18 + n, STAMPS[n], 3 * n, ("10.0.0.1", 5_000))
                    writer.write(frame, data if link == LINK_ETHERNET else datagram_packet(frame, ("10.0.0.2", 4840)))
            found.append(path.read_bytes())
    return found


def mutated(seed: bytes, other: bytes, random_: random.Random) -> bytes:
    """One to four changes of a seed."""
    data = bytearray(seed)
    for _ in range(random_.randint(1, 4)):
        if not data:
            break
        at = random_.randrange(len(data))
        match random_.randrange(5):
            case 0:
                data[at] ^= 1 << random_.randrange(8)
            case 1:
                data[at:] = b""
            case 2:
                data[at:at] = other[random_.randrange(len(other)) :][:64]
            case 3:
                extreme = random_.choice(EXTREMES)
                data[at : at + len(extreme)] = extreme
            case _:
                data[at] = random_.randrange(256)
    return bytes(data)


def ptp(data: bytes) -> str:
    try:
        return parse_response(data, port=PORT, domain=0).id.name
    except PtpError as error:
        return error.code


def disciplines(data: bytes) -> str:
    try:
        done, found = parse_answer(data, 7)
    except NetError as error:
        return error.code
    assert len(found) * 36 <= len(data)
    return f"{'whole' if done else 'part'}"


def ethernet(data: bytes) -> str:
    payload = ethernet_payload(data)
    if payload is None:
        return "none"
    assert len(payload.data) <= len(data) - 14
    assert payload.padding_max <= len(payload.data)
    assert len(payload.vlans) <= 2
    return f"{len(payload.vlans)} tags"


def replay(data: bytes) -> str:
    recorded = Replay(io.BytesIO(data))
    count = 0
    try:
        for frame in recorded:
            count += 1
            assert len(frame.data) <= len(data)
    except CaptureError as error:
        return error.code
    assert count * 28 <= len(data)
    return "cut" if recorded.cut else "whole"


SEEDS = {
    ptp: [answer(what, body) for what, body in BODIES.items()],
    disciplines: [netlink()],
    ethernet: ETHERNET,
    replay: recordings(),
}


def run(count: int, seed: int) -> Counter[str]:
    """Outcomes of ``count`` mutated inputs, the four readers in turn."""
    random_ = random.Random(seed)
    seen: Counter[str] = Counter()
    readers = list(SEEDS)
    for n in range(count):
        reader = readers[n % len(readers)]
        seeds = SEEDS[reader]
        outcome = reader(mutated(random_.choice(seeds), random_.choice(seeds), random_))
        seen[f"{reader.__name__}: {outcome}"] += 1
    return seen


def main() -> None:
    """Command line."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    run(10_000, 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for outcome, number in sorted(run(count, seed).items()):
        print(f"{number:>10,} {outcome}")  # noqa: T201
    print(f"{count:,} inputs, resident {before} -> {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} KiB")  # noqa: T201


if __name__ == "__main__":
    main()
