"""Made by protoc without types."""

from typing import Any

def __getattr__(name: str) -> Any: ...
