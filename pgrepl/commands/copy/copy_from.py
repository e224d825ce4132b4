"""COPY FROM: the rows of a file, a program or the client go into a table (BeginCopyFrom, CopyFrom)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.transaction import require_writable
from pgrepl.commands.base import Result
from pgrepl.commands.copy.encoding import codec
from pgrepl.commands.copy.options import CopyOptions, copy_options
from pgrepl.commands.copy.places import Incoming, check_place, incoming
from pgrepl.commands.copy.relations import check_freeze, check_target
from pgrepl.commands.copy.target import Target, find_target, with_options
from pgrepl.errors import unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes import CopyStmt


def copy_from(stmt: CopyStmt, session: Session) -> Result:
    check_place(session, stmt)
    target, options = _prepared(session, stmt)
    with incoming(session, stmt, binary=options.format != "text" and not options.csv) as data:
        check_target(target.relation)
        if options.freeze:
            check_freeze(session, target.relation)
        count = _load(session, stmt, target, options, data)
        data.finish()
    return Result(f"COPY {count}")


def _prepared(session: Session, stmt: CopyStmt) -> tuple[Target, CopyOptions]:
    """Everything that can be known before there are data."""
    target = find_target(session, stmt)
    if target.relation.persistence != "t":
        require_writable(session, "COPY FROM")
    options = copy_options(stmt.options, is_from=True)
    target = with_options(target, options)
    if options.format == "binary":
        raise unsupported('COPY format "binary"')
    codec(options.encoding or session.settings.get("client_encoding"))
    return target, options


def _load(session: Session, stmt: CopyStmt, target: Target, options: CopyOptions, data: Incoming) -> int:
    from pgrepl.commands.copy.local import load

    # What the statement has seen of the catalog may have changed while the client was sending.
    session.transaction.require_write()
    target, options = _prepared(session, stmt)
    return load(session, target, options, data, from_client=stmt.filename is None)
