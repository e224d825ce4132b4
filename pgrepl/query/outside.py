"""Rows of an entry of FROM that are in no table, such as those of a file. Each engine has its own way to read them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OutsideRows(Sequence[tuple[Any, ...]]):
    """Iteration returns tuples of Python values."""

    @abstractmethod
    def frame(self, numbers: Sequence[int]) -> DataFrame:
        """The rows as a DataFrame: the columns of these numbers, counted from 1, as c{number} in their lake forms."""
