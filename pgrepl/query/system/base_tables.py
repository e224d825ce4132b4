"""The rows of the system catalogs: PostgreSQL's columns, in PostgreSQL's order and types.

What pgrepl stores comes from `catalog.store.tables`; columns that are the same for every row here (no TOAST, no vacuum
horizon) are constants; PostgreSQL's own types, functions and operators come from `types.builtin`. A catalog of
something pgrepl cannot have (policies, foreign tables) is truly empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from pgrepl.catalog.facts import objects, triggers
from pgrepl.catalog.facts.namespace import routine_row, routine_rows
from pgrepl.catalog.facts.roles import shown_roles
from pgrepl.catalog.facts.subscription import WRAPPERS, is_retained, mapped_name, mappings, may_see_options, servers
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store, system, tables
from pgrepl.catalog.store.declarative import SystemRow
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    CATALOG_NAMESPACE,
    INFORMATION_SCHEMA,
    PLPGSQL_EXTENSION,
    PLPGSQL_FUNCTIONS,
    PLPGSQL_LANGUAGE,
    SCHEMAS,
    namespace_oid,
)
from pgrepl.expr import stored as stored_trees
from pgrepl.expr.print.deparse import expression_text
from pgrepl.query.system.activity import Provider, Values
from pgrepl.types import builtin
from pgrepl.types.arrays import array_of
from pgrepl.types.user_types import array_over

HEAP = 2
Only = Collection[int] | None
"""The OIDs of the rows that are wanted; None: all."""


def _per_database(session: Session, table: type[SystemRow]) -> Iterable[Any]:
    """The rows of this database; shared catalogs have no datid."""
    if "datid" in table._fields:
        return store.rows(session, table, datid=session.database_oid)
    return store.rows(session, table)


def stored(table: type[SystemRow], **constants: Any) -> Provider:
    """The rows of a table of pgrepl's catalog, each with the columns that are constants here."""

    def provide(session: Session) -> Iterator[Values]:
        for row in _per_database(session, table):
            yield {**constants, **row._asdict()}

    return provide


def _of(
    table: type[SystemRow], column: str, owners: type[Any] = tables.pg_class, of: Mapping[str, str] | None = None,
    **constants: Any,
) -> Provider:  # fmt: skip
    """The rows of a table that belong to relations, or other `owners` of a kind, of this database."""

    def provide(session: Session) -> Iterator[Values]:
        here = {owner.oid for owner in store.rows(session, owners, datid=session.database_oid, **(of or {}))}
        for row in store.rows(session, table):
            if getattr(row, column) in here:
                yield {**constants, **row._asdict()}

    return provide


def _both(first: Provider, second: Provider) -> Provider:
    return lambda session: chain(first(session), second(session))


def _among(column: str, only: Only) -> dict[str, tuple[int, ...]]:
    """A condition for `store`: the column is one of these OIDs."""
    return {} if only is None else {column: tuple(sorted(only))}


_CLASS: dict[str, Any] = {
    "reloftype": 0, "relfilenode": 0, "reltablespace": 0, "relpages": 0, "reltuples": -1.0, "relallvisible": 0,
    "relallfrozen": 0,
    "reltoastrelid": 0, "relisshared": False, "relhasrules": False, "relhastriggers": False, "relispopulated": True,
    "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0,
}  # fmt: skip


def _classes(session: Session, only: Only = None) -> Iterator[Values]:
    from pgrepl.lake.read.extent import PAGE, volumes

    rows = store.rows(session, tables.pg_class, datid=session.database_oid, **_among("oid", only))
    in_lake = [row.table_id for row in rows if row.relkind in "rm" and row.table_id is not None]
    known = volumes(session, *in_lake) if len(in_lake) == 1 else volumes(session) if in_lake else {}
    triggered = triggers.triggered(session) if rows else frozenset()
    for row in rows:
        values = {
            **_CLASS, **row._asdict(), "relfilenode": 0 if row.relkind in "vpI" else row.oid,
            "relhasrules": row.relkind in "vm", "relhastriggers": row.oid in triggered,
        }  # fmt: skip
        volume = known.get(row.table_id) if row.relkind in "rm" and row.table_id is not None else None
        if volume is not None:
            values |= {"reltuples": float(volume.rows), "relpages": -(-volume.size // PAGE)}
        yield values


def _own_classes(session: Session) -> Iterator[Values]:
    for relation in session.system_relations():
        yield {
            **_CLASS, "oid": relation.oid, "relname": relation.name, "relnamespace": namespace_oid(relation),
            "reltype": 0, "relowner": BOOTSTRAP_SUPERUSER, "relam": HEAP if relation.kind == "r" else 0,
            "relhasindex": relation.kind == "r", "relpersistence": "p", "relkind": relation.kind,
            "relnatts": len([c for c in relation.columns if not c.since]), "relchecks": 0, "relhassubclass": False,
            "relrowsecurity": False,
            "relforcerowsecurity": False, "relreplident": "n", "relispartition": False,
            "relhasrules": relation.kind == "v",
        }  # fmt: skip


def _attribute(relid: int, name: str, number: int, typid: int, typmod: int, notnull: bool, collation: int) -> Values:
    return {
        "attrelid": relid, "attname": name, "atttypid": typid, "attnum": number, "atttypmod": typmod, "attndims": 0,
        "attcompression": "", "attnotnull": notnull, "atthasdef": False, "atthasmissing": False, "attidentity": "",
        "attgenerated": "", "attisdropped": False, "attislocal": True, "attinhcount": 0, "attcollation": collation,
    }  # fmt: skip


_SYSTEM_COLUMNS = [
    ("ctid", -1, 27), ("xmin", -2, 28), ("cmin", -3, 29), ("xmax", -4, 28), ("cmax", -5, 29), ("tableoid", -6, 26),
]  # fmt: skip


def _missing(session: Session, row: tables.pg_attribute) -> Any:
    """The value of the column in rows older than the column, as an array of one element (attmissingval)."""
    if row.attmissingval is None:
        return None
    from pgrepl.lake.table import missing_value

    return array_of(session.type_of(row.atttypid), [missing_value(session, row)])


def _attributes(session: Session, only: Only = None) -> Iterator[Values]:
    classes_here = store.rows(session, tables.pg_class, datid=session.database_oid, **_among("oid", only))
    kinds = {r.oid: r.relkind for r in classes_here}
    columns: list[Values] = []
    for row in store.rows(session, tables.pg_attribute, **_among("attrelid", only)):
        if row.attrelid in kinds:
            columns.append({**row._asdict(), "attmissingval": _missing(session, row)})
    for oid, kind in kinds.items():
        if kind in "rpmSt":
            columns += [_attribute(oid, n, number, typid, -1, True, 0) for n, number, typid in _SYSTEM_COLUMNS]
    return map(partial(_with_storage, session), columns)


def _own_attributes(session: Session) -> Iterator[Values]:
    columns: list[Values] = []
    for relation in session.system_relations():
        for number, column in enumerate(relation.columns, 1):
            if column.since:
                continue
            columns.append(
                _attribute(
                    relation.oid, column.name, number, column.type, column.typmod, column.notnull, column.collation
                )
            )
        if relation.kind == "r":
            columns += [_attribute(relation.oid, n, number, typid, -1, True, 0) for n, number, typid in _SYSTEM_COLUMNS]
    return map(partial(_with_storage, session), columns)


def _with_storage(session: Session, values: Values) -> Values:
    """The row with what the type says of the storage of its values."""
    kind_of = builtin.type_by_oid(session.type_of(values["atttypid"]))
    storage = {} if kind_of is None else {
        "attlen": kind_of.len, "attbyval": kind_of.byval, "attalign": kind_of.align,
        "attstorage": values.get("attstorage") or kind_of.storage,
    }  # fmt: skip
    gone = {"attlen": 0, "attbyval": False, "attalign": "i", "attstorage": "p"}
    return {"attcacheoff": -1, **gone, **values, **storage}


def _own_types(session: Session) -> Iterator[Values]:
    for t in builtin.types:
        yield {
            "oid": t.oid, "typname": t.name, "typnamespace": _namespace(t.schema), "typowner": BOOTSTRAP_SUPERUSER,
            **_of_type(t), "typelem": t.elem, "typarray": t.array, "typbasetype": t.basetype,
        }  # fmt: skip


def _types(session: Session, only: Only = None) -> Iterator[Values]:
    yield from _user_types(session, only)
    yield from _row_types(session, only)


def _of_type(t: builtin.PgType) -> Values:
    return {
        "typlen": t.len, "typbyval": t.byval, "typtype": t.typtype, "typcategory": t.category,
        "typispreferred": t.preferred, "typisdefined": True, "typdelim": t.delim, "typrelid": t.relid,
        "typalign": t.align, "typstorage": t.storage, "typnotnull": t.notnull, "typtypmod": t.typmod,
        "typndims": t.ndims, "typcollation": t.collation, "typinput": _proc_oid(t.input),
        "typoutput": _proc_oid(t.output), "typreceive": _proc_oid(t.receive), "typsend": _proc_oid(t.send),
        "typmodin": _proc_oid(t.modin), "typmodout": _proc_oid(t.modout), "typanalyze": _proc_oid(t.analyze),
        "typsubscript": _proc_oid(t.subscript),
    }  # fmt: skip


def _row_types(session: Session, only: Only) -> Iterator[Values]:
    """Each table and view has a row type of the same name."""
    functions = {
        "typinput": "record_in", "typoutput": "record_out", "typreceive": "record_recv", "typsend": "record_send",
    }  # fmt: skip
    support = {column: _proc_oid(name) for column, name in functions.items()}
    wanted = None if only is None else {*only, *[oid + 1 for oid in only]}  # an array's OID is before its row type's
    for row in store.rows(session, tables.pg_class, datid=session.database_oid, **_among("reltype", wanted)):
        if not row.reltype or row.relkind == "c":
            continue
        array = array_over(row.reltype)
        if only is None or array in only:
            known = builtin.type_by_oid(array)
            assert known is not None
            yield {
                **_of_type(known), "oid": array, "typname": f"_{row.relname}", "typnamespace": row.relnamespace,
                "typowner": row.relowner, "typelem": row.reltype, "typarray": 0, "typbasetype": 0,
            }  # fmt: skip
        if only is None or row.reltype in only:
            yield {
                **support, "oid": row.reltype, "typname": row.relname, "typnamespace": row.relnamespace,
                "typowner": row.relowner, "typlen": -1, "typbyval": False, "typtype": "c", "typcategory": "C",
                "typispreferred": False, "typisdefined": True, "typdelim": ",", "typrelid": row.oid, "typelem": 0,
                "typarray": array, "typalign": "d", "typstorage": "x", "typnotnull": False, "typbasetype": 0,
                "typtypmod": -1, "typndims": 0, "typcollation": 0, "typmodin": 0, "typmodout": 0, "typanalyze": 0,
                "typsubscript": 0,
            }  # fmt: skip


def _user_types(session: Session, only: Only) -> Iterator[Values]:
    for row in store.rows(session, tables.pg_type, datid=session.database_oid, **_among("oid", only)):
        t = builtin.type_by_oid(session.type_of(row.oid))
        assert t is not None
        default = (
            None
            if row.typdefaultbin is None
            else expression_text(session, stored_trees.from_json(row.typdefaultbin, session), None)
        )
        yield {**_of_type(t), **row._asdict(), "typdefault": default}


def _constraints(session: Session) -> Iterator[Values]:
    for values in stored(tables.pg_constraint)(session):
        yield {**values, "contypid": values["contypid"] or 0}


def _roles(session: Session) -> Iterator[Values]:
    for row in shown_roles(session):
        yield row._asdict()


def _namespace(schema: str) -> int:
    return CATALOG_NAMESPACE if schema == "pg_catalog" else INFORMATION_SCHEMA


def _proc_oid(name: str) -> int:
    if name in ("", "-"):
        return 0
    procs = builtin.procs_by_name(name)
    return procs[0].oid if procs else 0


_LATER = ("pg_get_sequence_data", "pg_get_publication_sequences")  # functions of PostgreSQL 18 and 19


def _own_procs(session: Session) -> Iterator[Values]:
    for p in builtin.procs_of(session.settings.release):
        if p.name in _LATER:
            continue
        yield {
            "oid": p.oid, "proname": p.name, "pronamespace": _namespace(p.schema),
            "proowner": BOOTSTRAP_SUPERUSER, "prolang": p.lang, "procost": p.cost, "prorows": p.rows,
            "provariadic": p.variadic, "prosupport": p.support, "prokind": p.kind, "prosecdef": False,
            "proleakproof": p.leakproof, "proisstrict": p.strict, "proretset": p.retset, "provolatile": p.volatile,
            "proparallel": p.parallel, "pronargs": p.nargs, "pronargdefaults": p.ndefaults, "prorettype": p.rettype,
            "proargtypes": list(p.argtypes), "proallargtypes": None if p.allargtypes is None else list(p.allargtypes),
            "proargmodes": None if p.argmodes is None else list(p.argmodes),
            "proargnames": None if p.argnames is None else list(p.argnames), "prosrc": p.src,
        }  # fmt: skip


def _procs(session: Session, only: Only = None) -> Iterator[Values]:
    wanted = routine_rows(session) if only is None else map(partial(routine_row, session), sorted(only))
    for row in filter(None, wanted):
        yield {**row._asdict(), "prosupport": 0, "pronargdefaults": len(row.proargdefaults or ())}


def _rows_of(rows: Iterable[Any], prefix: str, **renamed: str) -> Provider:
    """Rows of types.builtin; a column is its prefix and the field's name, but for those renamed."""
    names = {"oid": "oid", **renamed}
    # of those that a catalog has
    always = {f"{prefix}namespace": CATALOG_NAMESPACE, f"{prefix}owner": BOOTSTRAP_SUPERUSER, "condefault": True}

    def provide(session: Session) -> Iterator[Values]:
        later = builtin.LATER if session.settings.release < 18 else ()
        for row in rows:
            if (prefix == "cast" and row.func in later) or (prefix == "agg" and row.oid in later):
                continue
            yield {**always, **{names.get(k, prefix + k): v for k, v in row._asdict().items()}}

    return provide


def _own_ranges(session: Session) -> list[tables.pg_range]:
    owned = {row.oid for row in store.rows(session, tables.pg_type, datid=session.database_oid, typtype="r")}
    return store.rows(session, tables.pg_range, rngtypid=owned) if owned else []


def _own_casts(session: Session) -> Iterator[Values]:
    """Each range can be cast to its multirange, by a constructor of that."""
    for row in _own_ranges(session):
        yield {
            "oid": row.rngcast, "castsource": row.rngtypid, "casttarget": row.rngmultitypid, "castcontext": "e",
            "castmethod": "f", "castfunc": row.rngcastfunc,
        }  # fmt: skip


def _tablespaces(session: Session) -> Iterator[Values]:
    for oid, name in ((1663, "pg_default"), (1664, "pg_global")):
        yield {"oid": oid, "spcname": name, "spcowner": BOOTSTRAP_SUPERUSER}


def _languages(session: Session) -> Iterator[Values]:
    for oid, name, functions in (
        (12, "internal", (0, 0, 2246)),
        (13, "c", (0, 0, 2247)),
        (14, "sql", (0, 0, 2248)),
        (PLPGSQL_LANGUAGE, "plpgsql", PLPGSQL_FUNCTIONS),
    ):
        call, inline, validator = functions
        yield {
            "oid": oid, "lanname": name, "lanowner": BOOTSTRAP_SUPERUSER, "lanispl": bool(call),
            "lanpltrusted": name in ("sql", "plpgsql"), "lanplcallfoid": call, "laninline": inline,
            "lanvalidator": validator,
        }  # fmt: skip


def _extensions(session: Session) -> Iterator[Values]:
    """PL/pgSQL is an extension, as after initdb."""
    yield {
        "oid": PLPGSQL_EXTENSION, "extname": "plpgsql", "extowner": BOOTSTRAP_SUPERUSER,
        "extnamespace": CATALOG_NAMESPACE, "extrelocatable": False, "extversion": "1.0",
    }  # fmt: skip


def _descriptions(session: Session) -> Iterator[Values]:
    for row in store.rows(session, tables.pg_description, datid=session.database_oid):
        yield row._asdict()
    for (classid, oid), text in objects.OF_INITDB.items():
        yield {"objoid": oid, "classoid": classid, "objsubid": 0, "description": text}


def _initial_privileges(session: Session) -> Iterator[Values]:
    """pg_init_privs: the privileges of the schemas that initdb makes, of which pg_dump says nothing where they are
    unchanged."""
    for oid, (_, _, privileges, _) in SCHEMAS.items():
        if privileges:
            yield {
                "objoid": oid, "classoid": system.PG_NAMESPACE, "objsubid": 0, "privtype": "i",
                "initprivs": privileges,
            }  # fmt: skip


def _depends(session: Session) -> Iterator[Values]:
    yield from stored(tables.pg_depend)(session)
    members = [(system.PG_LANGUAGE, PLPGSQL_LANGUAGE), *((system.PG_PROC, oid) for oid in PLPGSQL_FUNCTIONS)]
    for classid, oid in members:
        yield {
            "classid": classid, "objid": oid, "objsubid": 0, "refclassid": system.PG_EXTENSION,
            "refobjid": PLPGSQL_EXTENSION, "refobjsubid": 0, "deptype": "e",
        }  # fmt: skip


def _triggers(session: Session) -> Iterator[Values]:
    for trigger in triggers.all_triggers(session):
        args = b"".join(arg.encode() + b"\0" for arg in trigger.args)
        yield {**triggers.values(trigger), "tgnargs": len(trigger.args), "tgargs": args}


def _indexes(session: Session) -> Iterator[Values]:
    for row in _of(tables.pg_index, "indrelid", indcheckxmin=False)(session):
        yield {**row, "indcollation": row["indcollation"][: row["indnkeyatts"]]}


def _wrappers(session: Session) -> Iterator[Values]:
    """The foreign-data wrappers that a server has; the others are there, too, and PostgreSQL 17 has none."""
    used = {row.srvfdw for row in servers(session)}
    for oid, name in WRAPPERS.items():
        if oid in used:
            yield {
                "oid": oid, "fdwname": name, "fdwowner": BOOTSTRAP_SUPERUSER, "fdwhandler": 0, "fdwvalidator": 0,
            }  # fmt: skip


def _user_mappings(session: Session) -> Iterator[Values]:
    """Options, a password among them, are shown to who may see them only."""
    for server in servers(session):
        for row in mappings(session, server.oid):
            seen = may_see_options(session, row, server)
            yield {
                "umid": row.oid, "srvid": server.oid, "srvname": server.srvname, "umuser": row.umuser,
                "usename": mapped_name(session, row.umuser), "umoptions": row.umoptions if seen else None,
            }  # fmt: skip


def _subscriptions(session: Session) -> Iterator[Values]:
    for row in store.rows(session, tables.pg_subscription):
        yield {**row._asdict(), "subretentionactive": is_retained(session, row)}


_NO_XID = {"datfrozenxid": 0, "datminmxid": 0}

PROVIDERS: dict[str, Provider] = {
    "pg_attrdef": _of(tables.pg_attrdef, "adrelid"),
    "pg_constraint": _constraints,
    "pg_index": _indexes,
    "pg_inherits": _of(tables.pg_inherits, "inhrelid"),
    "pg_partitioned_table": _of(tables.pg_partitioned_table, "partrelid"),
    "pg_rewrite": _of(tables.pg_rewrite, "ev_class", ev_type="1", ev_enabled="O", is_instead=True, ev_qual="<>"),
    "pg_trigger": _triggers,
    "pg_sequence": _of(tables.pg_sequence, "seqrelid"),
    "pg_depend": _depends,
    "pg_description": _descriptions,
    "pg_shdescription": stored(tables.pg_shdescription),
    "pg_namespace": stored(tables.pg_namespace),
    "pg_default_acl": stored(tables.pg_default_acl),
    "pg_database": stored(tables.pg_database, dathasloginevt=False, dattablespace=1663, **_NO_XID),
    "pg_authid": _roles,
    "pg_auth_members": stored(tables.pg_auth_members),
    "pg_db_role_setting": stored(tables.pg_db_role_setting),
    "pg_publication": stored(tables.pg_publication),
    "pg_publication_rel": _of(tables.pg_publication_rel, "prrelid"),
    "pg_publication_namespace": _of(tables.pg_publication_namespace, "pnpubid", tables.pg_publication),
    "pg_subscription": _subscriptions,
    "pg_subscription_rel": _of(tables.pg_subscription_rel, "srrelid"),
    "pg_foreign_data_wrapper": _wrappers,
    "pg_foreign_server": stored(tables.pg_foreign_server),
    "pg_user_mapping": stored(tables.pg_user_mapping),
    "pg_user_mappings": _user_mappings,
    "pg_replication_origin": stored(tables.pg_replication_origin),
    "pg_enum": _of(tables.pg_enum, "enumtypid", tables.pg_type, {"typtype": "e"}),
    "pg_operator": _both(
        _rows_of(builtin.operators, "opr", commutator="oprcom", negator="oprnegate"), stored(tables.pg_operator)
    ),
    "pg_aggregate": _rows_of(builtin.aggregates, "agg", oid="aggfnoid"),
    "pg_cast": _both(_rows_of(builtin.casts, "cast"), _own_casts),
    "pg_collation": _both(
        _rows_of(builtin.collations, "coll", deterministic="collisdeterministic"), stored(tables.pg_collation)
    ),
    "pg_range": _both(
        _rows_of(builtin.ranges, "rng", oid="rngtypid", multirange="rngmultitypid"),
        lambda session: (row._asdict() for row in _own_ranges(session)),
    ),
    "pg_am": _rows_of(builtin.access_methods, "am"),
    "pg_opfamily": _rows_of(builtin.opfamilies, "opf"),
    "pg_opclass": _rows_of(builtin.opclasses, "opc"),
    "pg_amop": _rows_of(builtin.amops, "amop", operator="amopopr"),
    "pg_amproc": _rows_of(builtin.amprocs, "amproc", number="amprocnum", proc="amproc"),
    "pg_conversion": _rows_of(builtin.conversions, "con", source="conforencoding", target="contoencoding"),
    "pg_ts_parser": _rows_of(builtin.ts_parsers, "prs"),
    "pg_ts_template": _rows_of(builtin.ts_templates, "tmpl"),
    "pg_ts_dict": _rows_of(builtin.ts_dicts, "dict"),
    "pg_ts_config": _rows_of(builtin.ts_configs, "cfg"),
    "pg_ts_config_map": _rows_of(builtin.ts_config_maps, "map"),
    "pg_tablespace": _tablespaces,
    "pg_language": _languages,
    "pg_extension": _extensions,
    "pg_init_privs": _initial_privileges,
}

# catalogs of which the rows of some OIDs can be read: users' relations, types and functions
KEYED: dict[str, Callable[[Session, Only], Iterable[Values]]] = {
    "pg_class": _classes,
    "pg_attribute": _attributes,
    "pg_type": _types,
    "pg_proc": _procs,
}
# and the rows in them that are PostgreSQL's own
OWN: dict[str, Provider] = {
    "pg_class": _own_classes,
    "pg_attribute": _own_attributes,
    "pg_type": _own_types,
    "pg_proc": _own_procs,
}
# catalogs whose rows change with definitions only
SETTLED = frozenset(
    "pg_attribute pg_type pg_proc pg_constraint pg_index pg_attrdef pg_depend pg_description pg_inherits".split()
)

EMPTY = frozenset(
    "pg_shdepend pg_largeobject "
    "pg_statistic pg_largeobject_metadata pg_foreign_table pg_policy pg_statistic_ext "
    "pg_statistic_ext_data pg_event_trigger pg_transform pg_shseclabel pg_seclabel "
    "pg_parameter_acl "
    "transforms column_options foreign_data_wrapper_options foreign_table_options foreign_tables "
    "_pg_foreign_table_columns _pg_foreign_tables".split()
)
