"""The foreign servers of a server's database, for `CREATE SUBSCRIPTION … SERVER` here: those of postgres_fdw have the
wrapper `postgresql` here, which knows libpq's options alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pgrepl.replication.conninfo import SERVER_OPTIONS, USER_OPTIONS
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.types.oids import TEXT_ARRAY
from pgrepl.types.text import read_text

_WRAPPERS = {"postgres_fdw": "postgresql", "postgresql": "postgresql"}
_SERVERS = (
    "SELECT s.srvname, w.fdwname, s.srvtype, s.srvversion, s.srvoptions::text FROM pg_catalog.pg_foreign_server s"
    " JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw ORDER BY 1"
)
_MAPPINGS = (
    "SELECT u.srvname, CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(u.usename) END,"
    " u.umoptions::text, (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)"
    " FROM pg_catalog.pg_user_mappings u ORDER BY 1, 2"
)


class Foreign(NamedTuple):
    """A server or a user mapping. Without a statement it is of a wrapper that is not here, `left` says so; else `left`
    says what the statement leaves out."""

    what: str
    statement: str
    left: tuple[str, ...]


def servers(link: Link) -> Iterator[Foreign]:
    for name, wrapper, kind, version, stored in link.rows(_SERVERS):
        what = f"server {quote_identifier(name or '')}"
        here = _wrapper(link, wrapper or "")
        if here is None:
            yield Foreign(what, "", (f"{what} is not imported: its foreign-data wrapper is {wrapper}",))
            continue
        options, left = _options(stored, SERVER_OPTIONS if here == "postgresql" else None)
        words = f"CREATE SERVER {quote_identifier(name or '')}"
        words += "".join(
            f" {word} {quote_literal(text)}" for word, text in (("TYPE", kind), ("VERSION", version)) if text
        )
        notes = tuple([f"option {each} of {what} is not here" for each in left])
        yield Foreign(what, f"{words} FOREIGN DATA WRAPPER {here}{options};", notes)


def mappings(link: Link) -> Iterator[Foreign]:
    """The user mappings of those servers; of options what the role may see, passwords among them."""
    known = {name: _wrapper(link, wrapper or "") for name, wrapper, *_ in link.rows(_SERVERS)}
    for server, user, stored, sees_all in link.rows(_MAPPINGS):
        here = known.get(server)
        if here is None:
            continue
        words = f"FOR {user} SERVER {quote_identifier(server or '')}"
        options, left = _options(stored, USER_OPTIONS if here == "postgresql" else None)
        notes = [f"option {each} of user mapping {words} is not here" for each in left]
        if stored is None and sees_all != "t":
            notes.append(f"user mapping {words} may have options that cannot be read")
        yield Foreign(f"user mapping {words}", f"CREATE USER MAPPING {words}{options};", tuple(notes))


def _wrapper(link: Link, name: str) -> str | None:
    return name if link.is_lake else _WRAPPERS.get(name)


def _options(stored: str | None, known: Collection[str] | None) -> tuple[str, list[str]]:
    """The clause of the options that are known here, and the names of others."""
    items = [] if stored is None else [str(item).partition("=") for item in read_text(stored, TEXT_ARRAY).items]
    taken = [(name, value) for name, _, value in items if known is None or name in known]
    listed = ", ".join(f"{quote_identifier(name)} {quote_literal(value)}" for name, value in taken)
    left = [name for name, _, _ in items if known is not None and name not in known]
    return f" OPTIONS ({listed})" if listed else "", left
