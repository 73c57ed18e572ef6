"""Dense and Conv: sums of dot products for eight outputs at a time.

One 32-bit load fills all lanes with two int16 (or four int8) neighbours, and one dot product with weights adds their
products for four outputs at once: no horizontal sums. The offsets of the words one position reads are the same at every
position, so Dense is a Conv with one. Small nodes have their weights in the code, and run over the positions in a loop
where there are many; large ones read weights and offsets from tables.

Sums may leave int32 on the way when an input offset is folded into the start value: addition modulo 2^32 brings them
back, and the finished sum is proven inside.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sitsedge.compiler.backends.wasm.code import Code, Place
from sitsedge.compiler.backends.wasm.kernels import Requantise, Unit, Work, constants_kernel, halves
from sitsedge.compiler.backends.wasm.layout import BLOCK, Region, round_up
from sitsedge.compiler.backends.wasm.plan import Held, Plan
from sitsedge.compiler.backends.wasm.tables import tables_kernel
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.seven_bits import fits_int8
from sitsedge.compiler.reference import Ints


def emit_weighted(plan: Plan, node: Dense | Conv, code: Code, target: Region) -> None:
    """Emit the node's instructions; its result goes to ``target``."""
    work = _work(plan, node, target)
    dots = sum(int(np.count_nonzero(halves(unit))) for unit in work.units)
    positions = work.counts[0] * work.counts[1]
    room = plan.dots_left
    unrolled = positions == 1 or dots * positions <= min(plan.unroll.position_dots, room)
    if dots <= room:
        plan.dots_left -= dots * (positions if unrolled else 1)
        kernel = constants_kernel(plan, code, work)
    else:
        kernel = tables_kernel(plan, code, work)
    _positions(code, work, kernel, unrolled=unrolled)


def _positions(code: Code, work: Work, kernel: Callable[[Place, Place], None], *, unrolled: bool) -> None:
    target = work.target

    def row(source: Place, written: Place) -> None:
        steps = ((source, work.source_steps[1]), (written, target.pixel))
        code.repeat(work.counts[1], steps, kernel, unrolled=unrolled)

    steps = ((Place(work.source), work.source_steps[0]), (Place(target.base), target.row))
    code.repeat(work.counts[0], steps, row, unrolled=unrolled)


def _work(plan: Plan, node: Dense | Conv, target: Region) -> Work:
    held = plan.held[node.source]
    packed = held.packed if held.packed is not None and fits_int8(node) else None
    if packed is not None:
        plan.relaxed_nodes.append(node.name)
    lanes = 2 if packed is None else 4
    shrink = 1 if packed is None else 2

    def moved(address: Ints) -> Ints:
        """Where an address of the region is in what this node reads."""
        return address if packed is None else packed.start + (address - held.region.start) // 2

    if isinstance(node, Dense):
        units = _dense_units(node, moved(held.addresses), lanes)
        source, steps = 0, (0, 0)
    else:
        region = held.region
        row, pixel = region.row // shrink, region.pixel // shrink
        units = _conv_units(node, row, pixel, lanes)
        source = int(moved(np.int64(region.base))) - node.pads[0] * row - node.pads[1] * pixel  # type: ignore[arg-type]
        steps = (node.strides[0] * row, node.strides[1] * pixel)
    after = _requantise(plan, node, 0 if packed is None else _moved_sums(node, held, packed.offsets))
    return Work(units, after, lanes, source, steps, (target.height, target.across), target)


def _dense_units(node: Dense, addresses: Ints, lanes: int) -> list[Unit]:
    words, which = np.unique(addresses // 4, return_inverse=True)
    outputs = round_up(node.channels, BLOCK)
    weights = np.zeros((outputs, len(words), lanes), np.int64)
    weights[: node.channels, which.reshape(-1), addresses % 4 * lanes // 4] = node.columns()
    by_unit = weights.reshape(-1, BLOCK, len(words), lanes).transpose(0, 2, 1, 3)
    return [Unit(words * 4, unit) for unit in by_unit]


def _conv_units(node: Conv, row: int, pixel: int, lanes: int) -> list[Unit]:
    """Words in the order of rows, columns, channels; a unit reads the channels of its own groups only."""
    columns = node.columns().transpose(0, 2, 3, 1)
    outputs, high, wide, inputs = columns.shape
    per_group = outputs // node.groups
    taps = np.arange(high)[:, None] * node.dilations[0] * row + np.arange(wide) * node.dilations[1] * pixel
    units = []
    for first in range(0, outputs, BLOCK):
        last = min(first + BLOCK, outputs)
        word = first // per_group * inputs // lanes
        end = -(-((last - 1) // per_group + 1) * inputs // lanes)
        weights = np.zeros((BLOCK, high, wide, (end - word) * lanes), np.int64)
        for output in range(first, last):
            at = output // per_group * inputs - word * lanes
            weights[output - first, :, :, at : at + inputs] = columns[output]
        offsets = taps[:, :, None] + 4 * np.arange(word, end)
        units.append(Unit(offsets.reshape(-1), weights.reshape(BLOCK, -1, lanes).transpose(1, 0, 2)))
    return units


def _moved_sums(node: Dense | Conv, held: Held, offsets: Ints) -> Ints:
    """Per output, what its sum lacks when every source is read less its channel's offset."""
    columns = node.columns()
    if isinstance(node, Dense):
        region = held.region
        channels = (held.addresses - region.base) % region.pixel // region.width
        return np.asarray(columns @ offsets[channels])
    by_channel = columns.reshape(*columns.shape[:2], -1).sum(axis=2)
    groups = np.repeat(offsets.reshape(node.groups, -1), node.channels // node.groups, axis=0)
    return np.asarray((by_channel * groups).sum(axis=1))


def _requantise(plan: Plan, node: Dense | Conv, moved: Ints | int) -> Requantise:
    bound = plan.bounds[node.name].accumulator
    assert bound is not None, "intervals bound every sum"
    wide = (slice(None), *(None,) * (bound.acc_low.ndim - 1))
    low, high = (
        (acc + node.rounding[wide]) >> node.shift[wide] for acc in (bound.acc_low, bound.acc_high)
    )  # fmt: skip
    clamps = (bool(np.any(low < node.low[wide])), bool(np.any(high > node.high[wide])))
    start = node.bias + node.rounding + moved
    spare = round_up(node.channels, BLOCK) - node.channels

    def padded(values: Ints) -> Ints:
        return np.pad(values, (0, spare), mode="edge")

    wrapped = (start + (1 << 31)) % (1 << 32) - (1 << 31)
    return Requantise(padded(wrapped), padded(node.shift), padded(node.low), padded(node.high), clamps)
