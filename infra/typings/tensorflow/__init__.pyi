"""tensorflow publishes no usable types: everything in it is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
