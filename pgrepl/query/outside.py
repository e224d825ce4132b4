"""Rows that are neither in a table nor in this process, such as those of a file: an entry of FROM whose `rows` they
are. Either engine reads them its own way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OutsideRows(Sequence[tuple[Any, ...]]):
    """Iterating gives tuples of Python values."""

    @abstractmethod
    def frame(self, numbers: Sequence[int]) -> DataFrame:
        """The same as a DataFrame: the columns of these numbers, counted from 1, as c{number} in their lake forms."""
