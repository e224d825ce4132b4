"""The input function of jsonpath. A value is its canonical text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.types import oids
from pgrepl.types.depth import stack_depth_exceeded
from pgrepl.types.jsonpath.parser import parse_path
from pgrepl.types.jsonpath.printer import path_text
from pgrepl.types.style import TextStyle


def _read(text: str, typmod: int, style: TextStyle) -> str:
    try:
        return path_text(parse_path(text))
    except RecursionError:
        raise stack_depth_exceeded() from None


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {oids.JSONPATH: _read}
