"""FROM as text: relations with their aliases, joins, functions, VALUES; and the aliases of relations and columns in a
deparsed query: unique relation names, and column names that USING can merge (set_deparse_for_query).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.print.print_expr import collation_text, print_expr, print_list, print_top
from pgrepl.expr.print.printer import JOIN, STEP, VAR, JoinNames, Names, Printer, type_with_typmod
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.sql.nodes import CoercionForm, JoinType, RangeVar
from pgrepl.types import builtin

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

    def __init__(self, session: Session, query: tree.Query) -> None:
        self.session = session
        self.rtable = query.rtable
        self.columns = [_Columns() for _ in query.rtable]
        self.using_names: list[str] = []
        self.unique_using = any(self.has_dangerous_using(item) for item in query.from_)
        for item in query.from_:
            self.set_using_names(item, [])
        for rte, columns in zip(self.rtable, self.columns, strict=True):
            if rte.kind is tree.RteKind.JOIN:
                self.set_join_names(rte, columns)
            else:
                self.set_relation_names(rte, columns)

    def has_dangerous_using(self, item: tree.RangeRef | tree.Join) -> bool:
        """Whether a join merges columns into an expression. That column can only be referred to by name, so its name
        must be unique."""
        if isinstance(item, tree.RangeRef):
            return False
        rte = self.rtable[item.varno - 1]
        if rte.alias is None and any(not isinstance(v, tree.Var) for v in rte.join_vars[: len(item.using)]):
            return True
        return self.has_dangerous_using(item.left) or self.has_dangerous_using(item.right)

    def set_using_names(self, item: tree.RangeRef | tree.Join, parent_using: list[str]) -> None:
        if isinstance(item, tree.RangeRef):
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

    def set_relation_names(self, rte: tree.Rte, columns: _Columns) -> None:
        real = self.real_names(rte)
        columns.expand(len(real))
        changed = False
        for number, own in enumerate(real):
            if own is None:
                continue
            name = self.given_name(rte, columns, number, own)
            columns.new.append((name, number >= len(rte.columns)))
            changed |= name != own
        if rte.kind is tree.RteKind.FUNCTION:
            columns.print_aliases = not isinstance(rte.functions[0], tree.JsonTableExpr)
        elif rte.kind is tree.RteKind.RELATION:
            columns.print_aliases = changed
        else:
            columns.print_aliases = bool(rte.alias is not None and rte.alias_columns) or changed

    def given_name(self, rte: tree.Rte, columns: _Columns, number: int, own: str) -> str:
        """The name of a column: as USING has it, its alias, or its own, made unique."""
        name = columns.names[number]
        if name is None:
            name = rte.alias_columns[number] if number < len(rte.alias_columns) else own
            name = columns.names[number] = self.unique(name, columns)
        return name

    def real_names(self, rte: tree.Rte) -> list[str | None]:
        """The present column names; a table's columns may have been renamed since the query was stored."""
        if rte.kind is tree.RteKind.RELATION:
            rel = relation(self.session, rte.relid, rte.release)
            return [None if a.dropped else a.name for a in rel.attributes]
        return [c.name or None for c in rte.columns]

    def set_join_names(self, rte: tree.Rte, columns: _Columns) -> None:
        left, right = self.columns[columns.left - 1], self.columns[columns.right - 1]
        columns.expand(len(rte.columns))
        changed = False
        for number in range(len(columns.using), len(rte.columns)):
            own = self.child_name(rte, columns, left, right, number)
            if own is None or rte.alias is None:
                columns.names[number] = own
                continue
            name = self.given_name(rte, columns, number, own)
            changed |= name != own
        changed |= self.set_new_join_names(rte, columns, left, right)
        columns.print_aliases = rte.alias is not None and changed

    @staticmethod
    def child_name(rte: tree.Rte, columns: _Columns, left: _Columns, right: _Columns, number: int) -> str | None:
        if columns.left_attnums[number] > 0:
            return left.names[columns.left_attnums[number] - 1]
        if columns.right_attnums[number] > 0:
            return right.names[columns.right_attnums[number] - 1]
        return rte.columns[number].name

    def set_new_join_names(self, rte: tree.Rte, columns: _Columns, left: _Columns, right: _Columns) -> bool:
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


def names_of_query(session: Session, query: tree.Query, parents: Sequence[Names]) -> Names:
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


def _relation_names(session: Session, query: tree.Query, parents: Sequence[Names]) -> list[str | None]:
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


def _own_name(session: Session, rte: tree.Rte) -> str | None:
    if rte.alias is not None:
        return rte.alias
    if rte.kind is tree.RteKind.RELATION:
        return relation(session, rte.relid).name
    return None if rte.kind is tree.RteKind.JOIN else rte.name


def relation_text(session: Session, relid: int, levels: Sequence[Names]) -> str:
    """A relation's name in FROM, schema-qualified where a WITH query or the search_path hides it
    (generate_relation_name)."""
    rel = relation(session, relid)
    hidden = any(cte.name == rel.name for level in levels for cte in level.ctes)
    if hidden or lookup.relid(session, RangeVar(rel.name)) != relid:
        return quote_qualified(rel.schema, rel.name)
    return quote_qualified(None, rel.name)


_UNNEST = 2331  # unnest(anyarray)

PrintQuery = Callable[[tree.Query, Printer], None]  # prints the queries in FROM


def print_from(query: tree.Query, prefix: str, out: Printer, print_subquery: PrintQuery) -> None:
    first = True
    for item in query.from_:
        if isinstance(item, tree.RangeRef) and not query.rtable[item.varno - 1].in_from:
            continue
        if first:
            out.keyword(prefix, -STEP, STEP, 2)
            first = False
            _print_item(item, query, out, print_subquery)
            continue
        out.put(", ")
        part = out.apart()
        _print_item(item, query, part, print_subquery)
        text = part.text()
        if out.style.indent and out.style.wrap >= 0:
            if text.startswith("\n"):
                out.strip_spaces()
            elif len(out.text().rpartition("\n")[2].encode()) + len(text.encode()) > out.style.wrap:
                out.keyword("", -STEP, STEP, VAR)
        out.put(text)


def _print_item(item: tree.RangeRef | tree.Join, query: tree.Query, out: Printer, print_subquery: PrintQuery) -> None:
    if isinstance(item, tree.Join):
        _print_join(item, query, out, print_subquery)
        return
    rte = query.rtable[item.varno - 1]
    if rte.lateral:
        out.put("LATERAL ")
    coldefs = False
    if rte.kind is tree.RteKind.RELATION:
        out.put(("" if rte.inh else "ONLY ") + relation_text(out.session, rte.relid, out.names))
    elif rte.kind is tree.RteKind.SUBQUERY:
        assert rte.subquery is not None
        out.put("(")
        print_subquery(rte.subquery, out)
        out.put(")")
    elif rte.kind is tree.RteKind.FUNCTION:
        coldefs = _print_functions(rte, out)
    elif rte.kind is tree.RteKind.VALUES:
        out.put("(")
        print_values(rte, out)
        out.put(")")
    elif rte.kind is tree.RteKind.CTE:
        out.put(quote_identifier(rte.cte or ""))
    _print_alias(rte, item.varno, out)
    if coldefs:
        _print_coldefs(rte.columns, out.names[0].columns[item.varno - 1], out)
    else:
        _print_column_aliases(item.varno, out)
    if rte.sample is not None:
        _print_sample(rte.sample, out)


def _print_alias(rte: tree.Rte, varno: int, out: Printer) -> None:
    """Print an alias as get_rte_alias does, unless it equals the relation's own name."""
    name = out.names[0].relations[varno - 1] or ""
    _, print_columns = out.names[0].aliases[varno]
    if rte.alias is None and not print_columns:
        if rte.functions and isinstance(rte.functions[0], tree.JsonTableExpr):
            return
        if rte.kind is tree.RteKind.RELATION:
            if relation(out.session, rte.relid).name == name:
                return
        elif rte.kind is tree.RteKind.CTE and rte.cte == name:
            return
    out.put(f" {quote_identifier(name)}")


def _print_column_aliases(varno: int, out: Printer) -> None:
    names, shown = out.names[0].aliases[varno]
    if shown and names:
        out.put(f"({', '.join(quote_identifier(name) for name in names)})")


def print_values(rte: tree.Rte, out: Printer) -> None:
    out.put("VALUES ")
    for number, row in enumerate(rte.values):
        out.put(", (" if number else "(")
        for place, expr in enumerate(row):
            out.put("," if place else "")
            print_top(expr, out, False)
        out.put(")")


def _print_functions(rte: tree.Rte, out: Printer) -> bool:
    """Print a function in FROM. Returns whether a column definition list must follow its alias."""
    coldefs = False
    if len(rte.functions) == 1 and not (rte.function_coldefs[0] and rte.ordinality):
        _print_call(rte.functions[0], out)
        coldefs = rte.function_coldefs[0]
    elif all(isinstance(f, tree.FuncExpr) and f.func == _UNNEST for f in rte.functions) and not any(
        rte.function_coldefs
    ):
        args = [arg for f in rte.functions if isinstance(f, tree.FuncExpr) for arg in f.args]
        out.put("UNNEST(")
        print_list(args, out, True)
        out.put(")")
    else:
        out.put("ROWS FROM(")
        first = 0
        for number, (function, count) in enumerate(zip(rte.functions, rte.function_columns, strict=True)):
            out.put(", " if number else "")
            _print_call(function, out)
            columns = rte.columns[first : first + count]
            if rte.function_coldefs[number]:
                out.put(" AS ")
                _print_coldefs(columns, [c.name for c in columns], out)
            first += count
        out.put(")")
    if rte.ordinality:
        out.put(" WITH ORDINALITY")
    return coldefs


def _print_call(call: tree.Expr, out: Printer) -> None:
    """Print a function in FROM; an expression that is printed without call syntax is put into CAST(…)
    (get_rule_expr_funccall)."""
    looks_like_call = isinstance(
        call, (tree.NullIfExpr, tree.CoalesceExpr, tree.MinMaxExpr, tree.SQLValueFunction, tree.SqlJson)
    ) or (isinstance(call, tree.FuncExpr) and call.form in (CoercionForm.EXPLICIT_CALL, CoercionForm.SQL_SYNTAX))
    if looks_like_call:
        print_expr(call, out, True)
        return
    out.put("CAST(")
    print_expr(call, out, False)
    out.put(f" AS {type_with_typmod(out.session, call.type, call.typmod)})")


def _print_coldefs(columns: Sequence[tree.Column], names: Sequence[str | None], out: Printer) -> None:
    out.put("(")
    for number, (column, name) in enumerate(zip(columns, names, strict=False)):
        out.put(", " if number else "")
        out.put(f"{quote_identifier(name or '')} {type_with_typmod(out.session, column.type, column.typmod)}")
        if column.collation and column.collation != lookup.collation(column.type):
            out.put(f" COLLATE {collation_text(out, column.collation)}")
    out.put(")")


def _print_sample(sample: tree.TableSample, out: Printer) -> None:
    method = builtin.proc_by_oid(sample.method)
    assert method is not None
    out.put(f" TABLESAMPLE {quote_identifier(method.name)} (")
    for number, arg in enumerate(sample.args):
        out.put(", " if number else "")
        print_expr(arg, out, False)
    out.put(")")
    if sample.repeatable is not None:
        out.put(" REPEATABLE (")
        print_expr(sample.repeatable, out, False)
        out.put(")")


_JOINS = {JoinType.LEFT: " LEFT JOIN ", JoinType.FULL: " FULL JOIN ", JoinType.RIGHT: " RIGHT JOIN "}


def _print_join(join: tree.Join, query: tree.Query, out: Printer, print_subquery: PrintQuery) -> None:
    rte = query.rtable[join.varno - 1]
    parens = not out.style.paren or rte.alias is not None
    right = join.right
    right_parens = out.style.paren and isinstance(right, tree.Join) and query.rtable[right.varno - 1].alias is None
    out.put("(" if parens else "")
    _print_item(join.left, query, out, print_subquery)
    word = _JOINS.get(join.kind) or (" JOIN " if join.quals is not None else " CROSS JOIN ")
    out.keyword(word, -STEP, STEP, JOIN)
    out.put("(" if right_parens else "")
    _print_item(right, query, out, print_subquery)
    out.put(")" if right_parens else "")
    if join.using:
        names = out.names[0].joins[join.varno].using
        out.put(f" USING ({', '.join(quote_identifier(name) for name in names)})")
        if rte.join_using_alias is not None:
            out.put(f" AS {quote_identifier(rte.join_using_alias)}")
    elif join.quals is not None:
        out.put(" ON " if out.style.paren else " ON (")
        print_expr(join.quals, out, False)
        out.put("" if out.style.paren else ")")
    elif join.kind in _JOINS:
        out.put(" ON TRUE")
    out.put(")" if parens else "")
    if rte.alias is not None:
        out.put(f" {quote_identifier(out.names[0].relations[join.varno - 1] or '')}")
        _print_column_aliases(join.varno, out)
