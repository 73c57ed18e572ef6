"""The last step: a sample that is neither too old nor from the future becomes one UADP datagram."""

from __future__ import annotations

from collections import Counter

from fieldbus.net import NetError, UdpSender
from fieldbus.uadp import LayoutWriter, UadpError
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.sample import Sample

STALE = "stale"
FUTURE = "future"
FUTURE_MS_MIN = 1000.0
"""What is less ahead of this machine's clock is sent, so that the loop refuses and records it (``future-frame``)."""

_NS_PER_MS = 1_000_000


class Forwarder:
    """Writes and sends samples; counts what it sent and what it did not.

    A sample of bad quality *is* sent: its bad fields carry their StatusCode and no value, so that the loop refuses
    and records the cycle instead of seeing nothing.
    """

    def __init__(self, config: BridgeConfig, sender: UdpSender) -> None:
        self._writer = LayoutWriter(config.layout())
        self._sender = sender
        self._age_ns_max = round(config.source_age_ms_max * _NS_PER_MS)
        self._future_ns_max = round(max(config.future_ms_max, FUTURE_MS_MIN) * _NS_PER_MS)
        self.forwarded = 0
        """Datagrams sent."""
        self.bad_quality = 0
        """Of these, those with a field that is not Good."""
        self.t_source_ns = 0
        """Source time of the last one."""
        self.dropped: Counter[str] = Counter()

    def forward(self, sample: Sample, now_ns: int) -> bool:
        """Send it unless it is ``stale`` or ``future`` at ``now_ns`` (CLOCK_REALTIME); whether it was sent."""
        age_ns = now_ns - sample.t_source_ns
        if age_ns > self._age_ns_max or -age_ns > self._future_ns_max:
            self.dropped[STALE if age_ns > 0 else FUTURE] += 1
            return False
        uncertain = max((field.status for field in sample.fields if field.status >> 30 == 1), default=0)
        try:
            # A Variant field is good or bad; a doubtful one makes the whole message doubtful, but never bad: of a
            # message of bad status no value counts.
            data = self._writer.write(
                t_source_ns=sample.t_source_ns,
                values=[field.value for field in sample.fields],
                status=uncertain,
                field_status=[field.status if field.status >> 30 >= 2 else 0 for field in sample.fields],
            )
            self._sender.send(data)
        except (NetError, UadpError) as error:
            self.dropped[error.code] += 1
            return False
        self.forwarded += 1
        self.bad_quality += 0 if sample.good else 1
        self.t_source_ns = sample.t_source_ns
        return True
