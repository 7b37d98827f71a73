"""Faster tracing, without AutoGraph's rewriting of library code.

AutoGraph rewrites every function that runs while a tf.function is traced, so
that `if tensor:` works. TensorFlow exempts modules by name: its own, `keras` and,
in 2.21 but not in 2.16, `tf_keras`. Most of the time before the first training
step went into rewriting `tf_keras` and this library, which are written to be traced
as they are: without it, 27 s became 9 s for a one-layer model.

Only this file uses AutoGraph's private list of exempt modules, whose form is the
same in TensorFlow 2.16 and 2.21.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tensorflow.python.autograph.core import config as autograph_config

_EXEMPT = ("tf_keras", "tfx_gnn")


@contextlib.contextmanager
def libraries_traced_as_written() -> Iterator[None]:
    """Traces tf_keras and this library as written while the context lasts.

    Functions of other modules, such as the `call` of a user's layer, are still rewritten,
    even if Keras calls them.
    """
    rules = autograph_config.CONVERSION_RULES
    exempt = tuple(autograph_config.DoNotConvert(module) for module in _EXEMPT)
    autograph_config.CONVERSION_RULES = exempt + tuple(rules)
    try:
        yield
    finally:
        autograph_config.CONVERSION_RULES = rules
