"""ALTER SYSTEM: settings of the instance (AlterSystemSetConfigFile in guc.c).

Settings that PostgreSQL writes to postgresql.auto.conf are in the catalog. They apply to every session that begins
afterwards, and to one that calls pg_reload_conf() (`catalog.system_settings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import parameters, tables
from pgrepl.catalog.parameter_values import check_custom_name
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import delete, insert
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterSystemStmt, VariableSetKind
from pgrepl.statements.settings import setting_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

# the places of the server's files are given by its start command
_NOT_IN_FILE = frozenset({"config_file", "data_directory", "hba_file", "ident_file"})


def alter_system(stmt: AlterSystemStmt, session: Session) -> Result:
    require_no_block(session, "ALTER SYSTEM")
    setting = stmt.setting
    if setting.kind is VariableSetKind.RESET_ALL:
        if not is_superuser(session):
            raise PgError("42501", "permission denied to perform ALTER SYSTEM RESET ALL")
        delete(session, tables.pgrepl_setting)
        return Result("ALTER SYSTEM")
    assert setting.name is not None
    name = setting.name
    if not is_superuser(session):
        raise PgError("42501", f'permission denied to set parameter "{name}"')
    text = setting_text(session, setting)
    key = _checked(session, name, text)
    delete(session, tables.pgrepl_setting, name=key)
    if text is not None:
        insert(session, tables.pgrepl_setting, name=key, value=text)
    return Result("ALTER SYSTEM")


def _checked(session: Session, name: str, text: str | None) -> str:
    """The canonical name, if ALTER SYSTEM may set it and the value is valid."""
    parameter = parameters.find(name)
    if parameter is None:
        check_custom_name(name)
        return name
    if parameter.context == "internal" or parameter.key in _NOT_IN_FILE | parameters.NO_RESET_ALL:
        raise PgError("55P02", f'parameter "{name}" cannot be changed')
    if text is not None:
        session.settings.check_text(name, text)
        if "\n" in text:
            raise PgError("22023", "parameter value for ALTER SYSTEM must not contain a newline")
    return parameter.name
