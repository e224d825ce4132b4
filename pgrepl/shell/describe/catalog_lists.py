r"""Lists of what PostgreSQL itself brings, or of which there is nothing: `\da`, `\dC`, `\do`, `\dx`, `\dF` and others.
They are rare, so each is a query over the system catalogs, psql's own (describe.c); ECHO_HIDDEN shows it. Most are
in lists.sql.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.tree import Column
from pgrepl.query.run import play
from pgrepl.shell.describe.listing import (
    NamePattern,
    PatternPart,
    print_listing,
    query_text,
    read_pattern,
    read_type_pattern,
    session_of,
    where_clause,
)
from pgrepl.shell.shell import quote_literal
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.types import oids
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

_FILE = "lists.sql"
_NUMBERS = frozenset((oids.INT2, oids.INT4, oids.INT8, oids.OID))
_NO_SYSTEM = ("n.nspname <> 'pg_catalog'", "n.nspname <> 'information_schema'")
_HANDLED = "l.lanplcallfoid != 0"
_USUAL = (*_NO_SYSTEM, _HANDLED)


class _Names(NamedTuple):
    """The columns that a pattern is about, and the condition that stands for a schema's where it names none."""

    name: str
    schema: str = ""
    visible: str = ""
    other: str = ""  # a second column for the name


def _matches(pattern: NamePattern | None, names: _Names) -> list[str]:
    """The conditions of a pattern, as processSQLNamePattern makes them."""
    conditions: list[str] = []
    if pattern is not None:
        if pattern.name.regex != "^(.*)$":
            tests = [_test(column, pattern.name) for column in (names.name, names.other) if column]
            conditions.append(tests[0] if len(tests) == 1 else "({}\n        OR {})".format(*tests))
        if pattern.schema is not None and names.schema:
            return conditions + ([_test(names.schema, pattern.schema)] if pattern.schema.regex != "^(.*)$" else [])
    return [*conditions, names.visible] if names.visible else conditions


def _test(column: str, part: PatternPart) -> str:
    return f"{column} OPERATOR(pg_catalog.~) {quote_literal(part.regex).lstrip()} COLLATE pg_catalog.default"


def _usual(pattern: NamePattern | None, system: bool) -> list[str]:
    return [] if system or pattern is not None else list(_NO_SYSTEM)


def _casts(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    sides = [
        _Names(
            f"{t}.typname", f"{n}.nspname", f"pg_catalog.pg_type_is_visible({t}.oid)",
            f"pg_catalog.format_type({t}.oid, NULL)",
        )
        for t, n in (("ts", "ns"), ("tt", "nt"))
    ]  # fmt: skip
    tests = [" AND ".join(["true", *_matches(pattern, side)]) for side in sides]
    return _query("C", found=f"({tests[0]}) OR ({tests[1]})", marks=" +" if verbose else " -")


def _descriptions(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    def part(kind: str, of: str, name: str, visible: str, joins: str) -> str:
        conditions = _usual(pattern, system) + _matches(pattern, _Names(name, "n.nspname", visible))
        return (
            f"  SELECT o.oid as oid, o.tableoid as tableoid, n.nspname as nspname,\n"
            f"  CAST({name} AS pg_catalog.text) as name, CAST('{kind}' AS pg_catalog.text) as object\n"
            f"  FROM pg_catalog.{of} o\n{joins}{where_clause(conditions)}"
        )

    schema = "\n    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = "
    of_table = f"    JOIN pg_catalog.pg_class c ON c.oid = {{}}{schema}c.relnamespace"
    of_type = f"    JOIN pg_catalog.pg_type t ON t.oid = {{}}{schema}t.typnamespace"
    on_table, on_type = "pg_catalog.pg_table_is_visible(c.oid)", "pg_catalog.pg_type_is_visible(t.oid)"
    parts = [
        part("table constraint", "pg_constraint", "o.conname", on_table, of_table.format("o.conrelid")),
        part("domain constraint", "pg_constraint", "o.conname", on_type, of_type.format("o.contypid")),
        part("trigger", "pg_trigger", "o.tgname", on_table, of_table.format("o.tgrelid")),
    ]
    return (
        'SELECT DISTINCT tt.nspname AS "Schema", tt.name AS "Name", tt.object AS "Object", '
        'd.description AS "Description"\n'
        "FROM (\n" + "\nUNION ALL\n".join(parts) + "\n) AS tt\n"
        "  JOIN pg_catalog.pg_description d ON (tt.oid = d.objoid AND tt.tableoid = d.classoid AND d.objsubid = 0)\n"
        "ORDER BY 1, 2, 3;"
    )


def _operators(
    pattern: NamePattern | None,
    types: Sequence[NamePattern | None],
    verbose: bool,
    system: bool,
    *,
    leakproof: bool = False,
) -> str:
    r"""types: those of the operands; None is `-`. leakproof: a column of psql 18."""
    columns = ("oprright",) if len(types) == 1 else ("oprleft", "oprright")[: len(types)]
    joins = "".join(
        f"\n     LEFT JOIN pg_catalog.pg_type t{n} ON t{n}.oid = o.{column}"
        f"\n     LEFT JOIN pg_catalog.pg_namespace nt{n} ON nt{n}.oid = t{n}.typnamespace"
        for n, column in enumerate(columns)
    )
    conditions = _usual(pattern, system)
    conditions += _matches(pattern, _Names("o.oprname", "n.nspname", "pg_catalog.pg_operator_is_visible(o.oid)"))
    if len(types) == 1:
        conditions.append("o.oprleft = 0")
    for n, wanted in enumerate(types):
        if wanted is None:
            conditions.append(f"t{n}.typname IS NULL")
        else:
            visible = f"pg_catalog.pg_type_is_visible(t{n}.oid)"
            other = f"pg_catalog.format_type(t{n}.oid, NULL)"
            conditions += _matches(wanted, _Names(f"t{n}.typname", f"nt{n}.nspname", visible, other))
    return (
        'SELECT n.nspname as "Schema",\n  o.oprname AS "Name",\n'
        "  CASE WHEN o.oprkind='l' THEN NULL ELSE pg_catalog.format_type(o.oprleft, NULL) END AS \"Left arg type\",\n"
        "  CASE WHEN o.oprkind='r' THEN NULL ELSE pg_catalog.format_type(o.oprright, NULL) END AS \"Right arg type\",\n"
        '  pg_catalog.format_type(o.oprresult, NULL) AS "Result type",\n'
        + ('  o.oprcode AS "Function",\n' if verbose else "")
        + ("  CASE WHEN p.proleakproof THEN 'yes' ELSE 'no' END AS \"Leakproof?\",\n" if verbose and leakproof else "")
        + "  coalesce(pg_catalog.obj_description(o.oid, 'pg_operator'),\n"
        "           pg_catalog.obj_description(o.oprcode, 'pg_proc')) AS \"Description\"\n"
        "FROM pg_catalog.pg_operator o\n     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace"
        + ("\n     LEFT JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode" if verbose and leakproof else "")
        + joins
        + where_clause(conditions)
        + "\nORDER BY 1, 2, 3, 4;"
    )


_PARTITION_SIZES = (
    ",\n     LATERAL (SELECT pg_catalog.pg_size_pretty(sum(\n                 CASE WHEN ppt.isleaf AND ppt.level = 1\n"
    "                      THEN pg_catalog.pg_table_size(ppt.relid) ELSE 0 END)) AS dps,\n"
    "                     pg_catalog.pg_size_pretty(sum(pg_catalog.pg_table_size(ppt.relid))) AS tps\n"
    "              FROM pg_catalog.pg_partition_tree(c.oid) ppt) s"
)


def _partitioned(kinds: str, pattern: NamePattern | None, verbose: bool) -> tuple[str, str]:
    r"""Title and query of `\dP`; kinds are its letters t, i and n."""
    tables, indexes = "t" in kinds or "i" not in kinds, "i" in kinds or "t" not in kinds
    nested = "n" in kinds or pattern is not None
    title = "relations" if tables and indexes else "tables" if tables else "indexes"
    columns = ['n.nspname as "Schema"', 'c.relname as "Name"', 'pg_catalog.pg_get_userbyid(c.relowner) as "Owner"']
    if tables and indexes:
        columns.append(
            "CASE c.relkind WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as \"Type\""
        )
    if nested:
        columns.append('inh.inhparent::pg_catalog.regclass as "Parent name"')
    if indexes:
        columns.append('c2.oid::pg_catalog.regclass as "Table"')
    if verbose:
        columns += [
            *(['s.dps as "Leaf partition size"'] if "n" in kinds else []),
            's.tps as "Total size"',
            "pg_catalog.obj_description(c.oid, 'pg_class') as \"Description\"",
        ]
    conditions = ["c.relkind IN (" + ",".join(["'p'"] * tables + ["'I'"] * indexes) + ")"]
    if not nested:
        conditions.append("NOT c.relispartition")
    if pattern is None:
        conditions += ["n.nspname <> 'pg_catalog'", "n.nspname !~ '^pg_toast'", "n.nspname <> 'information_schema'"]
    conditions += _matches(pattern, _Names("c.relname", "n.nspname", "pg_catalog.pg_table_is_visible(c.oid)"))
    order = [
        '"Schema"',
        *(['"Type" DESC'] if tables and indexes else []),
        *(['"Parent name" NULLS FIRST'] if nested else []),
    ]
    query = (
        "SELECT "
        + ",\n  ".join(columns)
        + "\nFROM pg_catalog.pg_class c\n     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        + ("\n     LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid" if indexes else "")
        + ("\n     LEFT JOIN pg_catalog.pg_class c2 ON i.indrelid = c2.oid" if indexes else "")
        + ("\n     LEFT JOIN pg_catalog.pg_inherits inh ON c.oid = inh.inhrelid" if nested else "")
        + (_PARTITION_SIZES if verbose else "")
        + where_clause(conditions)
        + f"\nORDER BY {', '.join([*order, chr(34) + 'Name' + chr(34)])};"
    )
    return f"List of partitioned {title}", query


def _escaped(text: str | None) -> str | None:
    """An operator's name as a pattern: its characters stand for themselves, but for `*` and `?`."""
    return text if text is None or '"' in text else re.sub(r"[|+()\[\]{}^\\]", lambda match: f'"{match[0]}"', text)


# --- the lists --------------------------------------------------------------------------------------------------------


class _List(NamedTuple):
    title: str
    names: tuple[_Names, ...] = ()  # what its patterns are about
    conditions: tuple[str, ...] = ()  # those in _USUAL only without a pattern and an S


_METHOD = _Names("am.amname")
_TYPE = _Names("t.typname", "tn.nspname", "pg_catalog.pg_type_is_visible(t.oid)", "pg_catalog.format_type(t.oid, NULL)")
_LISTS = {
    "a": _List(
        "List of aggregate functions",
        (_Names("p.proname", "n.nspname", "pg_catalog.pg_function_is_visible(p.oid)"),),
        ("p.prokind = 'a'", *_NO_SYSTEM),
    ),
    "A": _List("List of access methods", (_Names("amname"),)),
    "Ac": _List("List of operator classes", (_METHOD, _TYPE)),
    "Af": _List("List of operator families", (_METHOD, _TYPE)),
    "Ao": _List("List of operators of operator families", (_METHOD, _Names("of.opfname", "nsf.nspname"))),
    "Ap": _List("List of support functions of operator families", (_METHOD, _Names("of.opfname", "ns.nspname"))),
    "b": _List("List of tablespaces", (_Names("spcname"),)),
    "c": _List("List of conversions", (_Names("c.conname", "n.nspname"),), _NO_SYSTEM),
    "es": _List("List of foreign servers", (_Names("s.srvname"),)),
    "et": _List("List of foreign tables", (_Names("c.relname", "n.nspname", "pg_catalog.pg_table_is_visible(c.oid)"),)),
    "eu": _List("List of user mappings", (_Names("um.srvname", other="um.usename"),)),
    "ew": _List("List of foreign-data wrappers", (_Names("fdwname"),)),
    "F": _List(
        "List of text search configurations",
        (_Names("c.cfgname", "n.nspname", "pg_catalog.pg_ts_config_is_visible(c.oid)"),),
    ),
    "Fd": _List(
        "List of text search dictionaries",
        (_Names("d.dictname", "n.nspname", "pg_catalog.pg_ts_dict_is_visible(d.oid)"),),
    ),
    "Fp": _List(
        "List of text search parsers",
        (_Names("p.prsname", "n.nspname", "pg_catalog.pg_ts_parser_is_visible(p.oid)"),),
    ),
    "Ft": _List(
        "List of text search templates",
        (_Names("t.tmplname", "n.nspname", "pg_catalog.pg_ts_template_is_visible(t.oid)"),),
    ),
    "L": _List("List of languages", (_Names("l.lanname"),), (_HANDLED,)),
    "l": _List("Large objects"),
    "O": _List(
        "List of collations",
        (_Names("c.collname", "n.nspname", "pg_catalog.pg_collation_is_visible(c.oid)"),),
        ("n.oid = c.collnamespace", *_NO_SYSTEM,
         "c.collencoding IN (-1, pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding()))"),
    ),
    "X": _List(
        "List of extended statistics",
        (_Names("es.stxname", "es.stxnamespace::pg_catalog.regnamespace::pg_catalog.text"),),
    ),
    "x": _List("List of installed extensions", (_Names("e.extname"),)),
    "y": _List("List of event triggers", (_Names("evtname"),)),
}  # fmt: skip
_DETAILED = {"F": "text search configuration", "Fp": "text search parser", "x": "extension"}  # each by itself with `+`
_OWN_QUERIES = {"C": ("List of casts", _casts), "d": ("Object descriptions", _descriptions)}


def list_objects(shell: Shell, kind: str, args: Sequence[str | None], verbose: bool, system: bool) -> bool:
    text = args[0] if args else None
    if kind in _LISTS:
        return _list(shell, kind, args, verbose, system)
    pattern = read_pattern(shell, _escaped(text) if kind == "o" else text, qualified=True)
    if kind in _OWN_QUERIES:
        title, query = _OWN_QUERIES[kind]
        return _print(shell, title, query(pattern, verbose, system))
    if kind != "o":
        return _print(shell, *_partitioned(kind[1:], pattern, verbose))
    types = [None if word == "-" else read_type_pattern(shell, word) for word in args[1:3]]
    newer = session_of(shell).settings.release >= 18
    return _print(shell, "List of operators", _operators(pattern, types, verbose, system, leakproof=newer))


def _list(shell: Shell, kind: str, args: Sequence[str | None], verbose: bool, system: bool) -> bool:
    title, columns, always = _LISTS[kind]
    text = args[0] if args else None
    conditions = [condition for condition in always if condition not in _USUAL or (text is None and not system)]
    for number, (names, word) in enumerate(zip(columns, [*args, None], strict=False)):
        if number and word is None:
            continue
        pattern = read_pattern(shell, word, qualified=bool(names.schema), dots=1 if kind == "L" else 0)
        tests = _matches(pattern, names)
        conditions += [_query("Af of a type", tests)] if number and kind == "Af" else tests
    newer = session_of(shell).settings.release >= 18
    marks = (" +8" if newer else " +7") if verbose else (" -*" if newer else " -")
    query = _query(kind, conditions, marks=marks)
    if not verbose or kind not in _DETAILED:
        return _print(shell, title, query)
    result = _rows(shell, query)
    if result is None:
        return False
    if not result[1]:
        if not shell.quiet:
            what = _DETAILED[kind]
            shell.error(f"Did not find any {what}s." if text is None else f'Did not find any {what} named "{text}".')
        return False
    return all(_describe(shell, kind, [cell or "" for cell in row]) for row in result[1])


def _query(name: str, conditions: Sequence[str] = (), found: str = "", *, marks: str = " ") -> str:
    """A query of lists.sql, of the lines with these marks."""
    options = query_text(_FILE, "options")
    lines = re.sub(r"\{options (\w+)\}", lambda of: options.replace("{of}", of[1]), query_text(_FILE, name, marks))
    where = f"{where_clause(conditions)[1:]}\n" if conditions else ""
    joined = "".join(f"  AND {condition}\n" for condition in conditions)
    return lines.replace("{where}", where).replace("{and}", joined).replace("{found}", found)


def _describe(shell: Shell, kind: str, row: Sequence[str]) -> bool:
    """An extension's objects (listOneExtensionContents), a configuration's dictionaries (describeOneTSConfig), or a
    parser's functions and tokens (describeOneTSParser)."""
    if kind == "x":
        return _print(shell, f'Objects in extension "{row[0]}"', _query("x contents", found=quote_literal(row[0])))
    if kind == "F":
        oid, name, schema, parser, parser_schema = row
        title = f'Text search configuration "{schema}.{name}"\nParser: "{parser_schema}.{parser}"'
        return _print(shell, title, _query("F dictionaries", found=oid), footers=())
    oid, schema, name = row
    parser = f'parser "{schema}.{name}"'
    return _print(shell, f"Text search {parser}", _query("Fp methods", found=oid), footers=()) and _print(
        shell, f"Token types for {parser}", _query("Fp tokens", found=oid)
    )


# --- running ----------------------------------------------------------------------------------------------------------


def _print(shell: Shell, title: str, text: str, footers: Sequence[str] | None = None) -> bool:
    result = _rows(shell, text)
    if result is None:
        return False
    columns, rows = result
    right = [place for place, column in enumerate(columns) if column.type in _NUMBERS]
    return print_listing(shell, title, [column.name for column in columns], rows, footers=footers, right=right)


def _rows(shell: Shell, text: str) -> tuple[list[Column], list[list[str | None]]] | None:
    """The columns and rows of a query, which ECHO_HIDDEN shows; None: it is not to be run."""
    if not shell.echo_hidden(text):
        return None
    session = session_of(shell)
    (raw,) = parse(text)
    assert isinstance(raw.stmt, SelectStmt)
    query = analyze_query(session, raw.stmt)
    style = session.text_style
    types = [column.type for column in query.columns]
    rows = [
        [None if value is None else write_text(value, typoid, style) for value, typoid in zip(row, types, strict=True)]
        for row in play(session, query)
    ]
    return list(query.columns), rows
