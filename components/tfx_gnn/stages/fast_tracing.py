"""Tracing without needless rewriting of source code.

AutoGraph rewrites every function that runs while a tf.function is traced, so
that `if tensor:` works. TensorFlow exempts its own modules and `keras` by name,
but not `tf_keras`, though neither it nor this library needs that: most of the
time before the first training step went into rewriting them (27 s became 9 s
for a model of one layer).

This is the one file that uses AutoGraph's private list of exempt modules. It
has had this form from TensorFlow 2.0 to 2.21.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tensorflow.python.autograph.core import config as autograph_config

_EXEMPT = ("tf_keras", "tfx_gnn")


@contextlib.contextmanager
def libraries_traced_as_written() -> Iterator[None]:
    """Has tf_keras and this library traced as they are written, as long as the context lasts.

    Functions of other modules, such as the `call` of a user's layer, are rewritten as ever,
    also where Keras calls them.
    """
    rules = autograph_config.CONVERSION_RULES
    exempt = tuple(autograph_config.DoNotConvert(module) for module in _EXEMPT)
    autograph_config.CONVERSION_RULES = exempt + tuple(rules)
    try:
        yield
    finally:
        autograph_config.CONVERSION_RULES = rules
