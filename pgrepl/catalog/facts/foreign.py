"""Foreign servers and user mappings: the connection string that a subscription gets from them (foreign.c).

There are two foreign-data wrappers: `postgresql` for servers, `lake` for databases of lakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, has_privilege
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser, role_name
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

WRAPPERS = {9910: "postgresql", 9911: "lake"}  # by OIDs that PostgreSQL keeps free
PUBLIC = 0


def servers(session: Session) -> list[tables.pg_foreign_server]:
    """The servers of the database by name."""
    return sorted(rows(session, tables.pg_foreign_server, datid=session.database_oid), key=lambda row: str(row.srvname))


def server_or_none(session: Session, name: str) -> tables.pg_foreign_server | None:
    return one(session, tables.pg_foreign_server, datid=session.database_oid, srvname=name)


def server_by_name(session: Session, name: str) -> tables.pg_foreign_server:
    row = server_or_none(session, name)
    if row is None:
        raise PgError("42704", f'server "{name}" does not exist')
    return row


def server_by_oid(session: Session, oid: int) -> tables.pg_foreign_server:
    row = one(session, tables.pg_foreign_server, oid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for foreign server {oid}")
    return row


def mapping_or_none(session: Session, user: int, server: int) -> tables.pg_user_mapping | None:
    return one(session, tables.pg_user_mapping, umserver=server, umuser=user)


def mappings(session: Session, server: int) -> list[tables.pg_user_mapping]:
    """The mappings of a server by the names of their users, that for PUBLIC first."""
    found = rows(session, tables.pg_user_mapping, umserver=server)
    return sorted(found, key=lambda row: "" if row.umuser == PUBLIC else role_name(session, row.umuser))


def mapped_name(session: Session, user: int) -> str:
    """The user of a mapping, in the words of messages (MappingUserName)."""
    return "public" if user == PUBLIC else role_name(session, user)


def may_see_options(session: Session, mapping: tables.pg_user_mapping, server: tables.pg_foreign_server) -> bool:
    """Whether pg_user_mappings shows the current role the options, a password among them."""
    if is_superuser(session):
        return True
    owns = has_privs_of_role(session, session.role, server.srvowner)
    if mapping.umuser == PUBLIC:
        return owns
    usage = owns or has_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE")
    return mapping.umuser == session.role and usage


def options_of(stored: Sequence[str] | None) -> dict[str, str]:
    return {name: value for name, _, value in (item.partition("=") for item in stored or ())}


def conninfo_of(session: Session, subscription: tables.pg_subscription) -> str:
    """The subscription's connection string: its own, or that of its foreign server and of its owner's mapping
    (construct_subserver_conninfo)."""
    if not subscription.subserver:
        return str(subscription.subconninfo)
    server = server_by_oid(session, subscription.subserver)
    owner = subscription.subowner
    if not has_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE", owner):
        who = role_name(session, owner)
        text = f'subscription owner "{who}" does not have permission on foreign server "{server.srvname}"'
        raise PgError("42501", text)
    return server_conninfo(session, server, owner)


def server_conninfo(session: Session, server: tables.pg_foreign_server, user: int) -> str:
    """The options of the server and of the user's mapping, else PUBLIC's, as a connection string
    (ForeignServerConnectionString)."""
    mapping = mapping_or_none(session, user, server.oid) or mapping_or_none(session, PUBLIC, server.oid)
    if mapping is None:
        raise mapping_not_found(session, user, server)
    options = options_of(server.srvoptions) | options_of(mapping.umoptions)
    return " ".join(f"{name}={_quoted(value)}" for name, value in options.items())


def mapping_not_found(session: Session, user: int, server: tables.pg_foreign_server) -> PgError:
    who = mapped_name(session, user)
    return PgError("42704", f'user mapping not found for user "{who}", server "{server.srvname}"')


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
