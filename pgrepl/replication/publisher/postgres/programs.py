"""The views, functions, procedures and triggers of a server, each as its statements in the server's own words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TypeAlias

from pgrepl.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.types.oids import FIRST_USER_OID

Address: TypeAlias = "tuple[str, int]"  # a system table and an OID


def of_users(catalog: str, oid: str) -> str:
    """The condition that an object, whose schema is `n`, is a user's, and no extension's."""
    return (
        "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e"
        f" WHERE e.classid = 'pg_catalog.{catalog}'::regclass AND e.objid = {oid} AND e.deptype = 'e')"
    )


_OPTIONS = "coalesce(' WITH (' || pg_catalog.array_to_string(c.reloptions, ', ') || ')', '')"
_VIEWS = (
    "SELECT c.oid, n.nspname, CASE c.relkind WHEN 'v' THEN 'view ' ELSE 'materialized view ' END"
    " || pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.format('CREATE %s %I.%I%s AS\n%s%s;',"
    f" CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, n.nspname, c.relname, {_OPTIONS},"
    " pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';'),"
    " CASE c.relkind WHEN 'm' THEN E'\\n  WITH NO DATA' ELSE '' END),"
    " pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i"
    " WHERE i.indrelid = c.oid ORDER BY i.indexrelid), E'\\n'), NULL"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE c.relkind IN ('v', 'm') AND {of_users('pg_class', 'c.oid')}"
    " ORDER BY c.oid"
)
_ROUTINES = (
    "SELECT p.oid, n.nspname, CASE p.prokind WHEN 'p' THEN 'procedure ' ELSE 'function ' END"
    " || p.oid::pg_catalog.regprocedure::text,"
    " CASE WHEN p.prokind IN ('f', 'p') THEN pg_catalog.rtrim(pg_catalog.pg_get_functiondef(p.oid), E'\\n') || ';' END,"
    " '', CASE WHEN p.prokind NOT IN ('f', 'p') THEN 'it is no plain function'"
    " WHEN l.lanname NOT IN ('sql', 'plpgsql') THEN 'its language is ' || l.lanname END"
    " FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    f" WHERE {of_users('pg_proc', 'p.oid')} ORDER BY p.oid"
)
_TRIGGERS = (
    "SELECT t.oid, n.nspname, pg_catalog.format('trigger %I on %s', t.tgname, t.tgrelid::pg_catalog.regclass),"
    " pg_catalog.pg_get_triggerdef(t.oid) || ';', CASE t.tgenabled WHEN 'O' THEN '' ELSE"
    " pg_catalog.format('ALTER TABLE %s %s TRIGGER %I;', t.tgrelid::pg_catalog.regclass, CASE t.tgenabled"
    " WHEN 'D' THEN 'DISABLE' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE REPLICA' END, t.tgname) END, NULL"
    " FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND t.tgparentid = 0"
    f" AND {of_users('pg_class', 'c.oid')} ORDER BY t.oid"
)
_KINDS = (("routine", "pg_proc", _ROUTINES), ("view", "pg_class", _VIEWS), ("trigger", "pg_trigger", _TRIGGERS))
# what each of them needs; the row type of a table or a view stands for it
_NEEDS = (
    "SELECT DISTINCT CASE d.classid WHEN 'pg_catalog.pg_rewrite'::regclass THEN 'pg_class'"
    " ELSE d.classid::pg_catalog.regclass::text END, coalesce(r.ev_class, d.objid)::oid,"
    " CASE WHEN t.typrelid <> 0 THEN 'pg_class' ELSE d.refclassid::pg_catalog.regclass::text END,"
    " CASE WHEN t.typrelid <> 0 THEN t.typrelid ELSE d.refobjid END,"
    " pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0) FROM pg_catalog.pg_depend d"
    " LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid"
    " LEFT JOIN pg_catalog.pg_type y ON d.refclassid = 'pg_catalog.pg_type'::regclass AND y.oid = d.refobjid"
    " LEFT JOIN pg_catalog.pg_type t ON t.oid ="
    " CASE WHEN y.typelem <> 0 AND y.typlen = -1 THEN y.typelem ELSE y.oid END"
    " LEFT JOIN pg_catalog.pg_class k ON k.oid = CASE WHEN t.typrelid <> 0 THEN t.typrelid"
    " WHEN d.refclassid = 'pg_catalog.pg_class'::regclass THEN d.refobjid END"
    " WHERE d.classid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_rewrite'::regclass,"
    " 'pg_catalog.pg_trigger'::regclass) AND d.deptype IN ('n', 'a')"
    f" AND d.refobjid >= {FIRST_USER_OID} AND (d.refclassid = 'pg_catalog.pg_proc'::regclass OR k.relkind <> 'c')"
)


@frozen
class Program:
    """A view, a routine or a trigger."""

    address: Address
    schema: str
    name: str  # with its kind
    made: tuple[str, ...]  # the statements
    refused: str | None  # why it cannot be made here, if that is known


def programs(link: Link, kinds: Collection[str] = ("routine", "view", "trigger")) -> list[Program]:
    found = []
    for kind, catalog, query in _KINDS:
        for oid, schema, name, made, more, refused in link.rows(query) if kind in kinds else ():
            later = [f"{text.rstrip(';')};" for text in (more or "").splitlines()]
            found.append(Program((catalog, int(oid or 0)), schema or "", name or "", (made or "", *later), refused))
    return found


def in_order(link: Link, found: Collection[Program], there: Collection[Address]) -> Iterator[Program]:
    """Each after what it needs; `there`: what exists besides. What needs something else is refused."""
    needs: dict[Address, dict[Address, str]] = defaultdict(dict)
    for catalog, oid, needed_catalog, needed, name in link.rows(_NEEDS):
        needs[catalog or "", int(oid or 0)][needed_catalog or "", int(needed or 0)] = name or ""
    waiting = {each.address: each for each in found}
    done = set(there)

    def place(each: Program) -> Iterator[Program]:
        if waiting.pop(each.address, None) is None:
            return
        refused = each.refused
        for address, name in needs[each.address].items():
            if address in waiting:
                yield from place(waiting[address])
            if address not in done and address != each.address and refused is None:
                refused = f"it needs {name}"
        if refused is None:
            done.add(each.address)
        yield replace(each, refused=refused)

    for each in found:
        yield from place(each)
