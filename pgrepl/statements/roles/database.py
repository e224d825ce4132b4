"""CREATE, ALTER, DROP and RENAME of databases (dbcommands.c).

All databases of an instance stand in the same tables: creating one copies the schemas of its template, dropping one
removes its rows. Text is compared by code point, so the locales are C and C.UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_owner, is_owner
from pgrepl.catalog.facts.privileges import with_new_owner
from pgrepl.catalog.facts.roles import (
    check_can_set_role,
    database_by_name,
    database_or_none,
    has_attribute,
    resolve_role,
    role_by_name,
)
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, insert_many, new_oid, rows, update
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, PG_DATABASE
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting, get_boolean, get_int32, get_object_id, get_string
from pgrepl.sql.nodes import (
    AlterDatabaseStmt,
    AlterOwnerStmt,
    CreateDatabaseStmt,
    DefElem,
    DropDatabaseStmt,
    RenameStmt,
)
from pgrepl.statements.settings import alter_setting
from pgrepl.types.input_checks import NAMES, UTF8, encoding_name, has_codec, is_for_servers, is_utf8

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_CREATE_OPTIONS = frozenset(
    {
        "tablespace", "owner", "template", "encoding", "locale", "builtin_locale", "lc_collate", "lc_ctype",
        "icu_locale", "icu_rules", "locale_provider", "is_template", "allow_connections", "connection_limit",
        "collation_version", "location", "oid", "strategy",
    }
)  # fmt: skip
_ALTER_OPTIONS = frozenset({"is_template", "allow_connections", "connection_limit", "tablespace"})
_LOCALES = {"C": "C", "POSIX": "POSIX", "C.UTF-8": "C.UTF-8", "C.utf8": "C.UTF-8"}


def _options(session: Session, options: tuple[DefElem, ...], known: frozenset[str]) -> dict[str, DefElem]:
    given: dict[str, DefElem] = {}
    for option in options:
        if option.name not in known:
            raise PgError("42601", f'option "{option.name}" not recognized', location=option.location)
        if option.name == "location":
            session.notice(
                "WARNING",
                "LOCATION is not supported anymore",
                sqlstate="0A000",
                hint="Consider using tablespaces instead.",
            )
            continue
        if option.name in given:
            conflicting(option)
        given[option.name] = option
    return {name: option for name, option in given.items() if option.value is not None or name == "oid"}


def _connection_limit(given: dict[str, DefElem]) -> int:
    if "connection_limit" not in given:
        return -1
    limit = get_int32(given["connection_limit"])
    if limit < -1:
        raise PgError("22023", f"invalid connection limit: {limit}")
    return limit


# --- CREATE -----------------------------------------------------------------------------------------------------------


def create_database(stmt: CreateDatabaseStmt, session: Session) -> Result:
    """CREATE DATABASE (createdb)."""
    require_no_block(session, "CREATE DATABASE")
    given = _options(session, stmt.options, _CREATE_OPTIONS)
    _check_oid(given)
    encoding = _encoding(given)
    _check_locale_provider(given)
    values: dict[str, Any] = {
        "datistemplate": "is_template" in given and get_boolean(given["is_template"]),
        "datallowconn": "allow_connections" not in given or get_boolean(given["allow_connections"]),
        "datconnlimit": _connection_limit(given),
    }
    values["datdba"] = role_by_name(session, get_string(given["owner"])).oid if "owner" in given else session.role
    if not has_attribute(session, session.role, "rolcreatedb"):
        raise PgError("42501", "permission denied to create database")
    check_can_set_role(session, session.role, values["datdba"])
    template = _template(session, given)
    _check_strategy(given)
    values.update(_locale(given, template))
    of_template = NAMES[template.encoding]
    encoding = encoding or of_template
    _check_encoding(encoding, values)
    if template.datname != "template0" and encoding != of_template:
        raise PgError(
            "22023",
            f"new encoding ({encoding}) is incompatible with the encoding of the template database ({of_template})",
            hint="Use the same encoding as in the template database, or use template0 as template.",
        )
    _check_matches_template(values, template)
    if "tablespace" in given:
        _check_tablespace(get_string(given["tablespace"]))
    if database_or_none(session, stmt.name) is not None:
        raise PgError("42P04", f'database "{stmt.name}" already exists')
    oid = new_oid(session)
    insert(
        session,
        tables.pg_database,
        oid=oid,
        datname=stmt.name,
        encoding=NAMES.index(encoding),
        datlocprovider="c",
        datacl=None,
        **values,
    )
    _copy_contents(session, template.oid, oid)
    return Result("CREATE DATABASE")


def _encoding(given: dict[str, DefElem]) -> str | None:
    option = given.get("encoding")
    if option is None:
        return None
    if isinstance(option.value, int) and not isinstance(option.value, bool):
        name = NAMES[option.value] if 0 <= option.value < len(NAMES) else None
        given_as = f"{option.value} is not a valid encoding code"
    else:
        text = get_string(option)
        name, given_as = encoding_name(text), f"{text} is not a valid encoding name"
    if name is None or not is_for_servers(name):
        raise PgError("42704", given_as, location=option.location)
    if (is_utf8(name) and name != UTF8) or not has_codec(name):
        raise unsupported(f"a database with encoding {name}", location=option.location)
    return name


def _check_encoding(encoding: str, values: dict[str, Any]) -> None:
    """The locale C goes with every encoding, C.UTF-8 with its own (check_encoding_locale_matches)."""
    for column, setting in (("datctype", "LC_CTYPE"), ("datcollate", "LC_COLLATE")):
        if encoding != "UTF8" and values[column] == "C.UTF-8":
            raise PgError(
                "22023",
                f'encoding "{encoding}" does not match locale "{values[column]}"',
                detail=f'The chosen {setting} setting requires encoding "UTF8".',
            )


def _check_locale_provider(given: dict[str, DefElem]) -> None:
    if "locale_provider" in given:
        provider = get_string(given["locale_provider"])
        if provider.lower() not in ("builtin", "icu", "libc"):
            raise PgError("42P17", f"unrecognized locale provider: {provider}")
        if provider.lower() != "libc":
            raise unsupported(f"locale provider {provider.lower()}")
    if "builtin_locale" in given:
        raise PgError("42P17", "BUILTIN_LOCALE cannot be specified unless locale provider is builtin")
    if "icu_locale" in given:
        raise PgError("42P17", "ICU locale cannot be specified unless locale provider is ICU")
    if "icu_rules" in given:
        raise PgError("42P17", "ICU rules cannot be specified unless locale provider is ICU")


def _template(session: Session, given: dict[str, DefElem]) -> tables.pg_database:
    name = get_string(given["template"]) if "template" in given else "template1"
    row = database_or_none(session, name)
    if row is None:
        raise PgError("3D000", f'template database "{name}" does not exist')
    if not row.datistemplate and not is_owner(session, row.datdba):
        raise PgError("42501", f'permission denied to copy database "{name}"')
    return row


def _check_strategy(given: dict[str, DefElem]) -> None:
    if "strategy" not in given:
        return
    strategy = get_string(given["strategy"])
    if strategy.lower() not in ("wal_log", "file_copy"):
        raise PgError(
            "22023",
            f'invalid create database strategy "{strategy}"',
            hint='Valid strategies are "wal_log" and "file_copy".',
        )


def _locale(given: dict[str, DefElem], template: tables.pg_database) -> dict[str, str]:
    locales = {}
    for column, option, category in (("datcollate", "lc_collate", "LC_COLLATE"), ("datctype", "lc_ctype", "LC_CTYPE")):
        chosen = given.get(option) or given.get("locale")
        if chosen is None:
            locales[column] = getattr(template, column)
            continue
        name = get_string(chosen)
        if name not in _LOCALES:
            raise PgError(
                "42809",
                f'invalid {category} locale name: "{name}"',
                hint="If the locale name is specific to ICU, use ICU_LOCALE.",
            )
        locales[column] = _LOCALES[name]
    return locales


def _check_matches_template(values: dict[str, Any], template: tables.pg_database) -> None:
    if template.datname == "template0":
        return
    for column, what, again in (
        ("datcollate", "new collation ({}) is incompatible with the collation", "collation"),
        ("datctype", "new LC_CTYPE ({}) is incompatible with the LC_CTYPE", "LC_CTYPE"),
    ):
        if values[column] != getattr(template, column):
            raise PgError(
                "22023",
                f"{what.format(values[column])} of the template database ({getattr(template, column)})",
                hint=f"Use the same {again} as in the template database, or use template0 as template.",
            )


def _check_tablespace(name: str) -> None:
    if name == "pg_global":
        raise PgError("42501", "pg_global cannot be used as default tablespace")
    if name != "pg_default":
        raise PgError("42704", f'tablespace "{name}" does not exist')


def _check_oid(given: dict[str, DefElem]) -> None:
    if "oid" not in given:
        return
    if get_object_id(given["oid"]) < FIRST_NORMAL_OID:
        raise PgError("22023", f"OIDs less than {FIRST_NORMAL_OID} are reserved for system objects")
    raise unsupported("CREATE DATABASE ... OID")


def _copy_contents(session: Session, source: int, target: int) -> None:
    """Copy the template's schemas, their comments, and default privileges. Objects in them cannot be copied: OIDs
    are unique in the instance."""
    for table in (tables.pg_class, tables.pg_publication, tables.pg_proc, tables.pg_type):
        if rows(session, table, datid=source):
            raise unsupported("CREATE DATABASE from a template that has tables, publications, functions or types")
    copied: dict[int, int] = {}
    schemas = []
    for row in rows(session, tables.pg_namespace, datid=source):
        copied[row.oid] = row.oid if row.oid < FIRST_NORMAL_OID else new_oid(session)
        schemas.append(
            {
                "datid": target,
                "oid": copied[row.oid],
                "nspname": row.nspname,
                "nspowner": row.nspowner,
                "nspacl": row.nspacl,
            }
        )
    insert_many(session, tables.pg_namespace, schemas)
    comments = [
        {**row._asdict(), "datid": target, "objoid": copied[row.objoid]}
        for row in rows(session, tables.pg_description, datid=source)
        if row.objoid in copied
    ]
    insert_many(session, tables.pg_description, comments)
    entries = []
    for entry in rows(session, tables.pg_default_acl, datid=source):
        namespace, oid = entry.defaclnamespace, new_oid(session)
        copy = entry._replace(datid=target, oid=oid, defaclnamespace=copied.get(namespace, namespace))
        entries.append(copy._asdict())
    insert_many(session, tables.pg_default_acl, entries)


# --- ALTER ------------------------------------------------------------------------------------------------------------


def alter_database(stmt: AlterDatabaseStmt, session: Session) -> Result:
    """ALTER DATABASE (AlterDatabase, AlterDatabaseSet)."""
    if stmt.setting is not None:
        row = database_by_name(session, stmt.name)
        check_owner(session, "database", stmt.name, row.datdba)
        alter_setting(session, row.oid, 0, stmt.setting)
        return Result("ALTER DATABASE")
    given = _options(session, stmt.options, _ALTER_OPTIONS)
    if "tablespace" in given:
        if len(stmt.options) != 1:
            raise PgError(
                "0A000",
                'option "tablespace" cannot be specified with other options',
                location=given["tablespace"].location,
            )
        require_no_block(session, "ALTER DATABASE SET TABLESPACE")
        raise unsupported("ALTER DATABASE SET TABLESPACE")
    values: dict[str, Any] = {}
    if "is_template" in given:
        values["datistemplate"] = get_boolean(given["is_template"])
    if "allow_connections" in given:
        values["datallowconn"] = get_boolean(given["allow_connections"])
    if "connection_limit" in given:
        values["datconnlimit"] = _connection_limit(given)
    row = database_by_name(session, stmt.name)
    check_owner(session, "database", stmt.name, row.datdba)
    if values.get("datallowconn") is False and row.oid == session.database_oid:
        raise PgError("22023", "cannot disallow connections for current database")
    if values:
        update(session, tables.pg_database, {"oid": row.oid}, **values)
    return Result("ALTER DATABASE")


def rename_database(stmt: RenameStmt, session: Session) -> Result:
    """ALTER DATABASE … RENAME TO (RenameDatabase)."""
    row = database_by_name(session, stmt.name)
    check_owner(session, "database", stmt.name, row.datdba)
    if not has_attribute(session, session.role, "rolcreatedb"):
        raise PgError("42501", "permission denied to rename database")
    if database_or_none(session, stmt.new_name) is not None:
        raise PgError("42P04", f'database "{stmt.new_name}" already exists')
    if row.oid == session.database_oid:
        raise PgError("0A000", "current database cannot be renamed")
    update(session, tables.pg_database, {"oid": row.oid}, datname=stmt.new_name)
    return Result("ALTER DATABASE")


def alter_database_owner(stmt: AlterOwnerStmt, session: Session) -> Result:
    new_owner = resolve_role(session, stmt.new_owner)
    row = database_by_name(session, stmt.name[-1])
    if row.datdba != new_owner:
        check_owner(session, "database", row.datname, row.datdba)
        check_can_set_role(session, session.role, new_owner)
        if not has_attribute(session, session.role, "rolcreatedb"):
            raise PgError("42501", "permission denied to change owner of database")
        change_database_owner(session, row, new_owner)
    return Result("ALTER DATABASE")


def change_database_owner(session: Session, row: tables.pg_database, new_owner: int) -> None:
    acl = with_new_owner(row.datacl, row.datdba, new_owner)
    update(session, tables.pg_database, {"oid": row.oid}, datdba=new_owner, datacl=acl)


# --- DROP -------------------------------------------------------------------------------------------------------------


def drop_database(stmt: DropDatabaseStmt, session: Session) -> Result:
    """DROP DATABASE: one that nobody uses, with all that is in it (dropdb)."""
    require_no_block(session, "DROP DATABASE")
    row = database_or_none(session, stmt.name)
    if row is None:
        if not stmt.missing_ok:
            raise PgError("3D000", f'database "{stmt.name}" does not exist')
        session.notice("NOTICE", f'database "{stmt.name}" does not exist, skipping')
        return Result("DROP DATABASE")
    check_owner(session, "database", stmt.name, row.datdba)
    if row.datistemplate:
        raise PgError("42809", "cannot drop a template database")
    if row.oid == session.database_oid:
        raise PgError("55006", "cannot drop the currently open database")
    _check_unused(session, row)
    _remove_contents(session, row.oid)
    delete(session, tables.pg_shdescription, objoid=row.oid, classoid=PG_DATABASE)
    delete(session, tables.pg_db_role_setting, setdatabase=row.oid)
    delete(session, tables.pg_database, oid=row.oid)
    return Result("DROP DATABASE")


def _check_unused(session: Session, row: tables.pg_database) -> None:
    slots = [s for s in rows(session, tables.pg_replication_slot, datoid=row.oid) if s.active_pid is not None]
    if slots:
        many = f"There are {len(slots)} active slots." if len(slots) > 1 else "There is 1 active slot."
        raise PgError("55006", f'database "{row.datname}" is used by an active logical replication slot', detail=many)
    prepared = len(rows(session, tables.pgrepl_prepared, datid=row.oid))
    if prepared:
        many = f"There are {prepared} prepared transactions" if prepared > 1 else "There is 1 prepared transaction"
        raise PgError(
            "55006", f'database "{row.datname}" is being accessed by other users', detail=f"{many} using the database."
        )
    subscriptions = len(rows(session, tables.pg_subscription, subdbid=row.oid))
    if subscriptions:
        many = f"There are {subscriptions} subscriptions." if subscriptions > 1 else "There is 1 subscription."
        raise PgError(
            "55006", f'database "{row.datname}" is being used by logical replication subscription', detail=many
        )


def _remove_contents(session: Session, database: int) -> None:
    """Delete the database's rows from the system tables; old versions stay, as for a dropped table."""
    relations = [row.oid for row in rows(session, tables.pg_class, datid=database)]
    publications = [row.oid for row in rows(session, tables.pg_publication, datid=database)]
    for table, column in (
        (tables.pg_attribute, "attrelid"),
        (tables.pg_attrdef, "adrelid"),
        (tables.pg_index, "indrelid"),
        (tables.pg_inherits, "inhrelid"),
        (tables.pg_partitioned_table, "partrelid"),
        (tables.pg_rewrite, "ev_class"),
        (tables.pg_sequence, "seqrelid"),
        (tables.pg_trigger, "tgrelid"),
    ):
        delete(session, table, **{column: relations})
    delete(session, tables.pg_publication_rel, prpubid=publications)
    types = [row.oid for row in rows(session, tables.pg_type, datid=database)]
    delete(session, tables.pg_enum, enumtypid=types)
    for own in (
        tables.pg_proc,
        tables.pg_type,
        tables.pg_publication_namespace,
        tables.pg_publication,
        tables.pg_constraint,
        tables.pg_class,
        tables.pg_namespace,
        tables.pg_default_acl,
        tables.pg_depend,
        tables.pg_description,
    ):
        delete(session, own, datid=database)
    delete(session, tables.pg_replication_slot, datoid=database)
