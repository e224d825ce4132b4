"""Folding whole columns comes to what playing message by message comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

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
    written: set[int] = field(default_factory=set)  # messages that have made a new row
    missed: list[int] = field(default_factory=list)  # messages that have found no row

    def play(self, message: int, what: str, key: int, other: int) -> None:
        if what == "truncate":
            self.rows = {}
        elif what == "insert":
            if key in self.rows:
                self.first_dirty = message
            else:
                self._write(key, None, message)
        elif what == "take" and key not in self.rows:
            self.first_dirty = message
        elif key not in self.rows:
            self.missed.append(message)
        elif what in ("delete", "take"):
            del self.rows[key]
        elif what == "update":
            self._write(key, self.rows[key][0], message)
        elif other in self.rows:
            self.first_dirty = message
        else:
            self._write(other, self.rows.pop(key)[0], message)

    def _write(self, key: int, had: int | None, message: int) -> None:
        self.rows[key] = (had, message)
        self.written.add(message)

    def is_met(self, folded: Folded, there: set[int]) -> None:
        """The net effect is that of what was played; `there`: the keys that have not been truncated."""
        assert sorted(folded.inserted.tolist()) == sorted(m for had, m in self.rows.values() if had is None)
        updated = {had: m for had, m in self.rows.values() if had is not None and m >= 0}
        assert dict(zip(folded.replaced.tolist(), folded.updated.tolist(), strict=True)) == updated
        assert folded.updated.tolist() == sorted(folded.updated.tolist())
        kept = {had for had, _ in self.rows.values() if had is not None}
        assert sorted(folded.deleted.tolist()) == sorted(there - kept)
        assert folded.passing.tolist() == sorted(self.written - {m for _, m in self.rows.values()})
        assert folded.missed.tolist() == sorted(self.missed)


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
    table.is_met(found, there)


@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_played(seed: int) -> None:
    """A TRUNCATE takes all rows away; messages behind it begin without any."""
    random, clean = Random(seed), 0
    for _ in range(200):
        there = {key for key in range(KEYS) if random.random() < 0.5}
        table, before, rounds = Table({key: (key, -1) for key in there}), there, 1
        listed: list[tuple[int, int, int, int]] = []
        for number in range(random.randrange(9)):
            what, key = random.choice([*STEP, "move", "truncate"]), random.randrange(KEYS)
            other = (key + random.randrange(1, KEYS)) % KEYS
            if table.first_dirty is None:
                table.play(number, what, key, other)
            if what == "truncate":
                before, rounds = set(), rounds + 1
            elif what == "move":
                listed += [(number, key, LEAVE, rounds - 1), (number, other, ENTER, rounds - 1)]
            else:
                listed.append((number, key, STEP[what], rounds - 1))
        message, keys, kinds, round_ = (np.array([each[n] for each in listed], np.int64) for n in range(4))
        exists = np.array([key in there for key in range(KEYS)])
        try:
            found = fold(message, keys, kinds, exists, round_, rounds)
        except NotClean as dirty:
            moves = [(r, k) for _, k, step, r in listed if step in (LEAVE, ENTER)]
            touched = [(r, k) for _, k, _, r in listed]
            if table.first_dirty is None:
                assert any(touched.count(each) > 1 for each in moves), "only a change of keys is refused for its sake"
            else:
                assert dirty.message <= table.first_dirty
                assert moves or dirty.message == table.first_dirty
            continue
        assert table.first_dirty is None
        table.is_met(found, before)
        clean += 1
    assert clean > 60


def in_both_ways(steps: Sequence[tuple[str, int, int]], there: set[int]) -> None:
    """Keys with one step are folded like the others."""
    listed: list[tuple[int, int, int]] = []
    for number, (what, key, by) in enumerate(steps):
        if what == "move":
            listed += [(number, key, LEAVE), (number, (key + by + 1) % KEYS, ENTER)]
        else:
            listed.append((number, key, STEP[what]))
    messages, keys, kinds = [np.array([each[n] for each in listed], np.int64) for n in range(3)]
    row_of = np.array([7 * n if n in there else -1 for n in range(KEYS)])
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.concatenate([[True], in_order[1:] != in_order[:-1]])[: len(keys)]

    def outcome(folded: Callable[[], Folded]) -> object:
        try:
            found = folded()
        except NotClean as dirty:
            return dirty.message
        pairs = list(zip(found.updated.tolist(), found.replaced.tolist(), strict=True))
        lists = (found.inserted, found.passing, found.missed)
        return pairs, sorted(found.deleted.tolist()), *(each.tolist() for each in lists)

    quick = outcome(lambda: fold_sorted(messages, kinds, order, first, row_of[in_order[first]]))
    assert quick == outcome(lambda: named_by(fold(messages, keys, kinds, row_of >= 0), row_of))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS, st.sets(st.integers(0, KEYS - 1)))
def test_keys_with_one_step_are_folded_like_the_others(steps: list[tuple[str, int, int]], there: set[int]) -> None:
    in_both_ways(steps, there)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_keys_with_one_step_are_folded_like_the_others(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        names = random.choice([[*STEP], [*STEP, "move"]])
        steps = [
            (random.choice(names), random.randrange(KEYS), random.randrange(4)) for _ in range(random.randrange(7))
        ]
        in_both_ways(steps, {key for key in range(KEYS) if random.random() < 0.6})


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
