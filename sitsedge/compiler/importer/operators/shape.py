"""Operators that only move elements: each becomes one gather by constant indices, or nothing."""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.graph.float_graph import Concat, Shape
from sitsedge.compiler.importer.builder import Data, Quantised, broadcast, graph_shape, positions
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import RANK_MAX, refuse


def flatten(call: Call) -> Data:
    x = call.data()
    rank = len(x.shape)
    axis = call.integer("axis", 1)
    if not -rank <= axis <= rank:
        raise refuse("node-shape", f"axis {axis}", f"an axis of rank {rank}")
    at = axis % rank if axis < 0 else axis
    return call.builder.reshape(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:])))


def reshape(call: Call) -> Data:
    call.arity(2, 2)
    x = call.data()
    wanted = call.input_ints(1) or []
    return call.builder.reshape(x, resolved(x.shape, wanted, allow_zero=bool(call.integer("allowzero", 0))))


def resolved(shape: Shape, wanted: list[int], *, allow_zero: bool) -> Shape:
    """Target shape of Reshape: 0 copies a dimension, -1 is what remains."""
    made = [shape[i] if d == 0 and not allow_zero and i < len(shape) else d for i, d in enumerate(wanted)]
    rest = [i for i, d in enumerate(made) if d == -1]
    known = math.prod(d for d in made if d != -1)
    if len(rest) == 1 and known > 0:
        made[rest[0]] = math.prod(shape) // known
    if len(made) > RANK_MAX or any(d < 1 for d in made) or math.prod(made) != math.prod(shape):
        raise refuse(
            "node-shape",
            f"shape {wanted[:8]} for {list(shape)}",
            "a shape with as many elements",
            "export with a batch of 1 or a symbolic batch, and fixed sizes elsewhere",
        )
    return tuple(made)


def transpose(call: Call) -> Data:
    x = call.data()
    order = call.ints("perm")
    order = list(reversed(range(len(x.shape)))) if order is None else order
    if sorted(order) != list(range(len(x.shape))):
        raise refuse("attribute", f"perm {order[:8]}", f"an order of {len(x.shape)} axes")
    return call.builder.select(x, positions(x.shape).transpose(order))


def squeeze(call: Call) -> Data:
    x = call.data()
    given = call.ints_anywhere("axes", 1)
    axes = [i for i, d in enumerate(x.shape) if d == 1] if given is None else call.axes(given, len(x.shape))
    if any(x.shape[a] != 1 for a in axes):
        raise refuse("node-shape", f"axes {axes} of {list(x.shape)}", "axes of length 1")
    return call.builder.reshape(x, tuple(d for i, d in enumerate(x.shape) if i not in axes))


def unsqueeze(call: Call) -> Data:
    x = call.data()
    given = call.ints_anywhere("axes", 1) or []
    rank = len(x.shape) + len(given)
    axes = call.axes(given, rank)
    if rank > RANK_MAX:
        raise refuse("node-shape", f"rank {rank}", f"at most {RANK_MAX} dimensions")
    left = iter(x.shape)
    return call.builder.reshape(x, tuple(1 if i in axes else next(left) for i in range(rank)))


def slice_(call: Call) -> Data:
    x = call.data()
    if call.opset < 10:
        starts, ends, axes, steps = call.ints("starts"), call.ints("ends"), call.ints("axes"), None
    else:
        starts, ends, axes, steps = (call.input_ints(i) for i in range(1, 5))
    return call.builder.select(x, positions(x.shape)[slices(call, x.shape, starts, ends, axes, steps)])


def slices(
    call: Call,
    shape: Shape,
    starts: list[int] | None,
    ends: list[int] | None,
    axes: list[int] | None,
    steps: list[int] | None,
) -> tuple[slice, ...]:
    """numpy slices of an ONNX Slice, whose rules for clamping and negative numbers are numpy's but for one corner."""
    starts, ends = starts or [], ends or []
    where = list(range(len(starts))) if axes is None else [call.axis(a, len(shape)) for a in axes]
    by = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(where) == len(by) == len(set(where)) or 0 in by or len(where) > len(shape):
        raise refuse("node-shape", "starts, ends, axes or steps that do not fit", "one of each per axis, no step 0")
    made = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, where, by, strict=True):
        size = shape[axis]
        # Walking backwards past the front: -size-1 means "to the very first", which numpy writes as None.
        stop = None if step < 0 and end < -size else end
        made[axis] = slice(start, stop, step)
    return tuple(made)


def gather(call: Call) -> Data:
    call.arity(2, 2)
    x, indices = call.data(), call.constant(1)
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    size = x.shape[axis]
    inside = indices.dtype.kind == "i" and bool(np.all((indices >= -size) & (indices < size)))
    if not inside or len(x.shape) + indices.ndim - 1 > RANK_MAX:
        raise refuse(
            "node-shape", f"indices of {indices.dtype} {list(indices.shape)}", f"integers inside axis of {size}"
        )
    return call.builder.select(x, np.take(positions(x.shape), indices, axis=axis))


def split(call: Call) -> list[Data]:
    x = call.data()
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    sizes = call.ints_anywhere("split", 1)
    pieces = len(call.node.output)
    if sizes is None:
        if call.integer("num_outputs", pieces) != pieces or pieces > x.shape[axis]:
            raise refuse("node-shape", f"{pieces} outputs", "as many as num_outputs, at most one an element")
        each = -(-x.shape[axis] // pieces)
        sizes = [min(each, x.shape[axis] - each * i) for i in range(pieces)]
    if len(sizes) != pieces or min(sizes) < 1 or sum(sizes) != x.shape[axis]:
        raise refuse("node-shape", f"pieces of {sizes[:8]}", f"{pieces} pieces that sum to {x.shape[axis]}")
    ends = np.cumsum(sizes)
    whole = positions(x.shape)
    return [
        call.builder.select(x, np.take(whole, np.arange(end - size, end), axis=axis))
        for end, size in zip(ends, sizes, strict=True)
    ]


def expand(call: Call) -> Data:
    call.arity(2, 2)
    x = call.data()
    wanted = call.input_ints(1) or []
    if len(wanted) > RANK_MAX or any(d < 1 for d in wanted):
        raise refuse("node-shape", f"shape {wanted[:8]}", f"at most {RANK_MAX} dimensions of at least 1")
    return call.builder.expand(x, broadcast(x.shape, tuple(wanted)))


def depth_to_space(call: Call) -> Data:
    x = call.data()
    block, mode = call.integer("blocksize", 1), call.text("mode", "DCR")
    if len(x.shape) != 4 or not 1 <= block <= x.shape[1] or x.shape[1] % block**2 or mode not in ("DCR", "CRD"):
        raise refuse("node-shape", f"{list(x.shape)} in blocks of {block}", "channels divisible by the block's square")
    n, c, h, w = x.shape
    depth = c // block**2
    split_shape, order = (
        ((n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2))
        if mode == "DCR"
        else ((n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3))
    )
    moved = positions(x.shape).reshape(split_shape).transpose(order)
    return call.builder.select(x, moved.reshape(n, depth, h * block, w * block))


def space_to_depth(call: Call) -> Data:
    x = call.data()
    block = call.integer("blocksize", 1)
    if len(x.shape) != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block:
        raise refuse("node-shape", f"{list(x.shape)} in blocks of {block}", "height and width divisible by the block")
    n, c, h, w = x.shape
    moved = positions(x.shape).reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return call.builder.select(x, moved.reshape(n, c * block**2, h // block, w // block))


def concat(call: Call) -> Data:
    pieces = [call.data(i) for i in range(len(call.inputs))]
    if not pieces:
        raise refuse("node-shape", "no inputs", "at least one input")
    rank = len(pieces[0].shape)
    axis = call.axis(call.integer("axis", 0), rank)
    first = pieces[0].shape
    scales: set[Quantised | None] = {piece.quantised for piece in pieces}
    same = all(len(p.shape) == rank and p.shape[:axis] + p.shape[axis + 1 :] == first[:axis] + first[axis + 1 :]
               for p in pieces)  # fmt: skip
    if not same or len(scales) != 1:
        raise refuse("node-shape", f"shapes {[list(p.shape) for p in pieces[:4]]}", "equal shapes but for the axis")
    shape = (*first[:axis], sum(p.shape[axis] for p in pieces), *first[axis + 1 :])
    if len(pieces) == 1:
        return pieces[0]
    b = call.builder
    if rank > 1 and first[0] == 1 and axis > 0:
        names = tuple(piece.name for piece in pieces)
        node = Concat(name=b.fresh(), inputs=names, shape=graph_shape(shape), origin=b.origin, axis=axis - 1)
        return Data(b.add(node).name, shape, pieces[0].quantised)
    # Joined along the batch or without one: join flat pieces, then put the elements in order.
    flat = [b.reshape(piece, (piece.size,)) for piece in pieces]
    total = sum(piece.size for piece in pieces)
    starts = np.cumsum([0, *(piece.size for piece in pieces[:-1])])
    node = Concat(name=b.fresh(), inputs=tuple(p.name for p in flat), shape=(total,), origin=b.origin, axis=0)
    joined = Data(b.add(node).name, (total,), pieces[0].quantised)
    order = [positions(p.shape) + start for p, start in zip(pieces, starts, strict=True)]
    return b.select(joined, np.concatenate(order, axis=axis))


def same(call: Call) -> Data:
    """Identity, Dropout in evaluation, Cast between real types: nothing happens to the value."""
    return call.data()


def dropout(call: Call) -> Data:
    call.ignore("ratio", "seed", "is_test")
    training = call.optional(2) if call.opset >= 12 else None
    if training is not None and np.any(training):
        raise refuse("attribute", "training_mode", "evaluation", "export with model.eval()")
    return call.data()


def cast(call: Call) -> Data:
    target = call.integer("to", 1)
    call.ignore("saturate", "round_mode")
    if target not in (1, 10, 11, 16):
        raise refuse(
            "cast",
            f"a cast of computed values to ONNX data type {target}",
            "float16, bfloat16, float32 or float64",
            "export the whole model in float32",
        )
    return call.data()
