"""Types, views, routines and triggers of a server: which can be made here, and by which statements.

Of a composite type or a domain over a type that cannot be made here that part becomes text. A default or a constraint
of a domain that calls a function of the server's database is left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.tables import RemoteType, is_here
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.oids import FIRST_USER_OID

Address: TypeAlias = "tuple[str, int]"  # a system table and an OID


class ServerStatement(NamedTuple):
    """A statement that makes an object of a server's here, or a part of one: the fact or the column of its definition
    (`pgrepl.statements.definitions`)."""

    what: str
    text: str
    kind: str  # empty: any of that name
    of: str
    part: str = ""


def of_users(catalog: str, oid: str) -> str:
    """The condition that an object, whose schema is `n`, is a user's, and no extension's."""
    return (
        "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e"
        f" WHERE e.classid = 'pg_catalog.{catalog}'::regclass AND e.objid = {oid} AND e.deptype = 'e')"
    )


_OPTIONS = "coalesce(' WITH (' || pg_catalog.array_to_string(c.reloptions, ', ') || ')', '')"
_VIEW_KIND = "CASE c.relkind WHEN 'v' THEN 'view' ELSE 'materialized view' END"
_VIEWS = (
    f"SELECT c.oid, n.nspname, pg_catalog.format('%s %I.%I', {_VIEW_KIND}, n.nspname, c.relname), {_VIEW_KIND},"
    " pg_catalog.format('%I.%I', n.nspname, c.relname), '', pg_catalog.format('CREATE %s %I.%I%s AS\n%s%s',"
    f" CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, n.nspname, c.relname, {_OPTIONS},"
    " pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';'),"
    " CASE c.relkind WHEN 'm' THEN E'\\n  WITH NO DATA' ELSE '' END),"
    " (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(pg_catalog.format('index %I', x.relname),"
    " pg_catalog.pg_get_indexdef(x.oid)) ORDER BY x.oid) FROM pg_catalog.pg_index i"
    " JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid), NULL"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE c.relkind IN ('v', 'm') AND {of_users('pg_class', 'c.oid')}"
    " ORDER BY c.oid"
)
_ROUTINES = (
    "SELECT p.oid, n.nspname, CASE p.prokind WHEN 'p' THEN 'procedure ' ELSE 'function ' END"
    " || p.oid::pg_catalog.regprocedure::text, 'routine', p.oid::pg_catalog.regprocedure::text, '',"
    " CASE WHEN p.prokind IN ('f', 'p') THEN pg_catalog.rtrim(pg_catalog.pg_get_functiondef(p.oid), E'\\n') END,"
    " NULL, CASE WHEN p.prokind NOT IN ('f', 'p') THEN 'it is no plain function'"
    " WHEN l.lanname NOT IN ('sql', 'plpgsql') THEN 'its language is ' || l.lanname END"
    " FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    f" WHERE {of_users('pg_proc', 'p.oid')} ORDER BY p.oid"
)
_TRIGGERS = (
    "SELECT t.oid, n.nspname, pg_catalog.format('trigger %I on %s', t.tgname, t.tgrelid::pg_catalog.regclass),"
    " '', t.tgrelid::pg_catalog.regclass::text, pg_catalog.format('trigger %I', t.tgname),"
    " pg_catalog.pg_get_triggerdef(t.oid), CASE WHEN t.tgenabled <> 'O' THEN"
    " pg_catalog.json_build_array(pg_catalog.json_build_array(pg_catalog.format('trigger %I enabled', t.tgname),"
    " pg_catalog.format('ALTER TABLE %s %s TRIGGER %I', t.tgrelid::pg_catalog.regclass, CASE t.tgenabled"
    " WHEN 'D' THEN 'DISABLE' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE REPLICA' END, t.tgname))) END, NULL"
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
    made: tuple[ServerStatement, ...]
    refused: str | None  # why it cannot be made here, if that is known


def programs(link: Link, kinds: Collection[str] = ("routine", "view", "trigger")) -> list[Program]:
    listed = []
    for kind, catalog, query in _KINDS:
        for oid, schema, name, of_kind, of, part, text, more, refused in link.rows(query) if kind in kinds else ():
            made = tuple(
                ServerStatement(name or "", f"{each};", of_kind or "", of or "", of_it)
                for of_it, each in ((part or "", text or ""), *json.loads(more or "[]"))
            )
            listed.append(Program((catalog, int(oid or 0)), schema or "", name or "", made, refused))
    return listed


def in_order(link: Link, listed: Collection[Program], there: Collection[Address]) -> Iterator[Program]:
    """Each after what it needs; `there`: what exists besides. What needs something else is refused."""
    needs: dict[Address, dict[Address, str]] = defaultdict(dict)
    for catalog, oid, needed_catalog, needed, name in link.rows(_NEEDS):
        needs[catalog or "", int(oid or 0)][needed_catalog or "", int(needed or 0)] = name or ""
    waiting = {program.address: program for program in listed}
    done = set(there)

    def place(program: Program) -> Iterator[Program]:
        if waiting.pop(program.address, None) is None:
            return
        refused = program.refused
        for address, name in needs[program.address].items():
            if address in waiting:
                yield from place(waiting[address])
            if address not in done and address != program.address and refused is None:
                refused = f"it needs {name}"
        if refused is None:
            done.add(program.address)
        yield replace(program, refused=refused)

    for program in listed:
        yield from place(program)


# --- types ------------------------------------------------------------------------------------------------------------


# what is not of the system: another function, operator or collation, or a sequence
_USES = (
    "(SELECT pg_catalog.string_agg(DISTINCT pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0), ', ')"
    " FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.{catalog}'::regclass AND d.objid = {oid}"
    " AND d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_class'::regclass,"
    " 'pg_catalog.pg_operator'::regclass, 'pg_catalog.pg_collation'::regclass)"
    f" AND d.refobjid >= {FIRST_USER_OID} AND d.deptype = 'n')"
)
_COLLATION = (
    "CASE WHEN {own} <> b.typcollation THEN (SELECT pg_catalog.format(' COLLATE %I.%I', cn.nspname, l.collname)"
    " FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace cn ON cn.oid = l.collnamespace"
    " WHERE l.oid = {own}) END"
)
_TYPES = (
    "SELECT t.oid, n.nspname, t.typname, t.typtype,"
    " CASE t.typtype WHEN 'b' THEN t.typelem ELSE 0 END, t.typbasetype, t.typtypmod, t.typnotnull,"
    " pg_catalog.pg_get_expr(t.typdefaultbin, 'pg_catalog.pg_type'::regclass),"
    f" {_USES.format(catalog='pg_type', oid='t.oid')}, pg_catalog.format_type(t.typbasetype, t.typtypmod),"
    f" {_COLLATION.format(own='t.typcollation')}"
    " FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
    " LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid"
    f" WHERE t.oid >= {FIRST_USER_OID} AND (t.typtype IN ('e', 'd') OR c.relkind = 'c'"
    " OR t.typtype = 'b' AND t.typelem <> 0 AND t.typlen = -1) ORDER BY t.oid"
)
_LABELS = "SELECT enumtypid, enumlabel FROM pg_catalog.pg_enum ORDER BY enumtypid, enumsortorder"
_ATTRIBUTES = (
    "SELECT c.reltype, a.attname, a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod),"
    f" {_COLLATION.format(own='a.attcollation')} FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid JOIN pg_catalog.pg_type b ON b.oid = a.atttypid"
    " WHERE c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.oid, a.attnum"
)
_CHECKS = (
    "SELECT k.contypid, k.conname, pg_catalog.pg_get_constraintdef(k.oid),"
    f" {_USES.format(catalog='pg_constraint', oid='k.oid')} FROM pg_catalog.pg_constraint k"
    " WHERE k.contypid <> 0 AND k.contype = 'c' ORDER BY k.contypid, k.conname"
)


@frozen
class _Attribute:
    name: str
    type: int
    typmod: int
    type_name: str
    collation: str


@frozen
class _Check:
    name: str
    definition: str
    uses: str  # what it calls of the server's own

    @property
    def is_not_valid(self) -> bool:
        return self.definition.endswith(" NOT VALID")


@frozen
class _Type:
    """A row of pg_type."""

    oid: int
    schema: str
    name: str
    kind: str
    element: int
    base: int
    base_typmod: int
    notnull: bool
    default: str | None
    default_uses: str
    base_name: str
    collation: str


def _add_check(domain: str, check: _Check) -> str:
    return f"ALTER DOMAIN {domain} ADD CONSTRAINT {quote_identifier(check.name)} {check.definition};"


class ServerTypes:
    """The types of the server's database. They are read when the first one is asked for."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._read = False
        self._types: dict[int, _Type] = {}
        self._labels: dict[int, list[str]] = defaultdict(list)
        self._attributes: dict[int, list[_Attribute]] = defaultdict(list)
        self._checks: dict[int, list[_Check]] = defaultdict(list)

    def is_made(self, typoid: int, typmod: int) -> bool:
        """Can a column here have the type: is it here, or can it be made?"""
        pg_type = self._find(typoid)
        if pg_type is None:
            return is_here(typoid, typmod)
        if pg_type.element:
            return self._find(pg_type.element) is not None and self.is_made(pg_type.element, -1)
        return pg_type.kind != "d" or self.is_made(pg_type.base, pg_type.base_typmod)

    def needed(self, typoid: int) -> tuple[RemoteType, ...]:
        """The types that have to be made for a type that can be made, in order."""
        return tuple(dict.fromkeys(self._needed(typoid)))

    def all(self) -> list[RemoteType]:
        """All that can be made, in order."""
        self._ask()
        types = [one for oid in self._types if self.is_made(oid, -1) for one in self._needed(oid)]
        return list(dict.fromkeys(types))

    def left_out(self, *, not_valid: bool = False) -> Iterator[ServerStatement]:
        """The defaults and constraints that domains lack, as statements that can be run when the functions are there.
        `not_valid`: and the constraints that domains get behind CREATE DOMAIN."""
        for pg_type in self._types.values():
            name = quote_qualified(pg_type.schema, pg_type.name)
            if pg_type.default is not None and pg_type.default_uses:
                text = f"ALTER DOMAIN {name} SET DEFAULT {pg_type.default};"
                yield ServerStatement(f"default of domain {name}", text, "type", name, "default")
            for check in self._checks[pg_type.oid]:
                if check.uses or (not_valid and check.is_not_valid):
                    what = f"constraint {check.name} of domain {name}"
                    part = f"constraint {quote_identifier(check.name)}"
                    yield ServerStatement(what, _add_check(name, check), "type", name, part)

    def _needed(self, typoid: int) -> Iterator[RemoteType]:
        pg_type = self._find(typoid)
        if pg_type is None:
            return
        for part in (pg_type.element, pg_type.base, *(attribute.type for attribute in self._attributes[pg_type.oid])):
            if part and self.is_made(part, -1):
                yield from self._needed(part)
        if not pg_type.element:
            yield self._made(pg_type)

    def _made(self, pg_type: _Type) -> RemoteType:
        name = quote_qualified(pg_type.schema, pg_type.name)
        if pg_type.kind == "e":
            labels = ", ".join(map(quote_literal, self._labels[pg_type.oid]))
            return RemoteType(pg_type.schema, pg_type.name, (f"CREATE TYPE {name} AS ENUM ({labels});",))
        if pg_type.kind == "c":
            return self._composite(pg_type, name)
        return self._domain(pg_type, name)

    def _domain(self, domain: _Type, name: str) -> RemoteType:
        text = f"CREATE DOMAIN {name} AS {domain.base_name}{domain.collation}{' NOT NULL' if domain.notnull else ''}"
        left, later = [], []
        if domain.default is not None and domain.default_uses:
            left.append(f"the default of domain {name} is not here: it uses {domain.default_uses}")
        elif domain.default is not None:
            text += f" DEFAULT {domain.default}"
        for check in self._checks[domain.oid]:
            if check.uses:
                left.append(f"constraint {check.name} of domain {name} is not here: it uses {check.uses}")
            elif check.is_not_valid:
                later.append(_add_check(name, check))
            else:
                text += f"\n    CONSTRAINT {quote_identifier(check.name)} {check.definition}"
        return RemoteType(domain.schema, domain.name, (f"{text};", *later), tuple(left))

    def _composite(self, composite: _Type, name: str) -> RemoteType:
        lines, left = [], []
        for attribute in self._attributes[composite.oid]:
            is_made = self.is_made(attribute.type, attribute.typmod)
            if not is_made:
                shown = f"attribute {attribute.name} of type {name}"
                left.append(f"{shown}: type {attribute.type_name} is not here: its values as text")
            text = f"{attribute.type_name}{attribute.collation}" if is_made else "text"
            lines.append(f"\n    {quote_identifier(attribute.name)} {text}")
        command = f"CREATE TYPE {name} AS ({','.join(lines)}\n);"
        return RemoteType(composite.schema, composite.name, (command,), tuple(left))

    def _find(self, typoid: int) -> _Type | None:
        if typoid < FIRST_USER_OID:
            return None
        self._ask()
        return self._types.get(typoid)

    def _ask(self) -> None:
        if self._read:
            return
        self._read = True
        for row in self._link.rows(_TYPES):
            oid, schema, name, kind, element, base, typmod, notnull, default, uses, base_name, collation = row
            self._types[int(oid or 0)] = _Type(
                int(oid or 0), schema or "", name or "", kind or "", int(element or 0), int(base or 0),
                int(typmod or -1), notnull == "t", default, uses or "", base_name or "", collation or "",
            )  # fmt: skip
        for oid, label in self._link.rows(_LABELS):
            self._labels[int(oid or 0)].append(label or "")
        for oid, name, typoid, typmod, shown, collation in self._link.rows(_ATTRIBUTES):
            attribute = _Attribute(name or "", int(typoid or 0), int(typmod or -1), shown or "", collation or "")
            self._attributes[int(oid or 0)].append(attribute)
        for oid, name, definition, uses in self._link.rows(_CHECKS):
            self._checks[int(oid or 0)].append(_Check(name or "", definition or "", uses or ""))
