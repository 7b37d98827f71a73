"""A problem that keeps a training step from running on a TPU."""

from __future__ import annotations

import dataclasses

RULES = {
    "static_shape": "the shape of the input is not known when the step is compiled",
    "input_dtype": "the input has values that a TPU does not hold",
    "host_only": "the operation runs on the host, not on a TPU",
    "no_kernel": "XLA has no kernel for the operation",
    "dtype": "TPUs do not compute in this data type",
    "compile_time_constant": "a shape depends on values that are known only when the step runs",
    "dynamic_shape": "how many rows the result has depends on values that are known only when the step runs",
    "sparse_gradient": "the gradient of the table is sparse, and to add its rows up the optimizer calls tf.unique",
    "loop_shape": "a tensor changes its shape from one round of the loop to the next",
    "unbounded_loop": "the gradient keeps something of each round of the loop, and nobody says how many there are",
    "foreign_variable": "the variable was made outside of the strategy's scope",
    "not_compiled": "XLA could not compile the step",
    "large_constant": "a large constant is compiled into the program of every core",
}
"""Why something is a problem, by the name of the rule that it breaks."""

_MERELY_SLOW = frozenset({"large_constant"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuProblem:
    """One thing in a step that a TPU would refuse, or do badly.

    Attributes:
        rule: the broken rule, a key of `RULES`.
        op: type of the TensorFlow operation, such as "Where"; for inputs the name of the tensor.
        layer: class and name of the Keras layer that made the operation, or the Python function.
        where: "file:line" of the innermost line of the user's code, else of a library's; "" if unknown.
        tensor: data type and shape of what is wrong, such as "int64 [<=24, 2]".
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
        """Why it is a problem, in the words of `RULES`."""
        return RULES[self.rule]

    @property
    def blocks(self) -> bool:
        """Whether the step would not run at all; else it would, but slowly."""
        return self.rule not in _MERELY_SLOW

    def __str__(self) -> str:
        place = f"{self.layer} at {self.where}" if self.where else self.layer
        return f"{self.op} ({self.tensor}) in {place}: {self.reason}. {self.fix}"
