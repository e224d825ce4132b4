"""CREATE, ALTER and DROP SERVER and USER MAPPING (foreigncmds.c), for the connections of subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, check_owner, check_privilege, is_owner
from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.privileges import with_new_owner
from pgrepl.catalog.facts.roles import check_can_set_role, is_superuser, resolve_role, role_or_none
from pgrepl.catalog.facts.subscription import (
    PUBLIC,
    WRAPPERS,
    mapped_name,
    mapping_or_none,
    options_of,
    server_by_name,
    server_or_none,
)
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import insert, new_oid, update
from pgrepl.catalog.store.system import PG_FOREIGN_SERVER, PG_USER_MAPPING, ObjectAddress
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.replication.conninfo import SERVER_OPTIONS, USER_OPTIONS
from pgrepl.sql.nodes import (
    AlterForeignServerStmt,
    AlterOwnerStmt,
    AlterUserMappingStmt,
    CreateForeignServerStmt,
    CreateUserMappingStmt,
    DropStmt,
    DropUserMappingStmt,
    ForeignOption,
    RenameStmt,
    RoleSpec,
)
from pgrepl.statements.deletion import drop_objects

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_OF_USERS = {"postgresql": USER_OPTIONS, "lake": ("user", "password")}
_OF_SERVERS = {"postgresql": sorted(SERVER_OPTIONS), "lake": ["dbname", "host"]}


def create_server(stmt: CreateForeignServerStmt, session: Session) -> Result:
    """CREATE SERVER: the current role owns it (CreateForeignServer)."""
    done = Result("CREATE SERVER")
    if server_or_none(session, stmt.name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42710", f'server "{stmt.name}" already exists')
        session.notice("NOTICE", f'server "{stmt.name}" already exists, skipping', sqlstate="42710")
        return done
    wrapper = _wrapper(stmt.wrapper)
    _check_wrapper(session, stmt.wrapper, session.role)
    options = _changed((), stmt.options, _OF_SERVERS[stmt.wrapper])
    insert(
        session,
        tables.pg_foreign_server,
        datid=session.database_oid,
        oid=new_oid(session),
        srvname=stmt.name,
        srvowner=session.role,
        srvfdw=wrapper,
        srvtype=stmt.type,
        srvversion=stmt.version,
        srvacl=None,
        srvoptions=options,
    )
    return done


def _wrapper(name: str) -> int:
    for oid, known in WRAPPERS.items():
        if known == name:
            return oid
    raise PgError("42704", f'foreign-data wrapper "{name}" does not exist')


def _check_wrapper(session: Session, wrapper: str, role: int) -> None:
    """Nobody but superusers has USAGE on the wrappers."""
    if not is_superuser(session, role):
        raise PgError("42501", f"permission denied for foreign-data wrapper {wrapper}")


def alter_server(stmt: AlterForeignServerStmt, session: Session) -> Result:
    row = server_by_name(session, stmt.name)
    check_owner(session, "foreign server", stmt.name, row.srvowner)
    options = _changed(row.srvoptions or (), stmt.options, _OF_SERVERS[WRAPPERS[row.srvfdw]])
    version = stmt.version if stmt.has_version else row.srvversion
    update(session, tables.pg_foreign_server, {"oid": row.oid}, srvoptions=options, srvversion=version)
    return Result("ALTER SERVER")


def drop_servers(stmt: DropStmt, session: Session) -> Result:
    addresses = []
    for (name,) in stmt.names:
        row = server_or_none(session, name) if stmt.missing_ok else server_by_name(session, name)
        if row is None:
            session.notice("NOTICE", f'server "{name}" does not exist, skipping')
            continue
        check_owner(session, "foreign server", name, row.srvowner)
        addresses.append(ObjectAddress(PG_FOREIGN_SERVER, row.oid))
    drop_objects(session, addresses, cascade=stmt.cascade)
    return Result("DROP SERVER")


def rename_server(stmt: RenameStmt, session: Session) -> Result:
    row = server_by_name(session, stmt.name)
    check_owner(session, "foreign server", stmt.name, row.srvowner)
    if server_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'server "{stmt.new_name}" already exists')
    update(session, tables.pg_foreign_server, {"oid": row.oid}, srvname=stmt.new_name)
    return Result("ALTER SERVER")


def give_server(stmt: AlterOwnerStmt, session: Session) -> Result:
    (name,) = stmt.name
    change_server_owner(session, server_by_name(session, name), resolve_role(session, stmt.new_owner))
    return Result("ALTER SERVER")


def change_server_owner(session: Session, row: tables.pg_foreign_server, owner: int) -> None:
    """The new owner needs USAGE on the wrapper, unless a superuser asks (AlterForeignServerOwner_internal)."""
    if row.srvowner == owner:
        return
    if not is_superuser(session):
        check_owner(session, "foreign server", row.srvname, row.srvowner)
        check_can_set_role(session, session.role, owner)
        _check_wrapper(session, WRAPPERS[row.srvfdw], owner)
    acl = with_new_owner(row.srvacl, row.srvowner, owner)
    update(session, tables.pg_foreign_server, {"oid": row.oid}, srvowner=owner, srvacl=acl)


# --- user mappings ----------------------------------------------------------------------------------------------------


def create_user_mapping(stmt: CreateUserMappingStmt, session: Session) -> Result:
    """CREATE USER MAPPING: one for each user of a server (CreateUserMapping)."""
    user = _user(session, stmt.user)
    server = server_by_name(session, stmt.server)
    _check_may_map(session, user, server)
    done = Result("CREATE USER MAPPING")
    if mapping_or_none(session, user, server.oid) is not None:
        text = f'user mapping for "{mapped_name(session, user)}" already exists for server "{stmt.server}"'
        if not stmt.if_not_exists:
            raise PgError("42710", text)
        session.notice("NOTICE", f"{text}, skipping", sqlstate="42710")
        return done
    oid = new_oid(session)
    insert(
        session,
        tables.pg_user_mapping,
        datid=session.database_oid,
        oid=oid,
        umuser=user,
        umserver=server.oid,
        umoptions=_changed((), stmt.options, _OF_USERS[WRAPPERS[server.srvfdw]]),
    )
    address, whole = ObjectAddress(PG_USER_MAPPING, oid), ObjectAddress(PG_FOREIGN_SERVER, server.oid)
    record_dependency(session, address, whole, Dependency.NORMAL)
    return done


def alter_user_mapping(stmt: AlterUserMappingStmt, session: Session) -> Result:
    user = _user(session, stmt.user)
    server = server_by_name(session, stmt.server)
    row = mapping_or_none(session, user, server.oid)
    if row is None:
        raise _no_mapping(session, user, stmt.server)
    _check_may_map(session, user, server)
    options = _changed(row.umoptions or (), stmt.options, _OF_USERS[WRAPPERS[server.srvfdw]])
    update(session, tables.pg_user_mapping, {"oid": row.oid}, umoptions=options)
    return Result("ALTER USER MAPPING")


def drop_user_mapping(stmt: DropUserMappingStmt, session: Session) -> Result:
    """DROP USER MAPPING; with IF EXISTS the user, the server or the mapping may be missing (RemoveUserMapping)."""
    done = Result("DROP USER MAPPING")
    if stmt.missing_ok and stmt.user.name is not None and role_or_none(session, stmt.user.name) is None:
        session.notice("NOTICE", f'role "{stmt.user.name}" does not exist, skipping')
        return done
    user = _user(session, stmt.user)
    server = server_or_none(session, stmt.server) if stmt.missing_ok else server_by_name(session, stmt.server)
    if server is None:
        session.notice("NOTICE", f'server "{stmt.server}" does not exist, skipping')
        return done
    row = mapping_or_none(session, user, server.oid)
    if row is None:
        missing = _no_mapping(session, user, stmt.server)
        if not stmt.missing_ok:
            raise missing
        session.notice("NOTICE", f"{missing.message}, skipping")
        return done
    _check_may_map(session, user, server)
    drop_objects(session, [ObjectAddress(PG_USER_MAPPING, row.oid)], cascade=False)
    return done


def _user(session: Session, spec: RoleSpec) -> int:
    return PUBLIC if spec.word == "public" else resolve_role(session, spec)


def _no_mapping(session: Session, user: int, server: str) -> PgError:
    return PgError("42704", f'user mapping for "{mapped_name(session, user)}" does not exist for server "{server}"')


def _check_may_map(session: Session, user: int, server: tables.pg_foreign_server) -> None:
    """The owner of the server maps any user, who has USAGE himself (user_mapping_ddl_aclcheck)."""
    if is_owner(session, server.srvowner):
        return
    if user != session.role:
        check_owner(session, "foreign server", server.srvname, server.srvowner)
    check_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE", server.srvname)


# --- options ----------------------------------------------------------------------------------------------------------


def _changed(stored: Sequence[str], changes: Sequence[ForeignOption], valid: Collection[str]) -> list[str] | None:
    """The options after ADD, SET and DROP, which must be valid; None: there are none (transformGenericOptions)."""
    options = options_of(stored)
    for action, name, value in changes:
        if action == "add" and name in options:
            raise PgError("42710", f'option "{name}" provided more than once')
        if action != "add" and name not in options:
            raise PgError("42704", f'option "{name}" not found')
        if action == "drop":
            del options[name]
        else:
            assert value is not None
            options[name] = value
    for name in options:
        if name not in valid:
            close = get_close_matches(name, valid, 1)
            hint = f'Perhaps you meant the option "{close[0]}".' if close else None
            raise PgError("HV00D", f'invalid option "{name}"', hint=hint)
    return [f"{name}={value}" for name, value in options.items()] or None
