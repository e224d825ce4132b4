"""Rows from outside of tables, such as those of a file: the rows of an entry of FROM. Each engine reads them its own
way."""

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
        """The same as a DataFrame: the columns of these numbers, counted from 1, as c{number} in their lake forms."""
