"""The modes of locks and which of them cannot be held together (lock.c, heapam.c).

Relations have PostgreSQL's eight modes, rows its four strengths. A key of a unique index has one mode: a transaction
that inserts a row holds the row's keys until it ends. One that updates or deletes a row with unique keys holds that
change; a transaction that needs one of the keys waits for it. A transaction that has changed definitions holds the
catalog as a whole. Advisory locks have two of the modes of relations, SHARE and EXCLUSIVE.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class LockKind(Enum):
    RELATION = "relation"
    ROW = "row"
    KEY = "key"  # of a unique index, by its hash
    CHANGE = "change"  # of a row with unique keys: an UPDATE or DELETE that has not committed
    CATALOG = "catalog"
    ADVISORY = "advisory"  # by a number of the user's
    NOTIFY = "notify"  # of a database: the right to commit notifications


class RelationMode(IntEnum):
    ACCESS_SHARE = 1
    ROW_SHARE = 2
    ROW_EXCLUSIVE = 3
    SHARE_UPDATE_EXCLUSIVE = 4
    SHARE = 5
    SHARE_ROW_EXCLUSIVE = 6
    EXCLUSIVE = 7
    ACCESS_EXCLUSIVE = 8


class RowMode(IntEnum):
    KEY_SHARE = 1
    SHARE = 2
    NO_KEY_UPDATE = 3
    UPDATE = 4


MODE_NAMES = {
    1: "AccessShareLock", 2: "RowShareLock", 3: "RowExclusiveLock", 4: "ShareUpdateExclusiveLock", 5: "ShareLock",
    6: "ShareRowExclusiveLock", 7: "ExclusiveLock", 8: "AccessExclusiveLock",
}  # fmt: skip

_RELATION_CONFLICTS = {
    1: (8,),
    2: (7, 8),
    3: (5, 6, 7, 8),
    4: (4, 5, 6, 7, 8),
    5: (3, 4, 6, 7, 8),
    6: (3, 4, 5, 6, 7, 8),
    7: (2, 3, 4, 5, 6, 7, 8),
    8: (1, 2, 3, 4, 5, 6, 7, 8),
}
_ROW_CONFLICTS = {1: (4,), 2: (3, 4), 3: (2, 3, 4), 4: (1, 2, 3, 4)}
# the relation mode in which a waiter for a row queues (tupleLockExtraInfo)
TUPLE_MODES = {1: 1, 2: 2, 3: 7, 4: 8}
EXCLUSIVE = 7  # of keys and of the catalog

ROW_MODES = {
    "KEY SHARE": RowMode.KEY_SHARE,
    "SHARE": RowMode.SHARE,
    "NO KEY UPDATE": RowMode.NO_KEY_UPDATE,
    "UPDATE": RowMode.UPDATE,
}


def conflicts(kind: LockKind, mode: int) -> tuple[int, ...]:
    """The modes that others may not hold beside this one."""
    if kind in (LockKind.RELATION, LockKind.ADVISORY):
        return _RELATION_CONFLICTS[mode]
    return _ROW_CONFLICTS[mode] if kind is LockKind.ROW else (EXCLUSIVE,)
