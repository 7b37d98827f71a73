"""What a graph tf.Example holds: read by protobuf, and value by value from there in plain Python."""

import itertools

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

INT32_MAX = 2**31 - 1


class RefusedError(Exception):
    """The example does not hold a graph of the spec."""


def refuse_unless(condition):
    if not condition:
        raise RefusedError


def as_dtype(values, dtype):
    """Gives stored values the dtype of their field; refuses those that it does not have."""
    if dtype in (tf.string, tf.int64, tf.float32, tf.float64):
        return values
    if dtype == tf.bool:
        return [bool(value) for value in values]
    if dtype == tf.uint64:
        return [value % 2**64 for value in values]
    if dtype.is_integer:
        refuse_unless(all(dtype.min <= value <= dtype.max for value in values))
        return values
    with np.errstate(over="ignore"):
        cast = np.array(values, np.float32).astype(dtype.as_numpy_dtype).astype(np.float32)
    refuse_unless((np.isfinite(cast) | ~np.isfinite(values)).all())
    return cast.tolist()


def decode_example(serialized):
    """Reads a tf.Example; raises DecodeError if it is none."""
    try:
        return tf.train.Example.FromString(serialized)
    except SystemError as error:
        # Bytes after the end of a group that never began are a warning to protobuf, which pytest makes an error.
        raise DecodeError(str(error.__cause__)) from error


class PlainDecoder:
    """Reads the graph in one tf.Example, one value at a time."""

    def __init__(self, spec, serialized):
        self.spec = spec
        self.stored = dict(decode_example(serialized).features.feature)
        #: Keys of numbers of items to their sum.
        self.totals = {}

    def values(self, key, dtype, *, count=None, default=None):
        wanted = "bytes_list" if dtype == tf.string else "float_list" if dtype.is_floating else "int64_list"
        feature = self.stored.get(key)
        kind = None if feature is None else feature.WhichOneof("kind")
        if kind is None:
            values = [] if default is None or count is None else [default] * count
        else:
            refuse_unless(kind == wanted)
            values = list(getattr(feature, kind).value)
        refuse_unless(count is None or len(values) == count)
        return as_dtype(values, dtype)

    def counts(self, key, limit, **options):
        counts = self.values(key, tf.int64, **options)
        refuse_unless(all(0 <= count <= limit for count in counts))
        self.totals[key] = sum(counts), limit
        return counts

    def field(self, key, spec, num_items):
        refuse_unless(spec.shape[0] in (None, num_items))
        ragged_rank = getattr(spec, "ragged_rank", 0)
        levels, rows = [], num_items
        for dimension in range(1, spec.shape.rank):
            size = spec.shape[dimension]
            if dimension <= ragged_rank and size is None:
                lengths = self.counts(f"{key}.d{dimension}", 2**40)
                refuse_unless(len(lengths) == rows)
            else:
                # Nothing stored is so long.
                refuse_unless(rows < 1_000_000)
                lengths = [size] * rows
            levels.append(lengths)
            rows = sum(lengths)
        nested = self.values(key, spec.dtype)
        refuse_unless(len(nested) == rows)
        for lengths in reversed(levels):
            items = iter(nested)
            nested = [list(itertools.islice(items, length)) for length in lengths]
        return nested

    def graph(self):
        limit = INT32_MAX if self.spec.indices_dtype == tf.int32 else 2**40
        decoded, num_items = {}, {}
        context = self.spec.context_spec
        num_components = context.sizes_spec.shape[0]
        pieces = {f"nodes/{name}": piece for name, piece in self.spec.node_sets_spec.items()}
        pieces.update({f"edges/{name}": piece for name, piece in self.spec.edge_sets_spec.items()})
        for name, piece in pieces.items():
            # Node sets at the ends of edges hold no more nodes than int32 can number.
            most = INT32_MAX if name.startswith("nodes/") else limit
            sizes = self.counts(f"{name}.#size", most, count=piece.sizes_spec.shape[0], default=0)
            num_components = len(sizes) if num_components is None else num_components
            refuse_unless(len(sizes) == num_components)
            decoded[f"{name}.#size"] = sizes
            num_items[name] = sum(sizes)
            # The values of features can be as many as memory holds, so latent sets alone can be larger.
            refuse_unless(num_items[name] <= most)
        for name, piece in pieces.items():
            for feature, spec in piece.features_spec.items():
                decoded[f"{name}.{feature}"] = self.field(f"{name}.{feature}", spec, num_items[name])
            if name.startswith("edges/"):
                for tag, end in enumerate(("#source", "#target")):
                    indices = self.values(f"{name}.{end}", tf.int64)
                    num_nodes = num_items[f"nodes/{piece.adjacency_spec.node_set_name(tag)}"]
                    refuse_unless(len(indices) == num_items[name])
                    refuse_unless(all(0 <= index < num_nodes for index in indices))
                    decoded[f"{name}.{end}"] = indices
        for feature, spec in context.features_spec.items():
            decoded[f"context/{feature}"] = self.field(f"context/{feature}", spec, num_components)
        return decoded
