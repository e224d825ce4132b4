"""The locks of unique keys: a transaction that writes a row with a key holds the key until it ends."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.lock_modes import EXCLUSIVE, LockKind
from pgrepl.catalog.lock_table import LockRequest

if TYPE_CHECKING:
    from pgrepl.rows.unique import UniqueIndex


def key_lock(table: int, index: UniqueIndex, values: tuple[Any, ...]) -> LockRequest:
    """The lock of a key of a unique index; `values` as the index holds them."""
    digest = blake2b(repr((index.info.oid, index.key(values))).encode(), digest_size=8).digest()
    return LockRequest(LockKind.KEY, table, int.from_bytes(digest, "big") >> 1, EXCLUSIVE)


def change_lock(table: int, row_id: int) -> LockRequest:
    """The lock of a row with unique keys that is changed or deleted: a transaction that finds one of its keys taken
    waits for it."""
    return LockRequest(LockKind.CHANGE, table, row_id, EXCLUSIVE)


__all__ = ["change_lock", "key_lock"]
