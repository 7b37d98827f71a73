"""Problems that keep a training step from running on a TPU, and how to fix each of them."""

from __future__ import annotations

import dataclasses
import re

from tfx_gnn.distribution.distributed_datasets import PYTHON_OPS

RULES = {
    "static_shape": "the shape of the input is not known when the step is compiled",
    "input_dtype": "the input has values of a type that a TPU does not support",
    "host_only": "the operation runs on the host, not on a TPU",
    "no_kernel": "XLA has no kernel for the operation",
    "dtype": "TPUs do not compute in this data type",
    "compile_time_constant": "a shape depends on values that are known only when the step runs",
    "dynamic_shape": "how many rows the result has depends on values that are known only when the step runs",
    "sparse_gradient": "the gradient of the table is sparse, and the optimizer calls tf.unique to add up its rows",
    "loop_shape": "a tensor changes its shape from one iteration of the loop to the next",
    "unbounded_loop": "the gradient keeps values of each iteration of a loop whose number of iterations is unbounded",
    "foreign_variable": "the variable was made outside of the strategy's scope",
    "not_compiled": "XLA could not compile the step",
    "large_constant": "a large constant is compiled into the program of every core",
}
"""Why something is a problem, by the name of the broken rule."""

_MERELY_SLOW = frozenset({"large_constant"})

_UNSORTED = (
    "Use tf.math.unsorted_segment_sum, or tf.math.unsorted_segment_mean and so on, with a number of segments that "
    "is a Python int."
)
_COUNT_OR_NUMBER = "Number the values in the input pipeline, or count them by tf.math.unsorted_segment_sum."
_WITHOUT_STRINGS = "Turn strings into numbers in `preprocessing_fn` or in the input pipeline, and give the model these."

GIVE_LOOPS_SIZES = "Give the tensors of a loop, and tf.TensorArray, one size that is known before it begins."
"""Fix for tensors that grow in a loop."""

BOUND_LOOPS = "Give tf.while_loop maximum_iterations, a Python int, or loop over range() instead of tf.range()."
"""Fix for an unbounded loop through which a gradient is taken."""

_HOST_ONLY = (
    ("|".join(sorted(PYTHON_OPS)), "Write it with TensorFlow's operations, or do it in the input pipeline."),
    (r"Print(V2)?|StringFormat", "Leave tf.print out of the step; values to show can be returned as a metric."),
    (
        r"Write\w*Summary|\w*SummaryWriter\w*",
        "Return the value from the step, or as a metric, and write the summary outside of it.",
    ),
    (
        r"LookupTable\w*|\w*HashTable\w*",
        "Look values up in `preprocessing_fn`, with tft.apply_vocabulary, or in the input pipeline.",
    ),
    (
        r"Iterator\w*|\w*Dataset\w*|Parse\w+|Decode\w+|ReadFile|TFRecordReader\w*",
        "Read data in the input pipeline, and pass tensors to the step.",
    ),
    (
        r"Encode\w+|SerializeTensor|WriteFile|Save(V2|Slices)?",
        "Return the values from the step, and write them outside of it.",
    ),
    (r"Timestamp", "Take the time outside of the step."),
    (r"\w*String\w*|\w*Regex\w*|Unicode\w*|Substr", _WITHOUT_STRINGS),
)
"""Operations that run on the host by their nature: pattern of the operation's type, and the fix."""

_NO_KERNEL = (
    (r"(Sparse)?Segment(Sum|Mean|Max|Min|Prod|SqrtN)\w*", _UNSORTED),
    (
        r"SparseReshape|SparseFillEmptyRows\w*",
        "Pad the values of an item to a fixed number in `preprocessing_fn`, and embed them with FeatureEncoder.",
    ),
    (
        r"\w*Sparse\w*",
        "Gather the rows at the edges' ends and add them up with tf.math.unsorted_segment_sum, as the convolutions do.",
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
        "Keep all rows and weight them by the mask, or use tf.where with three arguments, not one or tf.boolean_mask.",
    ),
    (r"Unique\w*", _COUNT_OR_NUMBER),
    (
        r"(Stateless)?(If|Case)",
        "Give tf.cond results of the same shape in all branches, or compute both and choose with tf.where.",
    ),
    (r"DynamicPartition", "Keep all rows, and weight those of each part by a mask."),
    (r"StridedSlice|Slice", "Slice at positions that are Python ints, or weight rows by a mask."),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuProblem:
    """One thing in a step that a TPU would refuse, or run slowly.

    Attributes:
        rule: the broken rule, a key of `RULES`.
        op: type of the TensorFlow operation, such as "Where"; for inputs, the name of the tensor.
        layer: class and name of the Keras layer that created the operation, or the Python function.
        where: "file:line" of the innermost line of the user's code, else of a library's code; "" if unknown.
        tensor: data type and shape of the offending tensor, such as "int64 [<=24, 2]".
        fix: one sentence that says what to do.
    """

    rule: str
    op: str
    layer: str
    where: str
    tensor: str
    fix: str

    @property
    def reason(self) -> str:
        """Why it is a problem, from `RULES`."""
        return RULES[self.rule]

    @property
    def blocks(self) -> bool:
        """Whether the step would not run at all; otherwise it would only be slow."""
        return self.rule not in _MERELY_SLOW

    def __str__(self) -> str:
        place = f"{self.layer} at {self.where}" if self.where else self.layer
        return f"{self.op} ({self.tensor}) in {place}: {self.reason}. {self.fix}"


def advise_on_host_operation(op_type: str) -> str | None:
    """Returns the fix for an operation that runs on the host by its nature; None for any other operation."""
    return _first_match(_HOST_ONLY, op_type)


def advise_on_missing_kernel(op_type: str) -> str:
    """Returns the fix for an operation for which XLA has no kernel."""
    default = "Express it with other operations, or move it to `preprocessing_fn` or the input pipeline."
    return _first_match(_NO_KERNEL, op_type) or default


def advise_on_refused_dtype(dtype_name: str) -> str:
    """Returns the fix for values of a data type that a TPU lacks."""
    narrower = {"float64": "Compute in float32.", "complex128": "Compute in complex64."}
    return narrower.get(dtype_name, _WITHOUT_STRINGS)


def advise_on_unknown_constant(op_type: str) -> str:
    """Returns the fix for an operation whose shape depends on values."""
    default = "Take sizes from static shapes, int(x.shape[0]), or from configuration, not from values of tensors."
    return _first_match(_NEEDS_CONSTANT, op_type) or default


def advise_on_dynamic_shape(op_type: str) -> str:
    """Returns the fix for an operation whose number of results depends on values."""
    default = "Keep a fixed number of rows, and weight those that do not count with 0."
    return _first_match(_DYNAMIC, op_type) or default


def _first_match(rules: tuple[tuple[str, str], ...], op_type: str) -> str | None:
    return next((sentence for pattern, sentence in rules if re.fullmatch(pattern, op_type)), None)
