"""The loop's own way from a datagram to a trusted sample, for frames that tests make."""

from __future__ import annotations

import time
from pathlib import Path

from fieldbus.net import ReceivedFrame
from fieldbus.uadp import (
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    LayoutWriter,
    MessageKind,
    NetworkMessage,
    Variant,
    encode,
    ns_to_ticks,
)
from fieldbus.uadp.types import BuiltinType
from sitsedge.config import load_deployment
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.checks import InputCheck, SignalSpec
from sitsedge.loop.ingest import Ingest, layout_of

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rolling-mill" / "deployment.yaml"
FIELDS = 8
ZEROS = (0.0,) * FIELDS


def frame_of(data: bytes, t_rx_ns: int | None = None) -> ReceivedFrame:
    return ReceivedFrame(data, time.time_ns() if t_rx_ns is None else t_rx_ns, "kernel", 0, ("", 0))


class LoopRig:
    """An ``Ingest`` and an input check of the example deployment; ``age_ms_max`` wide, since tests share machines."""

    def __init__(self, *, first_sequence: int = 0, age_ms_max: float = 20_000.0) -> None:
        loaded = load_deployment(EXAMPLE)
        timing = loaded.timing.model_copy(update={"source_age_ms_max": age_ms_max})
        self.deployment = loaded.model_copy(update={"timing": timing})
        self.layout = layout_of(self.deployment)
        self.ingest = Ingest(self.deployment)
        self.writer = LayoutWriter(self.layout, first_sequence=first_sequence)
        self.inputs = InputCheck(
            [SignalSpec.physical(name, "", scale=0.01, low=-100, high=100, max_rate=None) for name in self.layout.names]
        )

    def take(self, data: bytes, t_rx_ns: int | None = None) -> str:
        """``ok``, or the code the cycle ends with and what was found."""
        frame = frame_of(data, t_rx_ns)
        try:
            sample = self.ingest.decode(frame)
            self.ingest.check_clock(sample, frame)
            self.inputs.check(sample.values, sample.t_source_ns)
        except CycleRefused as refused:
            return f"{refused.code}: {refused.found}"
        return "ok"

    def key_frame(self, values: tuple[float | None, ...] = ZEROS, **more: object) -> bytes:
        return self.writer.write(t_source_ns=time.time_ns(), values=values, **more)  # type: ignore[arg-type]

    def message(self, kind: MessageKind, sequence: int, changes: dict[int, float] | None = None) -> bytes:
        """A delta frame with ``changes`` by field index, or a keep-alive."""
        delta = kind is MessageKind.DELTA_FRAME
        body = DataSetMessage(
            kind,
            FieldEncoding.VARIANT,
            tuple(Variant(BuiltinType.DOUBLE, value) for value in (changes or {}).values()),
            tuple(changes or {}) if delta else None,
            sequence=sequence,
            timestamp=ns_to_ticks(time.time_ns()),
        )
        layout = self.layout
        group = GroupHeader(writer_group_id=layout.writer_group_id)
        return encode(NetworkMessage(layout.publisher, None, group, (layout.data_set_writer_id,), messages=(body,)))

    @property
    def missed_numbers(self) -> object:
        return self.ingest.measures()["missed_numbers"]
