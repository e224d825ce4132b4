"""The primary of a standby: `primary_conninfo`, as PostgreSQL's standbys have it.

The string names the primary's folder (`host=/folder`), or its catalog file if that is not called catalog.db.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.opening import open_catalog
from pgrepl.catalog.recovery import is_standby
from pgrepl.errors import PgError, unsupported
from pgrepl.replication.libpq.conninfo import check_conninfo

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def conninfo_of(primary: Session) -> str:
    """The connection string of the primary."""
    path = catalog_file(primary)
    host = path.parent if path.name == "catalog.db" else path
    quoted = str(host).replace("\\", "\\\\").replace("'", "\\'")
    return f"host='{quoted}' dbname=postgres"


def catalog_file(session: Session) -> Path:
    path = session.catalog.path
    if path is None:
        raise unsupported("a standby of a catalog on a database server")
    return path.resolve()


@contextmanager
def on_primary(standby: Session) -> Iterator[Session]:
    """A session in the primary, as the bootstrap superuser: a user who may read its files may follow it."""
    conninfo = str(standby.settings.get("primary_conninfo"))
    if not conninfo:
        raise PgError("22023", 'replication slot synchronization requires "primary_conninfo" to be set')
    host = check_conninfo(conninfo, False).get("host", "")
    file = Path(host, "catalog.db") if Path(host).is_dir() else Path(host)
    if not host.startswith("/") or not file.is_file():
        raise PgError("08006", f'could not connect to the primary server: there is no catalog in "{host}"')
    try:
        catalog = open_catalog(file)
    except PgError as problem:
        raise PgError("08006", f"could not connect to the primary server: {problem.message}") from problem
    try:
        session = standby.elsewhere(0, BOOTSTRAP_SUPERUSER, catalog=catalog)
        try:
            check_primary(session)
            yield session
        finally:
            session.close()
    finally:
        catalog.close()


def check_primary(session: Session) -> None:
    """Raise unless the session's catalog is a primary's (validate_remote_info)."""
    if is_standby(session.link):
        raise PgError("0A000", "cannot synchronize replication slots from a standby server")
