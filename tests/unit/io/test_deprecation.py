import inspect
import pickle
import warnings

import pytest

from tfx_gnn.io.deprecation import deprecated


@deprecated(since="0.4", removed_in="0.5", use="`mean`")
def average(values):
    """Averages.

    Nothing else.
    """
    return sum(values) / len(values)


@deprecated(since="0.4", removed_in="1.0", use="`Hop`")
class Step:
    """One hop."""

    def __init__(self, fan_out):
        self.fan_out = fan_out


@deprecated(since="0.4", removed_in="0.5", use="`fan_out`", argument="size")
def hop(name, size=None, *, fan_out=None):
    return name, size, fan_out


@deprecated(since="0.4", removed_in="0.5", use="`units`", argument="dim")
class Layer:
    def __init__(self, units=None, dim=None, **kwargs):
        self.units = units or dim


def warned(call):
    """The result of a call, its one warning, and the file that the warning names."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        result = call()
    (warning,) = found
    assert warning.category is FutureWarning
    return result, str(warning.message), warning.filename, warning.lineno


def test_function_warns_in_the_line_of_its_caller():
    line = inspect.currentframe().f_lineno + 1
    result, message, file, found_line = warned(lambda: average([1, 3]))

    assert result == 2
    assert message == "`average` is deprecated since 0.4, will be removed in 0.5: use `mean`."
    assert (file, found_line) == (__file__, line)


def test_docstring_and_signature_are_kept():
    assert average.__doc__ == (
        "Deprecated since 0.4, will be removed in 0.5: use `mean`.\n\nAverages.\n\nNothing else."
    )
    assert list(inspect.signature(average).parameters) == ["values"]


def test_class_warns_and_stays_a_class_that_can_be_pickled():
    step, message, file, _ = warned(lambda: Step(3))

    assert message == "`Step` is deprecated since 0.4, will be removed in 1.0: use `Hop`."
    assert file == __file__
    assert isinstance(step, Step)
    assert pickle.loads(pickle.dumps(step)).fan_out == 3
    assert list(inspect.signature(Step).parameters) == ["fan_out"]


@pytest.mark.parametrize(
    ("call", "result"),
    [(lambda: hop("a", size=2), ("a", 2, None)), (lambda: hop("a", 2), ("a", 2, None))],
    ids=["by name", "by position"],
)
def test_argument_warns_where_it_is_passed(call, result):
    found, message, file, _ = warned(call)

    assert found == result
    assert message == "`size` of `hop` is deprecated since 0.4, will be removed in 0.5: use `fan_out`."
    assert file == __file__


def test_argument_of_a_class_warns_by_its_own_place():
    assert warned(lambda: Layer(None, 4))[0].units == 4
    assert warned(lambda: Layer(dim=4))[1].startswith("`dim` of `Layer` is deprecated since 0.4")


def test_calls_without_the_argument_do_not_warn():
    # Warnings are errors in tests.
    assert hop("a", fan_out=2) == ("a", None, 2)
    assert Layer(4).units == 4


@pytest.mark.parametrize(("since", "removed_in"), [("0.4", "0.4"), ("0.4", "0.4.1"), ("1.0", "0.9"), ("0.10", "0.9")])
def test_removal_in_the_same_minor_version_is_refused(since, removed_in):
    with pytest.raises(ValueError, match=r"`removed_in` must be at least one minor version after `since`; got since="):
        deprecated(since=since, removed_in=removed_in, use="`x`")


def test_what_cannot_warn_is_refused():
    with pytest.raises(TypeError, match=r"`argument` must be one of .*; got 'sise', of \['name', 'size', 'fan_out'\]"):
        deprecated(since="0.4", removed_in="0.5", use="`x`", argument="sise")(hop)
    with pytest.raises(TypeError, match=r"A deprecated class must have an `__init__`; got .*Plain without one"):

        @deprecated(since="0.4", removed_in="0.5", use="`x`")
        class Plain:
            pass
