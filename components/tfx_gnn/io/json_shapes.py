"""Checks that JSON has the shape that its reader expects, so that a damaged file is named in one line."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from tfx_gnn.io.text_files import read_json

Shape: TypeAlias = "type | list[Shape] | tuple[Shape] | dict[str, Shape]"
"""What a JSON value must be.

`str`, `int`, `float` (any number), `bool`, `list`, `dict`, or `object` for anything. `[shape]` is a list of such
values, `(shape,)` such a value or null, and `{"key": shape}` an object with these keys, and maybe others. A key that
ends with "?" may be absent; the key "*" stands for all keys.
"""

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def read_shaped_json(path: str, shape: dict[str, Shape]) -> dict[str, Any]:
    """Reads a JSON file that holds an object of a shape; see `read_json`.

    Raises:
        ValueError: if it is not JSON, or has another shape, with the name of the file and of the value.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     print('{"reasons": null}', file=file, flush=True)
        ...     try:
        ...         read_shaped_json(file.name, {"reasons": [str]})
        ...     except ValueError as error:
        ...         print(str(error).replace(file.name, "FILE"))
        `reasons` must be a list; got null in FILE. Write the file again: it is damaged, or of another version.
    """
    found = read_json(path)
    _check(found, shape, "", path)
    return cast("dict[str, Any]", found)


def _check(value: Any, shape: Shape, name: str, path: str) -> None:
    if isinstance(shape, tuple):
        if value is None:
            return
        shape = shape[0]
    kind = shape if isinstance(shape, type) else type(shape)
    if not _is_of_kind(value, kind):
        raise _refusal(f"`{name or path}` must be {_NAMES[kind]}; got {_NAMES[type(value)]}", name, path)
    if isinstance(shape, list):
        for position, one in enumerate(value):
            _check(one, shape[0], f"{name}[{position}]", path)
    elif isinstance(shape, dict):
        _check_keys(value, shape, name, path)


def _check_keys(value: dict[str, Any], shape: dict[str, Shape], name: str, path: str) -> None:
    for key, inner in shape.items():
        plain = key.removesuffix("?")
        if plain == key != "*" and key not in value:
            raise _refusal(f"`{_joined(name, key)}` must be there; got the keys {sorted(value)[:10]}", "a key", path)
        for each in value if key == "*" else [plain] if plain in value else []:
            _check(value[each], inner, _joined(name, each), path)


def _is_of_kind(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind is object or type(value) is kind


def _joined(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _refusal(text: str, name: str, path: str) -> ValueError:
    place = f" in {path}" if name else ""  # A text about the file itself begins with its path.
    return ValueError(f"{text}{place}. Write the file again: it is damaged, or of another version.")
