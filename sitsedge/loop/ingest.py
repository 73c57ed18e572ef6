"""From one datagram to one trusted sample: decode, order, freshness, quality."""

from __future__ import annotations

import time

from fieldbus.clock import FreshnessCheck, FreshnessPolicy, TimeQualityKind, time_quality
from fieldbus.net import ReceivedFrame
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetSample,
    LayoutReader,
    PublisherId,
    PublisherIdType,
    SequenceTracker,
    UadpError,
)
from sitsedge.config import Deployment
from sitsedge.config.deployment import UadpSource
from sitsedge.loop.budget import CycleRefused

#: What ``sits-bridge`` sends on loopback; nothing but the bridge and this loop reads it.
BRIDGE_PUBLISHER_ID = 1
BRIDGE_WRITER_GROUP_ID = 1
BRIDGE_DATA_SET_WRITER_ID = 1


def layout_of(deployment: Deployment) -> DataSetLayout:
    """The one DataSet this deployment accepts: every field a Double in the declared order."""
    source = deployment.source
    if isinstance(source, UadpSource):
        identity = (source.publisher_id, source.writer_group_id, source.data_set_writer_id)
    else:
        identity = (BRIDGE_PUBLISHER_ID, BRIDGE_WRITER_GROUP_ID, BRIDGE_DATA_SET_WRITER_ID)
    publisher, group, writer = identity
    fields = tuple((name, BuiltinType.DOUBLE) for name in deployment.field_names)
    return DataSetLayout(PublisherId(PublisherIdType.UINT16, publisher), group, writer, fields)


class Ingest:
    """Decoding and the clock check, with the state each needs between two frames."""

    def __init__(self, deployment: Deployment) -> None:
        timing = deployment.timing
        self._reader = LayoutReader(layout_of(deployment))
        self._tracker = SequenceTracker()
        self.quality: TimeQualityKind = time_quality().kind
        self._freshness = FreshnessCheck(
            FreshnessPolicy(
                age_ms_max=timing.source_age_ms_max,
                future_ms_max=timing.future_ms_max,
                time_quality_min=TimeQualityKind.from_label(timing.time_quality_min),
            ),
            time_quality=self.quality,
        )

    def refresh_quality(self) -> None:
        """Ask the kernel again how well the clock is disciplined; a few microseconds."""
        self.quality = time_quality().kind
        self._freshness.update_time_quality(self.quality)

    def decode(self, frame: ReceivedFrame) -> DataSetSample:
        """Raises :class:`CycleRefused` ``frame`` naming the codec's own code."""
        try:
            return self._reader.read(frame.data)
        except UadpError as error:
            raise CycleRefused("frame", found=f"{error.code}: {error.found}", expected=error.expected) from error

    def check_clock(self, sample: DataSetSample, frame: ReceivedFrame) -> None:
        """Raises :class:`CycleRefused` with the clock check's code, or ``bad-quality``."""
        verdict = self._tracker.update(sample.sequence)
        fault = self._freshness.check(
            verdict.extended,
            sample.t_source_ns,
            frame.t_rx_ns,
            time.time_ns(),
            now_mono_ns=time.monotonic_ns(),
        )
        if fault is not None:
            raise CycleRefused(fault.code, found=fault.found, expected=fault.expected)
        if not sample.good:
            raise CycleRefused("bad-quality", found=f"status 0x{sample.status:08x}", expected="good quality")
