"""The eight measured signals and two outputs of the mill: names, units, counts, ranges and rates in one place.

Ranges are at least 1.5 times, rates at least 1.5 times what hours of simulated running ever showed (tests hold
this), so that a refusal by range or rate means a fault and not a rough strip.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldbus.uadp import BuiltinType, DataSetLayout, PublisherId, PublisherIdType


@dataclass(frozen=True, slots=True)
class Signal:
    """One network signal. ``scale`` is the physical value of one count; ``max_rate`` is per second."""

    name: str
    unit: str
    scale: float
    low: float
    high: float
    max_rate: float


# One standard deviation is 100 to 600 counts of every input, so that one range of int8 weights serves all.
INPUTS: tuple[Signal, ...] = (
    Signal("entry_thickness_dev", "mm", 0.0001, -0.25, 0.25, 8.0),
    Signal("exit_thickness_dev", "mm", 0.0001, -0.25, 0.25, 6.0),
    Signal("roll_force_dev", "MN", 0.001, -2.5, 2.5, 60.0),
    Signal("gap_position_dev", "mm", 0.0002, -0.9, 0.9, 12.0),
    Signal("entry_temperature_dev", "°C", 0.02, -60.0, 60.0, 1500.0),
    Signal("strip_speed_dev", "m/s", 0.0001, -0.3, 0.3, 8.0),
    Signal("entry_tension_dev", "kN", 0.01, -30.0, 30.0, 1000.0),
    Signal("last_gap_correction", "mm", 0.0002, -0.4, 0.4, 30.0),
)
# The same number for both, because the network ends in one Clip; the PLC allows 0.4 mm and 1 %.
OUTPUTS: tuple[Signal, ...] = (
    Signal("gap_correction", "mm", 0.0005, -0.35, 0.35, 16.0),
    Signal("speed_trim", "%", 0.001, -0.35, 0.35, 25.0),
)

PUBLISHER_ID = 1001
WRITER_GROUP_ID = 1
DATA_SET_WRITER_ID = 1


def dataset_layout(
    *,
    publisher_id: int = PUBLISHER_ID,
    writer_group_id: int = WRITER_GROUP_ID,
    data_set_writer_id: int = DATA_SET_WRITER_ID,
) -> DataSetLayout:
    """The DataSet on the wire: the inputs in their order, each a Variant of type Double in its physical unit."""
    return DataSetLayout(
        publisher=PublisherId(PublisherIdType.UINT16, publisher_id),
        writer_group_id=writer_group_id,
        data_set_writer_id=data_set_writer_id,
        fields=tuple((signal.name, BuiltinType.DOUBLE) for signal in INPUTS),
    )
