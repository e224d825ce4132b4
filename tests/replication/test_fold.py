"""Folding whole columns comes to what playing message by message comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.replication.subscriber.apply.columns.fold import (
    DELETE,
    ENTER,
    INSERT,
    LEAVE,
    TAKE,
    UPDATE,
    Folded,
    NotClean,
    fold,
    fold_sorted,
    named_by,
)

KEYS = 5
STEP = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "take": TAKE}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "delete", "take", "move"]), st.integers(0, KEYS - 1), st.integers(0, 3)
    ),
    max_size=9,
)


@dataclass
class Table:
    """Rows by key: the key that a row had in the table (None: it is new), and the message that wrote it (-1: none)."""

    rows: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    first_dirty: int | None = None

    def play(self, message: int, what: str, key: int, other: int) -> None:
        if what == "insert":
            if key in self.rows:
                self.first_dirty = message
            else:
                self.rows[key] = (None, message)
        elif what == "take" and key not in self.rows:
            self.first_dirty = message
        elif what in ("delete", "take"):
            self.rows.pop(key, None)
        elif what == "update" and key in self.rows:
            self.rows[key] = (self.rows[key][0], message)
        elif what == "move" and key in self.rows:
            if other in self.rows:
                self.first_dirty = message
            else:
                self.rows[other] = (self.rows.pop(key)[0], message)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sets(st.integers(0, KEYS - 1)))
def test_folded_is_played(steps: list[tuple[str, int, int]], there: set[int]) -> None:
    table = Table({key: (key, -1) for key in there})
    message, keys, kinds = [], [], []
    for number, (what, key, by) in enumerate(steps):
        other = (key + by + 1) % KEYS
        if table.first_dirty is None:
            table.play(number, what, key, other)
        if what == "move":
            message += [number, number]
            keys += [key, other]
            kinds += [LEAVE, ENTER]
        else:
            message.append(number)
            keys.append(key)
            kinds.append(STEP[what])
    exists = np.array([key in there for key in range(KEYS)])
    columns = [np.array(column, np.int64) for column in (message, keys, kinds)]
    try:
        found = fold(*columns, exists)
    except NotClean as dirty:
        assert table.first_dirty is None or dirty.message <= table.first_dirty
        moved = {k for (what, key, by) in steps if what == "move" for k in (key, (key + by + 1) % KEYS)}
        if table.first_dirty is None:
            assert moved, "only a change of keys is refused for its own sake"
        return
    assert table.first_dirty is None
    assert sorted(found.inserted.tolist()) == sorted(m for had, m in table.rows.values() if had is None)
    updated = {had: m for had, m in table.rows.values() if had is not None and m >= 0}
    assert dict(zip(found.replaced.tolist(), found.updated.tolist(), strict=True)) == updated
    assert set(found.deleted.tolist()) == there - {had for had, _ in table.rows.values() if had is not None}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS, st.sets(st.integers(0, KEYS - 1)))
def test_keys_with_one_step_are_folded_like_the_others(steps: list[tuple[str, int, int]], there: set[int]) -> None:
    listed: list[tuple[int, int, int]] = []
    for number, (what, key, by) in enumerate(steps):
        if what == "move":
            listed += [(number, key, LEAVE), (number, (key + by + 1) % KEYS, ENTER)]
        else:
            listed.append((number, key, STEP[what]))
    messages, keys, kinds = [np.array([each[n] for each in listed], np.int64) for n in range(3)]
    row_of = np.array([100 + n if n in there else -1 for n in range(KEYS)])
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.concatenate([[True], in_order[1:] != in_order[:-1]])[: len(keys)]

    def outcome(folded: Callable[[], Folded]) -> object:
        try:
            found = folded()
        except NotClean as dirty:
            return dirty.message
        pairs = sorted(zip(found.updated.tolist(), found.replaced.tolist(), strict=True))
        return found.inserted.tolist(), pairs, sorted(found.deleted.tolist()), found.passing.tolist()

    quick = outcome(lambda: fold_sorted(messages, kinds, order, first, row_of[in_order[first]]))
    assert quick == outcome(lambda: named_by(fold(messages, keys, kinds, row_of >= 0), row_of))


def test_a_round_begins_without_rows() -> None:
    """insert 1; truncate; insert 1: of the first nothing is left."""
    exists = np.array([False, True])
    message, keys, kinds = (np.array(c, np.int64) for c in ([0, 1, 2], [0, 0, 1], [INSERT, INSERT, INSERT]))
    found = fold(message, keys, kinds, exists, np.array([0, 1, 1]), 2)
    assert found.inserted.tolist() == [1, 2]
    assert found.deleted.tolist() == []
    assert found.passing.tolist() == [0]


def test_the_first_message_in_the_way_is_named() -> None:
    message, keys, kinds = (np.array(c, np.int64) for c in ([0, 1, 2], [1, 0, 1], [UPDATE, INSERT, INSERT]))
    with pytest.raises(NotClean) as dirty:
        fold(message, keys, kinds, np.array([False, True]))
    assert dirty.value.message == 2
