"""Aliases of relations and columns in a deparsed query: unique relation names, and column names that USING can merge
(set_deparse_for_query)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.print.printer import JoinNames, Names
from pgrepl.expr.tree import Join, JsonTableExpr, Query, RangeRef, Rte, RteKind, Var
from pgrepl.sql.keywords import quote_qualified
from pgrepl.sql.nodes import RangeVar

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

MAX_NAME = 63  # bytes


@dataclass(slots=True)
class _Columns:
    """The column names of one range table entry, while they are chosen (deparse_columns)."""

    names: list[str | None] = field(default_factory=list)  # by attnum
    new: list[tuple[str, bool]] = field(default_factory=list)  # in order, and whether added since the query was made
    print_aliases: bool = False
    using: list[str] = field(default_factory=list)
    parent_using: list[str] = field(default_factory=list)
    left: int = 0
    right: int = 0
    left_attnums: list[int] = field(default_factory=list)
    right_attnums: list[int] = field(default_factory=list)

    def expand(self, count: int) -> None:
        self.names += [None] * (count - len(self.names))


class _Chooser:
    """The choice of names for one query level."""

    def __init__(self, session: Session, query: Query) -> None:
        self.session = session
        self.rtable = query.rtable
        self.columns = [_Columns() for _ in query.rtable]
        self.using_names: list[str] = []
        self.unique_using = any(self.has_dangerous_using(item) for item in query.from_)
        for item in query.from_:
            self.set_using_names(item, [])
        for rte, columns in zip(self.rtable, self.columns, strict=True):
            if rte.kind is RteKind.JOIN:
                self.set_join_names(rte, columns)
            else:
                self.set_relation_names(rte, columns)

    def has_dangerous_using(self, item: RangeRef | Join) -> bool:
        """Whether a join merges columns into an expression. That column can only be referred to by name, so its name
        must be unique."""
        if isinstance(item, RangeRef):
            return False
        rte = self.rtable[item.varno - 1]
        if rte.alias is None and any(not isinstance(v, Var) for v in rte.join_vars[: len(item.using)]):
            return True
        return self.has_dangerous_using(item.left) or self.has_dangerous_using(item.right)

    def set_using_names(self, item: RangeRef | Join, parent_using: list[str]) -> None:
        if isinstance(item, RangeRef):
            return
        rte, columns = self.rtable[item.varno - 1], self.columns[item.varno - 1]
        columns.left, columns.right = item.left.varno, item.right.varno
        columns.left_attnums, columns.right_attnums = list(rte.join_left), list(rte.join_right)
        left, right = self.columns[columns.left - 1], self.columns[columns.right - 1]
        if rte.alias is None:
            for number, name in enumerate(columns.names):
                if name is not None:
                    self.push_down(columns, left, right, number, name)
        if item.using:
            parent_using = list(parent_using)
            columns.expand(len(item.using))
            for number, written in enumerate(item.using):
                name = columns.names[number]
                if name is None:
                    name = written
                    if rte.alias is not None and number < len(rte.alias_columns):
                        name = rte.alias_columns[number]
                    name = self.unique(name, columns)
                    if self.unique_using:
                        self.using_names.append(name)
                    columns.names[number] = name
                columns.using.append(name)
                parent_using.append(name)
                self.push_down(columns, left, right, number, name)
        left.parent_using = right.parent_using = parent_using
        self.set_using_names(item.left, parent_using)
        self.set_using_names(item.right, parent_using)

    @staticmethod
    def push_down(columns: _Columns, left: _Columns, right: _Columns, number: int, name: str) -> None:
        for side, attnums in ((left, columns.left_attnums), (right, columns.right_attnums)):
            attnum = attnums[number]
            if attnum > 0:
                side.expand(attnum)
                side.names[attnum - 1] = name

    def set_relation_names(self, rte: Rte, columns: _Columns) -> None:
        real = self.real_names(rte)
        columns.expand(len(real))
        changed = False
        for number, own in enumerate(real):
            if own is None:
                continue
            name = columns.names[number]
            if name is None:
                name = rte.alias_columns[number] if number < len(rte.alias_columns) else own
                name = self.unique(name, columns)
                columns.names[number] = name
            columns.new.append((name, number >= len(rte.columns)))
            changed |= name != own
        if rte.kind is RteKind.FUNCTION:
            columns.print_aliases = not isinstance(rte.functions[0], JsonTableExpr)
        elif rte.kind is RteKind.RELATION:
            columns.print_aliases = changed
        else:
            columns.print_aliases = bool(rte.alias is not None and rte.alias_columns) or changed

    def real_names(self, rte: Rte) -> list[str | None]:
        """The present column names; a table's columns may have been renamed since the query was stored."""
        if rte.kind is RteKind.RELATION:
            found = relation(self.session, rte.relid, rte.release)
            return [None if a.dropped else a.name for a in found.attributes]
        return [c.name or None for c in rte.columns]

    def set_join_names(self, rte: Rte, columns: _Columns) -> None:
        left, right = self.columns[columns.left - 1], self.columns[columns.right - 1]
        columns.expand(len(rte.columns))
        changed = False
        for number in range(len(columns.using), len(rte.columns)):
            own = self.child_name(rte, columns, left, right, number)
            if own is None or rte.alias is None:
                columns.names[number] = own
                continue
            name = columns.names[number]
            if name is None:
                name = rte.alias_columns[number] if number < len(rte.alias_columns) else own
                name = self.unique(name, columns)
                columns.names[number] = name
            changed |= name != own
        changed |= self.set_new_join_names(rte, columns, left, right)
        columns.print_aliases = rte.alias is not None and changed

    @staticmethod
    def child_name(rte: Rte, columns: _Columns, left: _Columns, right: _Columns, number: int) -> str | None:
        if columns.left_attnums[number] > 0:
            return left.names[columns.left_attnums[number] - 1]
        if columns.right_attnums[number] > 0:
            return right.names[columns.right_attnums[number] - 1]
        return rte.columns[number].name

    def set_new_join_names(self, rte: Rte, columns: _Columns, left: _Columns, right: _Columns) -> bool:
        """The join's present columns: merged ones first, then those of each side, with columns added since."""
        merged = len(columns.using)
        for number in range(merged):
            columns.new.append((columns.names[number] or "", False))
        place = merged
        changed = False
        for side, attnums in ((left, columns.left_attnums), (right, columns.right_attnums)):
            taken = {attnum for attnum in attnums[:merged] if attnum > 0}
            attnum = 0
            for child, is_new in side.new:
                if is_new:
                    name = self.unique(child, columns) if rte.alias is not None else child
                    changed |= name != child
                    columns.new.append((name, True))
                    continue
                while attnum < len(side.names) and side.names[attnum] is None:
                    attnum += 1
                attnum += 1
                if attnum in taken:
                    continue
                while place < len(columns.names) and columns.names[place] is None:
                    place += 1
                columns.new.append((columns.names[place] or "", False))
                place += 1
        return changed

    def unique(self, name: str, columns: _Columns) -> str:
        """A column name that no other has, by a number behind it (make_colname_unique)."""
        used = {n for n in columns.names if n is not None}
        used.update(n for n, _ in columns.new)
        used.update(self.using_names)
        used.update(columns.parent_using)
        number, candidate = 0, name
        while candidate in used:
            number += 1
            candidate = numbered(name, number)
        return candidate


def numbered(name: str, number: int) -> str:
    """`name_1`, truncated to the length of a name."""
    suffix = f"_{number}"
    room = MAX_NAME - len(suffix)
    return name.encode()[:room].decode(errors="ignore") + suffix


def names_of_query(session: Session, query: Query, parents: Sequence[Names]) -> Names:
    chooser = _Chooser(session, query)
    names = Names(
        query.rtable,
        _relation_names(session, query, parents),
        [columns.names for columns in chooser.columns],
        query.ctes,
    )
    for varno, columns in enumerate(chooser.columns, 1):
        names.joins[varno] = JoinNames(columns.using)
        names.aliases[varno] = ([name for name, _ in columns.new], columns.print_aliases)
    return names


def _relation_names(session: Session, query: Query, parents: Sequence[Names]) -> list[str | None]:
    """A name for every relation, unique in the query and the queries around it (set_rtable_names)."""
    counters = {name: 0 for level in parents for name in level.relations if name is not None}
    result: list[str | None] = []
    for rte in query.rtable:
        name = _own_name(session, rte)
        if name is not None:
            if name in counters:
                base = name
                while name in counters:
                    counters[base] += 1
                    name = numbered(base, counters[base])
            counters[name] = 0
        result.append(name)
    return result


def _own_name(session: Session, rte: Rte) -> str | None:
    if rte.alias is not None:
        return rte.alias
    if rte.kind is RteKind.RELATION:
        return relation(session, rte.relid).name
    return None if rte.kind is RteKind.JOIN else rte.name


def relation_text(session: Session, relid: int, levels: Sequence[Names]) -> str:
    """A relation's name in FROM, schema-qualified where a WITH query or the search_path hides it
    (generate_relation_name)."""
    found = relation(session, relid)
    hidden = any(cte.name == found.name for level in levels for cte in level.ctes)
    if hidden or lookup.relid(session, RangeVar(found.name)) != relid:
        return quote_qualified(found.schema, found.name)
    return quote_qualified(None, found.name)
