"""Process-wide switches for the checks that graph pieces run on themselves.

Static checks (shapes known before anything runs) are on by default. Run-time checks add
assertion ops to every new piece and are off by default; the parsers have checks of their own.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class _Switches:
    static: bool = True
    runtime: bool = False


_switches = _Switches()


def enable_graph_tensor_validation() -> None:
    """Turns the static checks of new graph pieces on (the default)."""
    _switches.static = True


def disable_graph_tensor_validation() -> None:
    """Turns all checks of new graph pieces off, static ones and those at run time."""
    _switches.static = False
    _switches.runtime = False


def enable_graph_tensor_validation_at_runtime() -> None:
    """Turns all checks on: new graph pieces also hold assertions on sizes and indices.

    The assertions raise `tf.errors.InvalidArgumentError` when the values are known, that is at
    once in eager mode and when a traced function runs.
    """
    _switches.static = True
    _switches.runtime = True


def disable_graph_tensor_validation_at_runtime() -> None:
    """Turns the assertions at run time off (the default); static checks stay as they are."""
    _switches.runtime = False


def checks_statically() -> bool:
    """Tells whether static checks are wanted."""
    return _switches.static


def checks_at_runtime(validate: bool | None = None) -> bool:
    """Tells whether assertion ops are wanted.

    Args:
        validate: what the caller asked for; None for the process-wide switch. Without static
            checks there are none at run time either, whatever the caller asks for.
    """
    return _switches.static and (_switches.runtime if validate is None else validate)


def checks_sizes_statically(validate: bool | None = None) -> bool:
    """Tells whether static shapes should stand in for the assertions on sizes.

    That is, to find mistakes even if nobody asked for assertions; but where there are assertions,
    they are to raise their own error.

    Args:
        validate: what the caller asked for; None for the process-wide switches.
    """
    return _switches.static and validate is not False and not checks_at_runtime(validate)
