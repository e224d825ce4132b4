"""The columns of each relation that a query reads, for scans and for the check of SELECT privileges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pgrepl.expr import tree
from pgrepl.expr.tree import Query, Rte, RteKind
from pgrepl.expr.walk import walk


def used_columns(query: Query) -> dict[int, frozenset[int]]:
    """The columns that the query and its subqueries read, by number in the range table: 0 is the whole row, system
    columns are negative. A column of a join that no expression uses does not count."""
    from pgrepl.expr.walk import walk_deep

    entries = query.rtable
    bare = replace(query, rtable=tuple(replace(entry, join_vars=()) for entry in entries))
    used: dict[int, set[int]] = {}
    pending = [(n.varno, n.attnum) for n, level in walk_deep(bare) if isinstance(n, tree.Var) and n.levelsup == level]
    seen = set(pending)
    while pending:
        varno, attnum = pending.pop()
        entry = entries[varno - 1]
        if entry.kind is RteKind.JOIN:
            behind = entry.join_vars if attnum == 0 else entry.join_vars[attnum - 1 : attnum]
            for part in behind:
                for var in walk(part) if part is not None else ():
                    if isinstance(var, tree.Var) and (var.varno, var.attnum) not in seen:
                        seen.add((var.varno, var.attnum))
                        pending.append((var.varno, var.attnum))
        else:
            used.setdefault(varno, set()).add(attnum)
    return {varno: frozenset(attnums) for varno, attnums in used.items()}


def fetched(entry: Rte, used: Iterable[int]) -> tuple[int, ...]:
    """The columns that a scan of a table returns, in order; system columns come last."""
    wanted = set(used)
    if 0 in wanted:
        wanted |= {number for number, column in enumerate(entry.columns, 1) if not column.dropped}
    return (*sorted(n for n in wanted if n > 0), *sorted((n for n in wanted if n < 0), reverse=True))
