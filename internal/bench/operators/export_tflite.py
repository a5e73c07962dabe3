"""Exports a .tflite of each operator, at two sizes, for make bench-operators.

    pip install tensorflow-cpu==2.21.0
    python export_tflite.py DIR [NAME...]

Inputs that are indices get numbers below 256.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

ROWS = {"small": (16, 256), "large": (512, 1024)}
IMAGE = {"small": (1, 28, 28, 8), "large": (1, 56, 56, 64)}
TABLE = {"small": (256, 64), "large": (512, 1024)}
SQUARE = {"small": (64, 64), "large": (512, 512)}
COLUMN = {"small": (16, 1), "large": (512, 1)}
IDS = {"small": (256,), "large": (512,)}
SIGNAL = {"small": (4, 256), "large": (96, 2048)}


def spec(shapes, dtype=tf.float32):
    return lambda size: tf.TensorSpec(shapes[size], dtype)


rows, image, table, square = spec(ROWS), spec(IMAGE), spec(TABLE), spec(SQUARE)
ids, bools, ints = spec(IDS, tf.int32), spec(ROWS, tf.bool), spec(ROWS, tf.int32)

OPERATORS = {name: (getattr(tf.math, name), rows) for name in """abs ceil cos exp floor log negative round rsqrt sigmoid
    sign sin sqrt square tanh""".split()}
OPERATORS |= {name: (getattr(tf.nn, name), rows) for name in """elu gelu leaky_relu relu relu6 softmax log_softmax
    softplus""".split()}
OPERATORS |= {name: (getattr(tf.math, name), rows, rows) for name in """add subtract multiply divide maximum minimum
    floormod squared_difference pow atan2 equal not_equal less less_equal greater greater_equal""".split()}
OPERATORS |= {name: (getattr(tf.math, name), bools, bools) for name in ("logical_and", "logical_or")}
OPERATORS |= {
    "floordiv": (lambda x, y: tf.math.floordiv(x, y + 1.0), rows, rows),
    "add_int32": (tf.add, ints, ints),
    "multiply_int32": (tf.multiply, ints, ints),
    "equal_int32": (tf.equal, ints, ints),
    "logical_not": (tf.logical_not, bools),
    "select": (tf.where, bools, rows, rows),
    "to_float": (lambda x: tf.cast(x, tf.float32), ints),
    "to_int32": (lambda x: tf.cast(x, tf.int32), rows),
    "bool_to_float": (lambda x: tf.cast(x, tf.float32), bools),
    "l2_normalize": (lambda x: tf.math.l2_normalize(x, -1), rows),
    "local_response": (tf.nn.lrn, image),
    # reduces
    "sum": (lambda x: tf.reduce_sum(x, -1), rows),
    "sum_columns": (lambda x: tf.reduce_sum(x, 0), rows),
    "sum_int32": (lambda x: tf.reduce_sum(x, -1), ints),
    "mean": (lambda x: tf.reduce_mean(x, -1), rows),
    "mean_image": (lambda x: tf.reduce_mean(x, (1, 2)), image),
    "max": (lambda x: tf.reduce_max(x, -1), rows),
    "max_columns": (lambda x: tf.reduce_max(x, 0), rows),
    "min": (lambda x: tf.reduce_min(x, -1), rows),
    "prod": (lambda x: tf.reduce_prod(x, -1), rows),
    "any": (lambda x: tf.reduce_any(x, -1), bools),
    "all": (lambda x: tf.reduce_all(x, -1), bools),
    "any_columns": (lambda x: tf.reduce_any(x, 0), bools),
    "argmax": (lambda x: tf.argmax(x, -1), rows),
    "argmax_columns": (lambda x: tf.argmax(x, 0), rows),
    "argmin": (lambda x: tf.argmin(x, -1), rows),
    "topk": (lambda x: tf.math.top_k(x, 8), rows),
    "topk_half": (lambda x: tf.math.top_k(x, x.shape[-1] // 2), rows),
    "cumsum": (lambda x: tf.cumsum(x, -1), rows),
    "cumsum_columns": (lambda x: tf.cumsum(x, 0), rows),
    # moves
    "reflect_pad": (lambda x: tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "REFLECT"), image),
    "symmetric_pad": (lambda x: tf.pad(x, ((8, 8), (8, 8)), "SYMMETRIC"), rows),
    "pad": (lambda x: tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), image),
    "pad_number": (lambda x: tf.pad(x, ((1, 1), (1, 1)), constant_values=2.0), rows),
    "pad_int32": (lambda x: tf.pad(x, ((1, 1), (1, 1))), ints),
    "tile": (lambda x: tf.tile(x, (1, 2, 2, 1)), image),
    "tile_columns": (lambda x: tf.tile(x, (1, 64)), spec(COLUMN)),
    "broadcast_to": (lambda x: tf.broadcast_to(x, (x.shape[0], 1024)), spec(COLUMN)),
    "fill": (lambda x: tf.fill((512, 1024), x), spec({"small": (), "large": ()})),
    "roll": (lambda x: tf.roll(x, (3, 5), (1, 2)), image),
    "reverse": (lambda x: tf.reverse(x, (1,)), rows),
    "reverse_rows": (lambda x: tf.reverse(x, (0,)), rows),
    "reverse_sequence": (lambda x, n: tf.reverse_sequence(x, n, 1, batch_axis=0),
                         spec({"small": (256, 256), "large": (512, 1024)}), ids),
    "nearest": (lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, (112, 112)), image),
    "bilinear": (lambda x: tf.compat.v1.image.resize_bilinear(x, (112, 112), half_pixel_centers=True), image),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), image),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), image),
    "space_to_batch": (lambda x: tf.space_to_batch(x, (2, 2), ((0, 0), (0, 0))), image),
    "concatenate": (lambda x, y: tf.concat((x, y), -1), image, image),
    "concatenate_int32": (lambda x, y: tf.concat((x, y), 0), ints, ints),
    "pack": (lambda x, y: tf.stack((x, y), -1), rows, rows),
    "split": (lambda x: tf.split(x, 2, -1), rows),
    "unpack": (lambda x: tf.unstack(x[:4]), rows),
    "slice": (lambda x: tf.slice(x, (0, 2, 2, 0), (1, x.shape[1] - 4, x.shape[2] - 4, x.shape[3])), image),
    "slice_step": (lambda x: x[:, ::2], rows),
    "slice_rows_step": (lambda x: x[::2], rows),
    "slice_back": (lambda x: x[:, ::-1], rows),
    "transpose": (lambda x: tf.transpose(x, (0, 3, 1, 2)), image),
    "transpose_square": (tf.transpose, square),
    "transpose_int32": (tf.transpose, spec(SQUARE, tf.int32)),
    "reshape": (lambda x: tf.reshape(x, (-1,)), rows),
    "gather": (lambda x, i: tf.gather(x, i), table, ids),
    "gather_columns": (lambda x, i: tf.gather(x, i, axis=1), rows, ids),
    "gather_batch": (lambda x, i: tf.gather(x, i, batch_dims=1), rows, ints),
    "gather_nd": (lambda x, i: tf.gather_nd(x, i[:, None]), table, ids),
    "gather_nd_elements": (lambda x, i: tf.gather_nd(x, tf.stack((i, i), -1)), spec({s: (256, 256) for s in ROWS}), ids),
    "scatter_nd": (lambda i, x: tf.scatter_nd(i[:, None], x, x.shape), ids, table),
    "one_hot": (lambda i: tf.one_hot(i, 1024), ids),
    "update_slice": (lambda x, y: tf.tensor_scatter_nd_update(x, [[3], [5]], y[:2]), rows, rows),
    "matrix_diag": (tf.linalg.diag, ids_float := spec(IDS)),
    "set_diag": (lambda x, y: tf.linalg.set_diag(x, y), spec({"small": (256, 256), "large": (512, 512)}), ids_float),
    "range": (lambda x: tf.range(0.0, 4096.0) + x[0, 0], rows),
    "bucketize": (lambda x: tf.raw_ops.Bucketize(input=x, boundaries=list(np.linspace(0.1, 0.9, 9))), rows),
    # products, pools and spectra
    "matmul": (tf.matmul, square, square),
    "conv2d": (lambda x: tf.nn.conv2d(x, np.ones((3, 3, x.shape[3], 8), np.float32), 1, "SAME"), image),
    "average_pool": (lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), image),
    "max_pool": (lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), image),
    "rfft": (lambda x: tf.abs(tf.signal.rfft(x)), spec(SIGNAL)),
    "rfft2d": (lambda x: tf.abs(tf.signal.rfft2d(x)), spec({"small": (64, 64), "large": (512, 512)})),
    "stft": (lambda x: tf.abs(tf.signal.stft(x, 512 if x.shape[-1] < 10000 else 2048, 128 if x.shape[-1] < 10000 else 278)),
             spec({"small": (1, 2048), "large": (1, 144000)})),
}


def model(function, specs):
    concrete = tf.function(lambda *inputs: function(*inputs), input_signature=specs).get_concrete_function()
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()


def main():
    directory, names = sys.argv[1], sys.argv[2:] or OPERATORS
    os.makedirs(directory, exist_ok=True)
    for name in names:
        function, *inputs = OPERATORS[name]
        for size in ("small", "large"):
            try:
                content = model(function, [make(size) for make in inputs])
            except Exception as error:
                print(f"{name}, {size}: {error}".splitlines()[0], file=sys.stderr)
                continue
            with open(os.path.join(directory, f"{name}.{size}.tflite"), "wb") as f:
                f.write(content)


main()
