"""satisfies_hash_partition: the partition of a row in a hash-partitioned table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.partition_hash import hash_of_class, row_hash

implements = Family()


@implements("satisfies_hash_partition", context=True)
def satisfies_hash_partition(call: Call, parent: int | None, *rest: Any) -> bool | None:
    """Whether a row with these key values belongs to the partition with this modulus and remainder."""
    return _satisfies(call, parent, *rest)


def _satisfies(call: Call, parent: int | None, modulus: int | None, remainder: int | None, *values: Any) -> bool | None:
    if parent is None or modulus is None or remainder is None:
        return None
    if modulus <= 0:
        raise PgError("22023", "modulus for hash partition must be an integer value greater than zero")
    if remainder < 0:
        raise PgError("22023", "remainder for hash partition must be an integer value greater than or equal to zero")
    if remainder >= modulus:
        raise PgError("22023", "remainder for hash partition must be less than modulus")
    key = call.context.hash_classes(parent)
    if key is None:
        from pgrepl.catalog.relation import relation

        name = relation(call.session, parent).name
        raise PgError("22023", f'"{name}" is not a hash partitioned table')
    given: Sequence[Any] = tuple(values[0].items) if call.variadic else values
    if len(given) != len(key):
        raise PgError(
            "22023",
            f"number of partitioning columns ({len(key)}) does not match number of partition keys provided "
            f"({len(given)})",
        )
    return row_hash([hash_of_class(*column) for column in key], given) % modulus == remainder
