"""Several steps in one call, until the data end.

A distributed dataset is iterated over by `for`, `next` or `get_next`, which raise at the end, or by
`get_next_as_optional`, which does not. In a tf.function that makes several steps, an exception in one of them
stops the others half-way; and a `for` over the dataset itself cannot be left by `break` or `return` there. So
the loop here is one over numbers, and asks each time whether there is another element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def make_steps(
    strategy: tf.distribute.Strategy, step_fn: Callable[[Any], Any], *, steps_per_loop: int
) -> Callable[[Any], tf.Tensor]:
    """Makes a function of several steps.

    Args:
        strategy: a strategy whose replicas work in step.
        step_fn: what each replica does with its element; keeps its results in variables, such as metrics.
            A replica that has no more data gets elements without rows.
        steps_per_loop: number of steps, at least 1.

    Returns:
        tf.function from the iterator of a distributed dataset to the number of steps that were made, int32
        []: fewer than `steps_per_loop`, and finally 0, at the end of the data.

    Raises:
        ValueError: if `steps_per_loop` is less than 1.
    """
    if steps_per_loop < 1:
        raise ValueError(f"`steps_per_loop` must be at least 1; got {steps_per_loop}. Give a larger number.")

    def body(num_steps: tf.Tensor, more: tf.Tensor, iterator: Any) -> tuple[tf.Tensor, tf.Tensor]:
        element = iterator.get_next_as_optional()
        more = element.has_value()

        def one_step() -> tf.Tensor:
            strategy.run(step_fn, args=(element.get_value(),))
            return num_steps + 1

        return tf.cond(more, one_step, lambda: num_steps), more

    # Loops are written out: AutoGraph would read, and rewrite, all of `step_fn` as well.
    @tf.function(autograph=False)
    def steps(iterator: Any) -> tf.Tensor:
        return tf.while_loop(
            lambda num_steps, more: more & (num_steps < steps_per_loop),
            lambda num_steps, more: body(num_steps, more, iterator),
            (tf.constant(0), tf.constant(True)),  # noqa: FBT003
        )[0]

    return steps
