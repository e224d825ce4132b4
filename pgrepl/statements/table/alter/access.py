"""SET TABLESPACE and SET ACCESS METHOD: there is one of each, so these only refuse names that do not exist."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.tables import pg_class
from pgrepl.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd
from pgrepl.statements.table.access import HEAP, check_tablespace, table_access_method
from pgrepl.statements.table.alter.targets import INDEX, MATVIEW, PARTITIONED_INDEX, TABLE, check_target
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue


def prepare_tablespace(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """As ATPrepSetTableSpace does."""
    check_target(work.session, cmd.kind.value, rel, TABLE + MATVIEW + INDEX + PARTITIONED_INDEX)
    check_tablespace(cmd.name, partitioned=False)
    altered = work.entry(rel)
    if altered.tablespace is not None:
        raise PgError("42601", "cannot have multiple SET TABLESPACE subcommands")
    altered.tablespace = cmd.name


def prepare_access_method(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """As ATPrepSetAccessMethod does. Only a partitioned table may be without one: its partitions take the default."""
    check_target(work.session, cmd.kind.value, rel, TABLE + MATVIEW)
    altered = work.entry(rel)
    if altered.access_method is not None:
        raise PgError("0A000", "cannot have multiple SET ACCESS METHOD subcommands")
    partitioned = rel.kind == "p"
    method = table_access_method(cmd.name) if cmd.name is not None else 0 if partitioned else HEAP
    if method != rel.access_method:
        altered.access_method = method
        altered.add(Pass.MISC, partial(_change, method=method))


def _change(work: WorkQueue, altered: AlteredTable, *, method: int) -> None:
    store.update(work.session, pg_class, {"oid": altered.oid}, relam=method)
