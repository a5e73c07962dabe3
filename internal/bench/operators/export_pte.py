"""Exports a program of each operator, at two sizes, for make bench-operators.

    pip install torch==2.15.0 executorch==1.5.1
    python export_pte.py DIR [NAME...]

Nothing is delegated: every runtime computes the operator as it does between delegates. Inputs that are indices get
numbers below 256.
"""

import os
import sys
import warnings

import torch
import torch.nn.functional as F
from executorch.exir import EdgeCompileConfig, to_edge
from torch.export import export

ROWS = {"small": (16, 256), "large": (512, 1024)}
IMAGE = {"small": (1, 8, 28, 28), "large": (1, 64, 56, 56)}
TABLE = {"small": (256, 64), "large": (512, 1024)}
SQUARE = {"small": (64, 64), "large": (512, 512)}
CHANNEL = {"small": (16, 1), "large": (512, 1)}


def floats(shapes):
    return lambda size: torch.rand(shapes[size])


def longs(shapes):
    return lambda size: torch.zeros(shapes[size], dtype=torch.int64)


def bools(shapes):
    return lambda size: torch.zeros(shapes[size], dtype=torch.bool)


def half(n):
    return n // 2


rows, image, table, square = floats(ROWS), floats(IMAGE), floats(TABLE), floats(SQUARE)
ids = longs({"small": (256,), "large": (512,)})

OPERATORS = {name: (getattr(torch, name), rows) for name in """abs acos acosh asin asinh atan atanh ceil cos cosh erf exp
    expm1 floor log log10 log1p log2 neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh
    trunc""".split()}
OPERATORS |= {name: (getattr(F, name), rows) for name in """elu gelu hardsigmoid hardswish leaky_relu logsigmoid mish selu
    silu softplus softsign""".split()}
OPERATORS |= {name: (getattr(torch, name), rows, rows) for name in """add sub mul div maximum minimum fmod remainder
    floor_divide eq ne lt le gt ge""".split()}
OPERATORS |= {name: (getattr(torch, name), bools(ROWS), bools(ROWS)) for name in """logical_and logical_or logical_xor
    bitwise_and bitwise_or""".split()}
OPERATORS |= {
    "pow": (torch.pow, rows, rows),
    "pow_number": (lambda x: x**2.5, rows),
    "add_rows": (torch.add, rows, lambda size: torch.rand(ROWS[size][1])),
    "mul_columns": (torch.mul, rows, floats(CHANNEL)),
    "add_int64": (torch.add, longs(ROWS), longs(ROWS)),
    "mul_int64": (torch.mul, longs(ROWS), longs(ROWS)),
    "eq_int64": (lambda x: x == 7, longs(ROWS)),
    "clamp": (lambda x: x.clamp(0.25, 0.75), rows),
    "clamp_tensor": (torch.clamp, rows, floats(CHANNEL), floats(CHANNEL)),
    "logical_not": (torch.logical_not, bools(ROWS)),
    "where": (torch.where, bools(ROWS), rows, rows),
    "where_number": (lambda m, x: torch.where(m, x, 1.0), bools(ROWS), rows),
    "masked_fill": (lambda x, m: x.masked_fill(m, -1.0), rows, bools(ROWS)),
    "to_float": (lambda x: x.float(), longs(ROWS)),
    "to_int64": (lambda x: x.long(), rows),
    "bool_to_float": (lambda x: x.float(), bools(ROWS)),
    "softmax": (lambda x: x.softmax(-1), rows),
    "softmax_columns": (lambda x: x.softmax(0), rows),
    "log_softmax": (lambda x: x.log_softmax(-1), rows),
    "log_softmax_columns": (lambda x: x.log_softmax(0), rows),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), rows),
    "group_norm": (lambda x: F.group_norm(x, 4), image),
    "instance_norm": (F.instance_norm, image),
    # reduces
    "sum": (lambda x: x.sum(-1), rows),
    "sum_columns": (lambda x: x.sum(0), rows),
    "sum_int64": (lambda x: x.sum(-1), longs(ROWS)),
    "mean": (lambda x: x.mean(-1), rows),
    "mean_image": (lambda x: x.mean((2, 3)), image),
    "mean_all": (torch.mean, rows),
    "var": (lambda x: x.var(-1), rows),
    "amax": (lambda x: x.amax(-1), rows),
    "amax_columns": (lambda x: x.amax(0), rows),
    "amax_image": (lambda x: x.amax((2, 3)), image),
    "amin": (lambda x: x.amin(-1), rows),
    "argmax": (lambda x: x.argmax(-1), rows),
    "argmax_columns": (lambda x: x.argmax(0), rows),
    "argmax_all": (torch.argmax, rows),
    "argmin": (lambda x: x.argmin(-1), rows),
    "max_dim": (lambda x: x.max(-1), rows),
    "min_dim_columns": (lambda x: x.min(0), rows),
    "any": (lambda x: x.any(-1), bools(ROWS)),
    "any_columns": (lambda x: x.any(0), bools(ROWS)),
    "any_all": (torch.any, bools(ROWS)),
    "all": (lambda x: x.all(-1), bools(ROWS)),
    "all_float": (lambda x: x.all(-1), rows),
    "logsumexp": (lambda x: x.logsumexp(-1), rows),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), rows),
    "topk": (lambda x: x.topk(8), rows),
    "topk_half": (lambda x: x.topk(x.shape[-1] // 2), rows),
    "cumsum": (lambda x: x.cumsum(-1), rows),
    "cumsum_columns": (lambda x: x.cumsum(0), rows),
    "cumsum_int64": (lambda x: x.cumsum(-1), longs(ROWS)),
    # moves
    "reflect_pad": (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), image),
    "replicate_pad": (lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), image),
    "reflect_pad1d": (lambda x: F.pad(x[None], (8, 8), "reflect"), rows),
    "constant_pad": (lambda x: F.pad(x, (1, 1, 1, 1)), image),
    "constant_pad_int64": (lambda x: F.pad(x, (1, 1)), longs(ROWS)),
    "repeat": (lambda x: x.repeat(1, 1, 2, 2), image),
    "repeat_batch": (lambda x: x.repeat(4, 1, 1, 1), image),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), image),
    "tile_columns": (lambda x: x.repeat(1, 64), floats(CHANNEL)),
    "expand": (lambda x: x.expand(-1, 1024).clone(), floats(CHANNEL)),
    "expand_rows": (lambda x: x.expand(512, -1).clone(), lambda size: torch.rand(1, ROWS[size][1])),
    "roll": (lambda x: torch.roll(x, (3, 5), (2, 3)), image),
    "flip": (lambda x: x.flip(-1), image),
    "flip_rows": (lambda x: x.flip(2), image),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), image),
    "nearest3": (lambda x: F.interpolate(x, scale_factor=3), image),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), image),
    "unfold": (lambda x: x.unfold(-1, 16, 8), rows),
    "cat": (lambda x, y: torch.cat((x, y), 1), image, image),
    "cat_last": (lambda x, y: torch.cat((x, y), -1), rows, rows),
    "cat_int64": (lambda x, y: torch.cat((x, y), 0), longs(ROWS), longs(ROWS)),
    "stack": (lambda x, y: torch.stack((x, y), -1), rows, rows),
    "split": (lambda x: x.split(half(x.shape[-1]), -1), rows),
    "unbind": (lambda x: x[:4].unbind(0), rows),
    "slice": (lambda x: x[:, :, 2:-2, 2:-2].clone(), image),
    "slice_step": (lambda x: x[:, ::2].clone(), rows),
    "slice_rows_step": (lambda x: x[::2].clone(), rows),
    "select": (lambda x: x[:, 3].clone(), rows),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous(), image),
    "permute_back": (lambda x: x.reshape(1, x.shape[2], x.shape[3], x.shape[1]).permute(0, 3, 1, 2).contiguous(), image),
    "transpose": (lambda x: x.t().contiguous(), square),
    "transpose_int64": (lambda x: x.t().contiguous(), longs(SQUARE)),
    "view": (lambda x: x.view(-1).clone(), rows),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x, y[:, : half(x.shape[1])], 1, 0, half(x.shape[1])), rows, rows),
    "slice_scatter_step": (
        lambda x, y: torch.slice_scatter(x, y[:, : half(x.shape[1])], 1, 0, None, 2), rows, rows),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y[0], 0, 3), rows, rows),
    "index": (lambda x, i: x[i], table, ids),
    "index_columns": (lambda x, i: x[:, i], lambda size: torch.rand(ROWS[size]), ids),
    "index_pairs": (lambda x, i, j: x[i, j], lambda size: torch.rand(256, 256), ids, ids),
    "index_grid": (lambda x, i: x[:, i[:, None], i], lambda size: torch.rand(2, 256, 256), ids),
    "index_put": (lambda x, i, y: x.index_put((i,), y), table, ids, table),
    "index_put_add": (lambda x, i, y: x.index_put((i,), y, accumulate=True), table, ids,
                      lambda size: torch.rand(256 if size == "small" else 512, TABLE[size][1])),
    "index_select": (lambda x, i: x.index_select(0, i), table, ids),
    "index_select_columns": (lambda x, i: x.index_select(1, i), rows, ids),
    "embedding": (lambda w, i: F.embedding(i, w), table, ids),
    "gather": (lambda x, i: x.gather(1, i), rows, longs(ROWS)),
    "gather_rows": (lambda x, i: x.gather(0, i), table, longs(TABLE)),
    "arange": (lambda x: torch.arange(x.shape[0] * x.shape[1], dtype=torch.float32).view(x.shape) + x, rows),
    "full": (lambda x: torch.full_like(x, 2.0), rows),
    "tril": (lambda x: x.tril(), square),
    # pools and products
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), image),
    "avg_pool2d_ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), image),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[None], 3, 2), rows),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 7), image),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), image),
    "mm": (torch.mm, square, square),
    "bmm": (lambda x, y: torch.bmm(x[None], y[None]), square, square),
    "addmm": (lambda x, y: torch.addmm(x[0], x, y), square, square),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), image,
               lambda size: torch.rand(IMAGE[size][1], IMAGE[size][1], 3, 3)),
    "attention": (F.scaled_dot_product_attention, *[
        lambda size: torch.rand(1, 8, 32 if size == "small" else 256, 64)] * 3),
}


class Operator(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def program(function, inputs):
    edge = to_edge(export(Operator(function).eval(), inputs), compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return edge.to_executorch().buffer


def main():
    warnings.simplefilter("ignore")
    directory, names = sys.argv[1], sys.argv[2:] or OPERATORS
    os.makedirs(directory, exist_ok=True)
    for name in names:
        function, *inputs = OPERATORS[name]
        for size in ("small", "large"):
            try:
                content = program(function, tuple(make(size) for make in inputs))
            except Exception as error:
                print(f"{name}, {size}: {error}".splitlines()[0], file=sys.stderr)
                continue
            with open(os.path.join(directory, f"{name}.{size}.pte"), "wb") as f:
                f.write(content)


main()
