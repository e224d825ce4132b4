r"""Lists of what PostgreSQL itself brings, or of which there is nothing: `\da`, `\dC`, `\do`, `\dx` and others. They
are rare, so each is a query over the system catalogs, as in psql (describe.c); ECHO_HIDDEN shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.session.session import Session
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.query.run import play
from pgrepl.shell.describe.listing import (
    NamePattern,
    parse_pattern,
    print_listing,
    read_pattern,
    read_type_pattern,
    session_of,
)
from pgrepl.shell.shell import quote_literal
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

_NO_SYSTEM = ["n.nspname <> 'pg_catalog'", "n.nspname <> 'information_schema'"]


def _matches(pattern: NamePattern | None, name: str, schema: str = "", visible: str = "", other: str = "") -> list[str]:
    """The conditions of a pattern, as processSQLNamePattern makes them. other: a second column for the name."""
    found: list[str] = []
    if pattern is not None:
        regex = quote_literal(pattern.name.regex).lstrip()
        if pattern.name.regex != "^(.*)$":
            tests = [f"{column} OPERATOR(pg_catalog.~) {regex}" for column in (name, other) if column]
            found.append(tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})")
        if pattern.schema is not None and schema:
            found.append(f"{schema} OPERATOR(pg_catalog.~) {quote_literal(pattern.schema.regex).lstrip()}")
            return found
    return [*found, visible] if visible else found


def _where(conditions: Sequence[str]) -> str:
    return "\nWHERE " + "\n  AND ".join(conditions) if conditions else ""


def _usual(pattern: NamePattern | None, system: bool) -> list[str]:
    return [] if system or pattern is not None else list(_NO_SYSTEM)


def _aggregates(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    conditions = ["p.prokind = 'a'", *_usual(pattern, system)]
    conditions += _matches(pattern, "p.proname", "n.nspname", "pg_catalog.pg_function_is_visible(p.oid)")
    return (
        'SELECT n.nspname as "Schema",\n  p.proname AS "Name",\n'
        '  pg_catalog.format_type(p.prorettype, NULL) AS "Result data type",\n'
        "  CASE WHEN p.pronargs = 0\n    THEN CAST('*' AS pg_catalog.text)\n"
        '    ELSE pg_catalog.pg_get_function_arguments(p.oid)\n  END AS "Argument data types",\n'
        "  pg_catalog.obj_description(p.oid, 'pg_proc') as \"Description\"\n"
        "FROM pg_catalog.pg_proc p\n     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
        + _where(conditions)
        + "\nORDER BY 1, 2, 4;"
    )


def _access_methods(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    more = ',\n  amhandler AS "Handler",\n  pg_catalog.obj_description(oid, \'pg_am\') AS "Description"'
    return (
        "SELECT amname AS \"Name\",\n  CASE amtype WHEN 'i' THEN 'Index' WHEN 't' THEN 'Table' END AS \"Type\""
        + (more if verbose else "")
        + "\nFROM pg_catalog.pg_am"
        + _where(_matches(pattern, "amname"))
        + "\nORDER BY 1;"
    )


def _tablespaces(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    more = (
        ",\n  pg_catalog.array_to_string(spcacl, E'\\n') AS \"Access privileges\",\n"
        '  spcoptions AS "Options",\n  pg_catalog.pg_size_pretty(pg_catalog.pg_tablespace_size(oid)) AS "Size",\n'
        "  pg_catalog.shobj_description(oid, 'pg_tablespace') AS \"Description\""
    )
    return (
        'SELECT spcname AS "Name",\n  pg_catalog.pg_get_userbyid(spcowner) AS "Owner",\n  \'\' AS "Location"'
        + (more if verbose else "")
        + "\nFROM pg_catalog.pg_tablespace"
        + _where(_matches(pattern, "spcname"))
        + "\nORDER BY 1;"
    )


def _casts(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    sides = [
        " AND ".join(
            [
                "true",
                *_matches(
                    pattern,
                    f"{t}.typname",
                    f"{n}.nspname",
                    f"pg_catalog.pg_type_is_visible({t}.oid)",
                    f"pg_catalog.format_type({t}.oid, NULL)",
                ),
            ]
        )
        for t, n in (("ts", "ns"), ("tt", "nt"))
    ]
    return (
        'SELECT pg_catalog.format_type(castsource, NULL) AS "Source type",\n'
        '       pg_catalog.format_type(casttarget, NULL) AS "Target type",\n'
        "       CASE WHEN c.castmethod = 'b' THEN '(binary coercible)'\n"
        "            WHEN c.castmethod = 'i' THEN '(with inout)'\n            ELSE p.proname\n"
        '       END AS "Function",\n'
        "       CASE WHEN c.castcontext = 'e' THEN 'no'\n"
        "            WHEN c.castcontext = 'a' THEN 'in assignment'\n            ELSE 'yes'\n"
        '       END AS "Implicit?"'
        + (",\n       pg_catalog.obj_description(c.oid, 'pg_cast') AS \"Description\"" if verbose else "")
        + "\nFROM pg_catalog.pg_cast c LEFT JOIN pg_catalog.pg_proc p\n     ON c.castfunc = p.oid\n"
        "     LEFT JOIN pg_catalog.pg_type ts\n     ON c.castsource = ts.oid\n"
        "     LEFT JOIN pg_catalog.pg_namespace ns\n     ON ns.oid = ts.typnamespace\n"
        "     LEFT JOIN pg_catalog.pg_type tt\n     ON c.casttarget = tt.oid\n"
        "     LEFT JOIN pg_catalog.pg_namespace nt\n     ON nt.oid = tt.typnamespace\n"
        f"WHERE ( ({sides[0]}) OR ({sides[1]}) )\nORDER BY 1, 2;"
    )


def _conversions(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT n.nspname AS "Schema",\n       c.conname AS "Name",\n'
        '       pg_catalog.pg_encoding_to_char(c.conforencoding) AS "Source",\n'
        '       pg_catalog.pg_encoding_to_char(c.contoencoding) AS "Destination",\n'
        "       CASE WHEN c.condefault THEN 'yes' ELSE 'no' END AS \"Default?\""
        + (",\n       pg_catalog.obj_description(c.oid, 'pg_conversion') AS \"Description\"" if verbose else "")
        + "\nFROM pg_catalog.pg_conversion c\n     JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace"
        + _where(_usual(pattern, system) + _matches(pattern, "c.conname", "n.nspname"))
        + "\nORDER BY 1, 2;"
    )


def _descriptions(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    def part(kind: str, of: str, name: str, visible: str, joins: str) -> str:
        conditions = _usual(pattern, system) + _matches(pattern, name, "n.nspname", visible)
        return (
            f"  SELECT o.oid as oid, o.tableoid as tableoid, n.nspname as nspname,\n"
            f"  CAST({name} AS pg_catalog.text) as name, CAST('{kind}' AS pg_catalog.text) as object\n"
            f"  FROM pg_catalog.{of} o\n{joins}{_where(conditions)}"
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


def _languages(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    more = (
        ',\n       NOT l.lanispl AS "Internal language",\n'
        '       l.lanplcallfoid::pg_catalog.regprocedure AS "Call handler",\n'
        '       l.lanvalidator::pg_catalog.regprocedure AS "Validator",\n'
        '       l.laninline::pg_catalog.regprocedure AS "Inline handler",\n'
        "       pg_catalog.array_to_string(l.lanacl, E'\\n') AS \"Access privileges\""
    )
    usual = [] if system or pattern is not None else ["l.lanplcallfoid != 0"]
    return (
        'SELECT l.lanname AS "Name",\n       pg_catalog.pg_get_userbyid(l.lanowner) as "Owner",\n'
        '       l.lanpltrusted AS "Trusted"'
        + (more if verbose else "")
        + ",\n       pg_catalog.obj_description(l.oid, 'pg_language') AS \"Description\"\nFROM pg_catalog.pg_language l"
        + _where(_matches(pattern, "l.lanname") + usual)
        + "\nORDER BY 1;"
    )


def _collations(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    conditions = ["n.oid = c.collnamespace", *_usual(pattern, system)]
    conditions.append("c.collencoding IN (-1, pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding()))")
    conditions += _matches(pattern, "c.collname", "n.nspname", "pg_catalog.pg_collation_is_visible(c.oid)")
    return (
        'SELECT\n  n.nspname AS "Schema",\n  c.collname AS "Name",\n'
        "  CASE c.collprovider WHEN 'd' THEN 'default' WHEN 'b' THEN 'builtin' WHEN 'c' THEN 'libc' "
        "WHEN 'i' THEN 'icu' END "
        'AS "Provider",\n  c.collcollate AS "Collate",\n  c.collctype AS "Ctype",\n  c.colllocale AS "Locale",\n'
        '  c.collicurules AS "ICU Rules",\n'
        "  CASE WHEN c.collisdeterministic THEN 'yes' ELSE 'no' END AS \"Deterministic?\""
        + (",\n  pg_catalog.obj_description(c.oid, 'pg_collation') AS \"Description\"" if verbose else "")
        + "\nFROM pg_catalog.pg_collation c, pg_catalog.pg_namespace n"
        + _where(conditions)
        + "\nORDER BY 1, 2;"
    )


def _statistics(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT es.stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS "Schema", es.stxname AS "Name",\n'
        '  NULL::text AS "Definition", NULL::text AS "Ndistinct", NULL::text AS "Dependencies", NULL::text AS "MCV"\n'
        "FROM pg_catalog.pg_statistic_ext es" + _where(_matches(pattern, "es.stxname")) + "\nORDER BY 1, 2;"
    )


def _extensions(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT e.extname AS "Name", e.extversion AS "Version", n.nspname AS "Schema",\n'
        "  pg_catalog.obj_description(e.oid, 'pg_extension') AS \"Description\"\n"
        "FROM pg_catalog.pg_extension e LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
        + _where(_matches(pattern, "e.extname"))
        + "\nORDER BY 1;"
    )


def _contents(name: str) -> str:
    return (
        'SELECT pg_catalog.pg_describe_object(classid, objid, 0) AS "Object description"\n'
        "FROM pg_catalog.pg_depend\nWHERE refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND refobjid = "
        f"(SELECT oid FROM pg_catalog.pg_extension WHERE extname = {quote_literal(name)})\n  AND deptype = 'e'\n"
        "ORDER BY 1;"
    )


def _event_triggers(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT evtname as "Name", evtevent as "Event", pg_catalog.pg_get_userbyid(e.evtowner) as "Owner",\n'
        " case evtenabled when 'O' then 'enabled'  when 'R' then 'replica'  when 'A' then 'always'  "
        "when 'D' then 'disabled' end as \"Enabled\",\n e.evtfoid::pg_catalog.regproc as \"Function\", "
        "pg_catalog.array_to_string(evttags, ', ') as \"Tags\""
        + (",\npg_catalog.obj_description(e.oid, 'pg_event_trigger') as \"Description\"" if verbose else "")
        + "\nFROM pg_catalog.pg_event_trigger e"
        + _where(_matches(pattern, "evtname"))
        + "\nORDER BY 1;"
    )


def _large_objects(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT oid as "ID",\n  pg_catalog.pg_get_userbyid(lomowner) as "Owner",\n'
        + ("  pg_catalog.array_to_string(lomacl, E'\\n') AS \"Access privileges\",\n" if verbose else "")
        + "  pg_catalog.obj_description(oid, 'pg_largeobject') as \"Description\"\n"
        "FROM pg_catalog.pg_largeobject_metadata\nORDER BY oid;"
    )


_OPTIONS = (
    "CASE WHEN {of} IS NULL THEN '' ELSE '(' || pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.quote_ident(\n"
    "    option_name) || ' ' || pg_catalog.quote_literal(option_value) FROM pg_catalog.pg_options_to_table({of})),\n"
    "    ', ') || ')' END AS \"FDW options\""
)


def _foreign_servers(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    more = (
        ",\n  pg_catalog.array_to_string(s.srvacl, E'\\n') AS \"Access privileges\",\n"
        '  s.srvtype AS "Type",\n  s.srvversion AS "Version",\n  ' + _OPTIONS.format(of="s.srvoptions") + ",\n"
        "  pg_catalog.obj_description(s.oid, 'pg_foreign_server') AS \"Description\""
    )
    return (
        'SELECT s.srvname AS "Name",\n  pg_catalog.pg_get_userbyid(s.srvowner) AS "Owner",\n'
        '  f.fdwname AS "Foreign-data wrapper"'
        + (more if verbose else "")
        + "\nFROM pg_catalog.pg_foreign_server s\n     JOIN pg_catalog.pg_foreign_data_wrapper f ON f.oid = s.srvfdw"
        + _where(_matches(pattern, "s.srvname"))
        + "\nORDER BY 1;"
    )


def _user_mappings(pattern: NamePattern | None, verbose: bool, system: bool) -> str:
    return (
        'SELECT um.srvname AS "Server",\n  um.usename AS "User name"'
        + (",\n  " + _OPTIONS.format(of="um.umoptions") if verbose else "")
        + "\nFROM pg_catalog.pg_user_mappings um"
        + _where(_matches(pattern, "um.srvname", other="um.usename"))
        + "\nORDER BY 1, 2;"
    )


_LISTS: dict[str, tuple[str, bool, Callable[[NamePattern | None, bool, bool], str]]] = {
    # kind: title, whether the objects have schemas, query
    "es": ("List of foreign servers", False, _foreign_servers),
    "eu": ("List of user mappings", False, _user_mappings),
    "a": ("List of aggregate functions", True, _aggregates),
    "A": ("List of access methods", False, _access_methods),
    "b": ("List of tablespaces", False, _tablespaces),
    "C": ("List of casts", True, _casts),
    "c": ("List of conversions", True, _conversions),
    "d": ("Object descriptions", True, _descriptions),
    "L": ("List of languages", False, _languages),
    "l": ("Large objects", False, _large_objects),
    "O": ("List of collations", True, _collations),
    "X": ("List of extended statistics", True, _statistics),
    "x": ("List of installed extensions", False, _extensions),
    "y": ("List of event triggers", False, _event_triggers),
}


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
    conditions += _matches(pattern, "o.oprname", "n.nspname", "pg_catalog.pg_operator_is_visible(o.oid)")
    if len(types) == 1:
        conditions.append("o.oprleft = 0")
    for n, wanted in enumerate(types):
        if wanted is None:
            conditions.append(f"t{n}.typname IS NULL")
        else:
            visible = f"pg_catalog.pg_type_is_visible(t{n}.oid)"
            other = f"pg_catalog.format_type(t{n}.oid, NULL)"
            conditions += _matches(wanted, f"t{n}.typname", f"nt{n}.nspname", visible, other)
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
        + _where(conditions)
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
    conditions += _matches(pattern, "c.relname", "n.nspname", "pg_catalog.pg_table_is_visible(c.oid)")
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
        + _where(conditions)
        + f"\nORDER BY {', '.join([*order, chr(34) + 'Name' + chr(34)])};"
    )
    return f"List of partitioned {title}", query


def hidden_query(kind: str, text: str | None, verbose: bool, system: bool) -> str:
    """The query of a list, for ECHO_HIDDEN."""
    schemas = kind not in _LISTS or _LISTS[kind][1]
    pattern = parse_pattern(_escaped(text) if kind == "o" else text, qualified=schemas, database="")
    if kind in _LISTS:
        return _LISTS[kind][2](pattern, verbose, system)
    return _operators(pattern, (), verbose, system) if kind == "o" else _partitioned(kind[1:], pattern, verbose)[1]


def _escaped(text: str | None) -> str | None:
    """An operator's name as a pattern: its characters stand for themselves, but for `*` and `?`."""
    return text if text is None or '"' in text else re.sub(r"[|+()\[\]{}^\\]", lambda found: f'"{found[0]}"', text)


def list_objects(shell: Shell, kind: str, args: Sequence[str | None], verbose: bool, system: bool) -> bool:
    text = args[0] if args else None
    schemas = kind not in _LISTS or _LISTS[kind][1]
    pattern = read_pattern(shell, _escaped(text) if kind == "o" else text, qualified=schemas)
    if kind == "x" and verbose:
        return _describe_extensions(shell, text, pattern)
    if kind in _LISTS:
        title, _, query = _LISTS[kind]
        return _print(shell, title, query(pattern, verbose, system))
    if kind != "o":
        return _print(shell, *_partitioned(kind[1:], pattern, verbose))
    types = [None if word == "-" else read_type_pattern(shell, word) for word in args[1:3]]
    newer = session_of(shell).settings.release >= 18
    return _print(shell, "List of operators", _operators(pattern, types, verbose, system, leakproof=newer))


def _describe_extensions(shell: Shell, text: str | None, pattern: NamePattern | None) -> bool:
    """The objects of each extension (listExtensionContents)."""
    _, found = _rows(session_of(shell), _extensions(pattern, False, False))
    names = [row[0] for row in found if row[0] is not None]
    if not names and not shell.quiet:
        shell.error("Did not find any extensions." if text is None else f'Did not find any extension named "{text}".')
    return bool(names) and all(_print(shell, f'Objects in extension "{name}"', _contents(name)) for name in names)


def _print(shell: Shell, title: str, text: str) -> bool:
    session = session_of(shell)
    headers, rows = _rows(session, text)
    return print_listing(shell, title, headers, rows)


def _rows(session: Session, text: str) -> tuple[list[str], list[list[str | None]]]:
    (raw,) = parse(text)
    assert isinstance(raw.stmt, SelectStmt)
    query = analyze_query(session, raw.stmt)
    types = [column.type for column in query.columns]
    style = session.text_style
    rows = [
        [None if value is None else write_text(value, typoid, style) for value, typoid in zip(row, types, strict=True)]
        for row in play(session, query)
    ]
    return [column.name for column in query.columns], rows
