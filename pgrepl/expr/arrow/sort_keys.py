"""Types whose stored form Arrow does not compare as PostgreSQL does, as columns that it does: the places of an enum's
labels, the span of an interval, the moment of a timetz, texts where equal values have equal texts.

Texts that the output function has not written (another DuckLake writer may have) raise Arrow's error: then rows are
evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import range_by_oid
from pgrepl.types.lake_arrays import content
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.user_types import is_enum, labels_of_stored, order_of_labels
from pgrepl.types.written import written

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[Any]


@frozen
class SortKey:
    """`of` an array of the type in storage form. `is_ordered`: whether < of two keys is < of the values; they are equal
    as the values are."""

    of: Callable[[pa.Array], pa.Array]
    is_ordered: bool = True


@cache
def sort_key(typoid: int) -> SortKey | None:
    """The key of a type; None: its values are compared one by one."""
    if is_enum(typoid):
        return SortKey(partial(_places, typoid))
    found = _KEYS.get(typoid)
    if found is None and range_by_oid(typoid) is not None and written(typoid) is not None:
        ranges = range_by_oid(typoid)
        assert ranges is not None
        return None if ranges.subtype == oids.NUMERIC else SortKey(partial(_texts, typoid), False)  # 1.0 = 1.00
    return found


def _checked(array: pa.Array, right: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.or_kleene(right, pc.is_null(array))).as_py() is False:
        raise pa.ArrowInvalid("a text that the output function does not write")


def _texts(typoid: int, array: pa.Array) -> pa.Array:
    test = written(typoid)
    assert test is not None
    _checked(array, test(array, -1, STORED_STYLE))
    return array


def _places(enum: int, array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    labels, names = order_of_labels(enum), labels_of_stored(enum)
    stored = list(names) or list(labels)
    places = pa.array([labels[names.get(each, each)] for each in stored], pa.int32())
    at = pc.index_in(array, value_set=pa.array(stored, pa.string()))
    if at.null_count != array.null_count:
        raise pa.ArrowInvalid("no label of the enum")
    return places.take(at)


_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MOST_YEARS = 99_999  # in microseconds they are still within 64 bits
_ZERO, _COLON, _MINUS = b"0:-"


class _Letters:
    """The bytes of texts that are known to be well formed; NULLs have none."""

    def __init__(self, array: pa.Array) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = array.fill_null("").cast(pa.large_string())
        data = np.frombuffer(content(texts), np.uint8)
        self.data = np.append(data, np.zeros(1, np.uint8))
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        ends: Numbers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.starts, self.stops = ends[:-1], ends[1:]
        self._texts = texts

    def find(self, word: str) -> Numbers:
        """Where the word stands; -1: nowhere."""
        import numpy as np
        import pyarrow.compute as pc

        at = pc.find_substring(self._texts, word).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(at < 0, -1, at + self.starts)

    def at(self, places: Numbers) -> Numbers:
        import numpy as np

        found: Numbers = self.data[np.clip(places, 0, len(self.data) - 1)].astype(np.int64)
        return found

    def two(self, places: Numbers) -> Numbers:
        """The number of two digits that begins at a place."""
        return (self.at(places) - _ZERO) * 10 + self.at(places + 1) - _ZERO

    def before(self, places: Numbers, digits: int) -> Numbers:
        """The number of at most so many digits that ends before a place; 0 where the place is -1."""
        import numpy as np

        value = np.zeros(len(places), np.int64)
        if not (places >= 0).any():
            return value
        goes_on = places >= 0
        for power in range(digits):
            at = places - 1 - power
            digit = self.at(at) - _ZERO
            goes_on = goes_on & (at >= self.starts) & (digit >= 0) & (digit <= 9)
            value += np.where(goes_on, digit, 0) * 10**power
        return value

    def behind(self, dots: Numbers) -> Numbers:
        """The digits behind a point, as microseconds."""
        import numpy as np

        value = np.zeros(len(dots), np.int64)
        if not (dots >= 0).any():
            return value
        goes_on = dots >= 0
        for power in range(6):
            at = dots + 1 + power
            digit = self.at(at) - _ZERO
            goes_on = goes_on & (at < self.stops) & (digit >= 0) & (digit <= 9)
            value += np.where(goes_on, digit, 0) * 10 ** (5 - power)
        return value


def _spans(array: pa.Array) -> pa.Array:
    """An interval as microseconds, a month as 30 days (interval_cmp_value)."""
    import numpy as np
    import pyarrow as pa

    _texts(oids.INTERVAL, array)
    letters = _Letters(array)
    years = letters.before(letters.find(" year"), 7)
    if len(years) and years.max() > _MOST_YEARS:
        raise pa.ArrowInvalid("too long an interval")
    days = (years * 12 + letters.before(letters.find(" mon"), 2)) * 30 + letters.before(letters.find(" day"), 7)
    colon, dots = letters.find(":"), letters.find(".")
    seconds = (letters.before(colon, 7) * 60 + letters.two(colon + 1)) * 60 + letters.two(colon + 4)
    return _with_nulls(array, days * _DAY + np.where(colon < 0, 0, seconds * _SECOND + letters.behind(dots)))


def _moments(array: pa.Array) -> pa.Array:
    """A timetz as its moment, and behind it the zone (timetz_cmp_internal)."""
    import numpy as np

    _texts(oids.TIMETZ, array)
    letters = _Letters(array)
    start, stop = letters.starts, letters.stops
    seconds = (letters.two(start) * 60 + letters.two(start + 3)) * 60 + letters.two(start + 6)
    minutes = letters.at(stop - 3) == _COLON
    sign = np.where(minutes, stop - 6, stop - 3)
    zone = letters.two(sign + 1) * 3600 + np.where(minutes, letters.two(stop - 2), 0) * 60
    west = np.where(letters.at(sign) == _MINUS, zone, -zone)
    moment = (seconds + west) * _SECOND + letters.behind(letters.find("."))
    return _with_nulls(array, (moment << 18) + west + (1 << 17))


def _with_nulls(array: pa.Array, values: Numbers) -> pa.Array:
    import pyarrow as pa

    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, pa.int64(), mask=mask)


_KEYS = {
    **{typoid: SortKey(partial(_texts, typoid)) for typoid in (oids.BIT, oids.VARBIT, oids.MACADDR, oids.MACADDR8)},
    **{typoid: SortKey(partial(_texts, typoid), False) for typoid in (oids.INET, oids.CIDR)},
    oids.INTERVAL: SortKey(_spans),
    oids.TIMETZ: SortKey(_moments),
}
