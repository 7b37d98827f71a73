"""What to do about operations that a TPU cannot run."""

from __future__ import annotations

import re

_UNSORTED = (
    "Use tf.math.unsorted_segment_sum, or tf.math.unsorted_segment_mean and so on, with a number of segments that "
    "is a Python int."
)
_COUNT_OR_NUMBER = "Number the values in the input pipeline, or count them by tf.math.unsorted_segment_sum."
_WITHOUT_STRINGS = "Turn strings into numbers in `preprocessing_fn` or in the input pipeline, and give the model these."

GIVE_LOOPS_SIZES = "Give the tensors of a loop, and tf.TensorArray, one size that is known before it begins."
"""What to do about what grows in a loop."""

BOUND_LOOPS = "Give tf.while_loop maximum_iterations, a Python int, or loop over range() instead of tf.range()."
"""What to do about a loop without a bound, of which a gradient is taken."""

_HOST_ONLY = (
    (r"(Eager)?PyFunc(Stateless)?", "Write it with TensorFlow's operations, or do it in the input pipeline."),
    (r"Print(V2)?|StringFormat", "Leave tf.print out of the step; what shall be seen can be returned as a metric."),
    (
        r"Write\w*Summary|\w*SummaryWriter\w*",
        "Return the value from the step, or as a metric, and write the summary outside of it.",
    ),
    (
        r"LookupTable\w*|\w*HashTable\w*",
        "Look values up in `preprocessing_fn`, by tft.apply_vocabulary, or in the input pipeline.",
    ),
    (
        r"Iterator\w*|\w*Dataset\w*|Parse\w+|Decode\w+|ReadFile|TFRecordReader\w*",
        "Read data in the input pipeline, and give the step tensors.",
    ),
    (
        r"Encode\w+|SerializeTensor|WriteFile|Save(V2|Slices)?",
        "Return the values from the step, and write them outside of it.",
    ),
    (r"Timestamp", "Take the time outside of the step."),
    (r"\w*String\w*|\w*Regex\w*|Unicode\w*|Substr", _WITHOUT_STRINGS),
)
"""What runs on the host by its nature: pattern of types of operations, and a sentence."""

_NO_KERNEL = (
    (r"(Sparse)?Segment(Sum|Mean|Max|Min|Prod|SqrtN)\w*", _UNSORTED),
    (
        r"SparseReshape|SparseFillEmptyRows\w*",
        "Pad the values of an item to a fixed number in `preprocessing_fn`, and embed them by FeatureEncoder.",
    ),
    (
        r"\w*Sparse\w*",
        "Gather the rows at the edges' ends and add them up by tf.math.unsorted_segment_sum, as the convolutions do.",
    ),
    (
        r"(Stateless)?Random\w*|\w*CandidateSampler\w*",
        "Draw by tf.random.uniform, tf.random.normal or tf.random.categorical, or let the input pipeline draw.",
    ),
    (r"Unique\w*|\w*SetOperation|SetSize|ListDiff", _COUNT_OR_NUMBER),
    (r"\w*Ragged\w*", "Make values dense in `preprocessing_fn`, or pad them to a fixed length in the input pipeline."),
)

_NEEDS_CONSTANT = (
    (
        r"UnsortedSegment\w+|SegmentSumV2",
        "Take the number of segments from a static shape, int(states.shape[0]), not from the largest index.",
    ),
    (
        r"DenseBincount|Bincount",
        "Count by tf.math.unsorted_segment_sum of ones, with a number of segments that is a Python int.",
    ),
    (r"\w*TensorList\w*|TensorArray\w*", GIVE_LOOPS_SIZES),
)

_DYNAMIC = (
    (
        r"Where",
        "Keep all rows and weigh them by the mask, or use tf.where with three arguments, not one, nor tf.boolean_mask.",
    ),
    (r"Unique\w*", _COUNT_OR_NUMBER),
    (
        r"(Stateless)?(If|Case)",
        "Give tf.cond results of the same shape in all branches, or compute both and choose by tf.where.",
    ),
    (r"DynamicPartition", "Keep all rows, and weigh those of each part by a mask."),
    (r"StridedSlice|Slice", "Slice at positions that are Python ints, or weigh rows by a mask."),
)


def fix_of_host_operation(op_type: str) -> str | None:
    """Says what to do about an operation that runs on the host by its nature.

    Args:
        op_type: type of an operation that XLA has no kernel for.

    Returns:
        One sentence; None if it is no such operation.
    """
    return _first_match(_HOST_ONLY, op_type)


def fix_of_missing_kernel(op_type: str) -> str:
    """Says what to do about an operation that XLA has no kernel for.

    Args:
        op_type: its type.

    Returns:
        One sentence.
    """
    default = "Say it with other operations, or move it to `preprocessing_fn` or the input pipeline."
    return _first_match(_NO_KERNEL, op_type) or default


def fix_of_refused_dtype(dtype_name: str) -> str:
    """Says what to do about values of a data type that a TPU lacks.

    Args:
        dtype_name: such as "float64".

    Returns:
        One sentence.
    """
    narrower = {"float64": "Compute in float32.", "complex128": "Compute in complex64."}
    return narrower.get(dtype_name, _WITHOUT_STRINGS)


def fix_of_unknown_constant(op_type: str) -> str:
    """Says what to do about an operation whose shape depends on values.

    Args:
        op_type: its type.

    Returns:
        One sentence.
    """
    default = "Take sizes from static shapes, int(x.shape[0]), or from configuration, not from values of tensors."
    return _first_match(_NEEDS_CONSTANT, op_type) or default


def fix_of_dynamic_shape(op_type: str) -> str:
    """Says what to do about an operation whose number of results depends on values.

    Args:
        op_type: its type.

    Returns:
        One sentence.
    """
    default = "Keep a fixed number of rows, and weigh those that do not count by 0."
    return _first_match(_DYNAMIC, op_type) or default


def _first_match(rules: tuple[tuple[str, str], ...], op_type: str) -> str | None:
    return next((sentence for pattern, sentence in rules if re.fullmatch(pattern, op_type)), None)
