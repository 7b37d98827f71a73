"""JSON of bounded size and depth."""

import codecs
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.serving.server import json_values
from tfx_gnn.serving.server.json_values import MAX_FIELDS, MAX_LEVELS, MAX_VALUES, read_json, read_object
from tfx_gnn.serving.server.refusals import Refusal

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a[]{},:"\\\\\n\U0001f600', max_size=9),
    lambda values: st.lists(values, max_size=5) | st.dictionaries(st.text('a[{,"', max_size=2), values, max_size=5),
)


def levels_of(value):
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(levels_of, items), default=0)


def num_values_of(value):
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(num_values_of, items))


@given(value=_VALUES, is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_limits_count_the_values_and_levels_outside_of_texts(value, is_ascii, indent):
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    levels, num_values = levels_of(value), num_values_of(value)

    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(json_values, "MAX_LEVELS", levels)
        # An empty list counts as one that has a value.
        limits.setattr(json_values, "MAX_VALUES", 2 * num_values)
        assert read_json(text) == value
        limits.setattr(json_values, "MAX_LEVELS", levels - 1)
        if levels:
            with pytest.raises(ValueError, match=f"levels of brackets, {levels}, more than {levels - 1}"):
                read_json(text)
        limits.setattr(json_values, "MAX_VALUES", max(num_values // 2, 1) - 1)
        with pytest.raises(ValueError, match="values, more than"):
            read_json(text)


@pytest.mark.parametrize("levels", [MAX_LEVELS, MAX_LEVELS + 1, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"[0,"])
def test_deep_json_is_refused_at_once(levels, opening):
    start = time.process_time()
    with pytest.raises(ValueError, match="Expecting value" if levels == MAX_LEVELS else f"brackets, {levels}, more"):
        read_json(opening * levels)

    assert time.process_time() - start < 0.5


def test_json_of_very_many_values_is_refused_before_it_is_parsed():
    text = b'{"instances": [' + b"0," * MAX_VALUES + b"0]}"

    start = time.process_time()
    with pytest.raises(Refusal, match=f"got .*: {MAX_VALUES + 3} values, more than {MAX_VALUES}; split it"):
        read_object(text)

    assert time.process_time() - start < 0.5


def test_texts_may_have_as_many_commas_as_they_like():
    text = json.dumps({"a": ",[" * MAX_VALUES}).encode()

    assert read_object(text) == {"a": ",[" * MAX_VALUES}


def test_key_that_is_there_twice_is_found_at_once_among_many():
    pairs = ",".join(f'"{number}": 0' for number in range(9999))

    start = time.process_time()
    with pytest.raises(ValueError, match="the key '9998' is there twice"):
        read_json(f'{{{pairs}, "9998": 1}}'.encode())

    # Each key was compared with all before it.
    assert time.process_time() - start < 0.2


def test_object_of_very_many_keys_is_refused():
    text = json.dumps({f"{number}": 0 for number in range(MAX_FIELDS + 1)}).encode()

    with pytest.raises(ValueError, match=f"an object of {MAX_FIELDS + 1} keys, more than {MAX_FIELDS}"):
        read_json(text)


def test_byte_order_mark_is_no_part_of_the_text():
    assert read_json(codecs.BOM_UTF8 + b"[1]") == [1]
