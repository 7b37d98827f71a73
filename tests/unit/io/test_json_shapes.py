from __future__ import annotations

import json

import pytest

from tfx_gnn.io.json_shapes import read_shaped_json

_SHAPE = {
    "name": str,
    "is_done": bool,
    "share?": float,
    "worst?": (int,),
    "rows": [{"id": str}],
    "sizes": {"*": int},
    "more?": object,
}
_GOOD = {"name": "a", "is_done": True, "rows": [{"id": "x"}], "sizes": {"train": 3}}


def _read(folder, content):
    path = folder / "found.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_shaped_json(str(path), _SHAPE)


@pytest.mark.parametrize(
    "more", [{}, {"share": 1}, {"share": 0.5}, {"worst": None}, {"worst": 2}, {"more": [1]}, {"z": 1}]
)
def test_a_file_of_the_shape_is_read_as_it_is(tmp_path, more):
    assert _read(tmp_path, {**_GOOD, **more}) == {**_GOOD, **more}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", r"^`\S*found\.json` must be an object; got a list\. Write the file again"),
        ("null", r"^`\S*found\.json` must be an object; got null\."),
        ('{"name": "a"', r"^`\S*found\.json` must be a JSON file"),
        ("{}", r"^`name` must be there; got the keys \[\] in \S*found\.json\. Write"),
        ({**_GOOD, "name": 3}, r"^`name` must be a text; got an integer in \S*found\.json\. Write"),
        ({**_GOOD, "is_done": 1}, "^`is_done` must be true or false; got an integer in "),
        ({**_GOOD, "share": True}, "^`share` must be a number; got true or false in "),
        ({**_GOOD, "worst": []}, "^`worst` must be an integer; got a list in "),
        ({**_GOOD, "rows": [{"id": "x"}, {}]}, r"^`rows\[1\]\.id` must be there; got the keys \[\] in "),
        ({**_GOOD, "rows": {}}, "^`rows` must be a list; got an object in "),
        ({**_GOOD, "sizes": {"train": "3"}}, r"^`sizes\.train` must be an integer; got a text in "),
    ],
)
def test_another_shape_is_told_with_the_file_and_the_value(tmp_path, content, problem):
    with pytest.raises(ValueError, match=problem):
        _read(tmp_path, content)
