"""What the messages of one table come to, key by key, and whether playing them in order meets no obstacle.

Messages are steps on keys, in order. An UPDATE that changes its key takes the old key away and enters the new one; it
is clean only if nothing else in the batch touches either. For each key it is known whether the table has a row with it.
From there

    insert      wants the key free                 there is a row now
    update      of no row: nothing happens         the row has the new values
    delete      of no row: nothing happens         the row is gone

A TRUNCATE begins a new round in which the table has no rows; what it leaves of the rounds before is nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Truths = npt.NDArray[np.bool_]
    Steps = npt.NDArray[np.signedinteger[Any]]

INSERT, UPDATE, DELETE, LEAVE, ENTER = 0, 1, 2, 3, 4  # steps; an UPDATE that changes the key leaves one, enters another


@frozen
class Folded:
    """What happens to the table. Messages are named by their numbers, keys by theirs."""

    inserted: Numbers  # messages whose new row comes to the table
    updated: Numbers  # messages whose new row takes the place of a row …
    replaced: Numbers  # … with these keys, one each
    deleted: Numbers  # keys whose rows go, with nothing in their place
    passing: Numbers  # messages that have been carried out, and of which nothing is left: their rows are checked only


class NotClean(Exception):
    """A message cannot be carried out as it stands in the batch; which is the first."""

    def __init__(self, message: int) -> None:
        super().__init__(message)
        self.message = message


def fold_sorted(message: Numbers, step: Steps, order: Numbers, first: Truths, row: Numbers) -> Folded:
    """Steps by message, ascending; their order by key, and which of them in that order begin another; `row` is the row
    that the table has of each key, or -1. In what comes back keys are named by these rows. Most keys have one step
    only: that is quickly told."""
    import numpy as np

    if first.all() and not (step > DELETE).any():
        own = np.empty(len(order), np.int64)
        own[order] = row
        return _alone(message, step, own)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(first) - 1
    alone = np.empty(len(order), np.bool_)
    alone[order] = first & np.append(first[1:], True)
    alone &= step <= DELETE
    rest = np.flatnonzero(~alone)
    single = np.flatnonzero(alone)
    found, obstacles = [], []
    try:
        found.append(_alone(message[single], step[single], row[number[single]]))
    except NotClean as obstacle:
        obstacles.append(obstacle.message)
    try:
        several = fold(message[rest], number[rest], step[rest], row >= 0)
        found.append(named_by(several, row))
    except NotClean as obstacle:
        obstacles.append(obstacle.message)
    if obstacles:
        raise NotClean(min(obstacles))
    return _joined(*found)


def named_by(folded: Folded, row: Numbers) -> Folded:
    """With the rows of keys in their place."""
    return Folded(folded.inserted, folded.updated, row[folded.replaced], row[folded.deleted], folded.passing)


def _alone(message: Numbers, step: Steps, row: Numbers) -> Folded:
    """Steps on one key each."""
    import numpy as np

    there = row >= 0
    inserts = step == INSERT
    dirty = inserts & there
    if dirty.any():
        raise NotClean(int(message[dirty][0]))
    changed = np.flatnonzero((step == UPDATE) & there)
    return Folded(message[inserts], message[changed], row[changed], row[(step == DELETE) & there], message[:0])


def _joined(one: Folded, other: Folded) -> Folded:
    import numpy as np

    updated = np.concatenate([one.updated, other.updated])
    order = np.argsort(updated, kind="stable")
    replaced = np.concatenate([one.replaced, other.replaced])
    return Folded(
        np.sort(np.concatenate([one.inserted, other.inserted])),
        updated[order],
        replaced[order],
        np.concatenate([one.deleted, other.deleted]),
        np.sort(np.concatenate([one.passing, other.passing])),
    )


def fold(
    message: Numbers, key: Numbers, step: Steps, exists: Truths, round_: Numbers | None = None, rounds: int = 1
) -> Folded:
    """Steps by message, ascending; `round_` of each step if there are several."""
    import numpy as np

    keys = len(exists)
    slot = key if round_ is None else round_ * keys + key
    order = np.argsort(slot, kind="stable")
    slot, step, message = slot[order], step[order], message[order]
    if not len(slot):
        nothing = np.empty(0, np.int64)
        return Folded(nothing, nothing, nothing, nothing, nothing)
    first = np.ones(len(slot), np.bool_)
    first[1:] = slot[1:] != slot[:-1]
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    ends = np.append(starts[1:], len(slot)) - 1
    there = exists[slot[starts] % keys] & (slot[starts] < keys)  # at the beginning

    # the last step before each that says whether there is a row
    places = np.arange(len(slot))
    says = (step == INSERT) | (step == DELETE)
    last = np.maximum.accumulate(np.where(says, places, -1))
    before = np.empty_like(last)
    before[0], before[1:] = -1, last[:-1]
    known = before >= starts[group]
    state = np.where(known, step[np.maximum(before, 0)] == INSERT, there[group])

    alone = (ends - starts == 0)[group]
    moves = (step == LEAVE) | (step == ENTER)
    dirty = ((step == INSERT) & state) | (moves & ~alone)
    # an entering row meets a row that is there only if the row that it was is found
    left = np.zeros(int(message.max()) + 1, np.bool_)
    left[message[(step == LEAVE) & state]] = True
    dirty |= (step == ENTER) & state & left[message]
    if dirty.any():
        raise NotClean(int(message[dirty].min()))

    done = np.where(step == INSERT, True, np.where(step == ENTER, left[message], state))
    after = np.where(step == INSERT, True, np.where(step == DELETE, False, state))
    is_last_round = slot // keys == rounds - 1
    final = np.zeros(len(slot), np.bool_)
    final[ends] = True
    lives = final & after & is_last_round & ~moves & done
    renewed = last >= starts[group]  # an insert or delete has been there
    has_row = there[group]
    fresh = lives & (renewed | ~has_row)
    changed = lives & ~renewed & has_row & (step == UPDATE)
    moved = (step == ENTER) & done & is_last_round
    origin = np.full(int(message.max()) + 1, -1, np.int64)
    origin[message[step == LEAVE]] = slot[step == LEAVE] % keys
    goes = final & has_row & renewed & is_last_round  # deleted, whatever came after
    rows = (step != DELETE) & (step != LEAVE) & done & ~fresh & ~changed & ~moved
    return Folded(
        np.sort(message[fresh]),
        *_together(message, slot % keys, changed, moved, origin),
        slot[goes] % keys,
        np.sort(message[rows]),
    )


def _together(
    message: Numbers, key: Numbers, changed: Truths, moved: Truths, origin: Numbers
) -> tuple[Numbers, Numbers]:
    """New versions of rows in the order of their messages, and the keys they had."""
    import numpy as np

    messages = np.concatenate([message[changed], message[moved]])
    keys = np.concatenate([key[changed], origin[message[moved]]])
    order = np.argsort(messages, kind="stable")
    return messages[order], keys[order]
