"""The settings of a session: SET, SET LOCAL, RESET and SHOW, undone when their transaction is (guc.c).

Two maps hold what differs from the defaults: the values now, and those after the transaction's commit (without SET
LOCAL). SET replaces both maps and changes neither: a transaction or a savepoint need only keep the old ones, and while
a map is the same object, nothing in it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.parameter_checks import CHECKS, notice_of_missing
from pgrepl.catalog.session.parameters import Parameter, Value, check_custom_name, parse
from pgrepl.catalog.store.system import ROLE_READ_ALL_SETTINGS
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import StringRules

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

Made = TypeVar("Made")


class Setting(NamedTuple):
    """A value, the extra that its check hook made of it (the OID of a role), and its source (pg_settings.source)."""

    value: Value
    extra: Any = None
    source: str = "session"


class SettingsState(NamedTuple):
    """The settings that a transaction or savepoint returns to."""

    now: Mapping[str, Setting]
    later: Mapping[str, Setting]


USUAL_RELEASE = 17
_FILE = "configuration file"
_COMMAND = "command line"
_READ_ONLY = "transaction_read_only"
# of a release that is not the usual one
_SPOKEN: Mapping[str, Mapping[int, Value]] = {"server_version": {18: "18.4"}, "server_version_num": {18: 180004}}
CHARACTERISTICS = ("transaction_isolation", _READ_ONLY, "transaction_deferrable")


class Settings:
    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        self._now: Mapping[str, Setting] = {}
        self._later: Mapping[str, Setting] = {}
        self._defaults: Mapping[str, Setting] = {}  # from the connection, the role, the database
        self._custom: dict[str, str] = {}  # names of custom parameters as they were first written
        self.loaded_at: datetime | None = None  # when the instance's settings were read
        self.pending_restart: frozenset[str] = frozenset()  # keys of settings that only a new session applies
        self._derived: dict[str, Any] = {}
        self._derived_from: tuple[Mapping[str, Setting], Mapping[str, Setting]] = ({}, {})

    # --- asking ---------------------------------------------------------------------------------------------------

    def get(self, name: str) -> str:
        """The value as SHOW prints it."""
        key = name.lower()
        setting = self._find(key)
        parameter = parameters.find(key)
        if parameter is None:
            if setting is None:
                raise parameters.unrecognized(name)
            return str(setting.value)
        if key == "is_superuser":
            return "on" if self._is_superuser() else "off"
        if key == "in_hot_standby":
            return "on" if in_recovery(self._session) else "off"
        if key == "seed":
            return "unavailable"
        if key == "effective_wal_level":
            return self.get("wal_level")
        value = setting.value if setting is not None else parameter.default
        return value if isinstance(value, str) else parameters.show(parameter, value)

    def value(self, name: str) -> Value:
        """The value itself: bool, int, float or str, in the parameter's base unit."""
        key = name.lower()
        setting = self._find(key)
        if setting is not None:
            return setting.value
        parameter = parameters.find(key)
        if parameter is None:
            raise parameters.unrecognized(name)
        return parameter.default

    def derived(self, what: str, make: Callable[[], Made]) -> Made:
        """What is made of the settings and nothing else; made anew when any of them has changed."""
        now, defaults = self._derived_from
        if now is not self._now or defaults is not self._defaults:
            self._derived, self._derived_from = {}, (self._now, self._defaults)
        if what not in self._derived:
            self._derived[what] = make()
        derived: Made = self._derived[what]
        return derived

    @property
    def state(self) -> object:
        """An object that is another one when a setting has changed."""
        return self.derived("state", object)

    @property
    def release(self) -> int:
        """The release of PostgreSQL that the session speaks, where releases differ: 17 or 18."""
        setting = self._find("pgrepl.postgres_version")
        return USUAL_RELEASE if setting is None else int(setting.value)

    def found(self, keys: Sequence[str]) -> tuple[Value | None, ...]:
        """The values of several at once, only to be compared: None is the default."""
        now, defaults = self._now, self._defaults
        return tuple([None if (s := now.get(key) or defaults.get(key)) is None else s.value for key in keys])

    def extra(self, name: str) -> Any:
        setting = self._find(name)
        return None if setting is None else setting.extra

    def source(self, name: str) -> str:
        """The source of the value (pg_settings.source)."""
        setting = self._find(name.lower())
        return "default" if setting is None else setting.source

    def reset_value(self, name: str) -> Value:
        """The value that RESET returns to (pg_settings.reset_val)."""
        setting = self._defaults.get(name.lower())
        if setting is not None:
            return setting.value
        parameter = parameters.find(name)
        return "" if parameter is None else parameter.default

    def canonical_name(self, name: str) -> str:
        """The name as the column of SHOW has it."""
        parameter = parameters.find(name)
        if parameter is not None:
            return parameter.name
        key = name.lower()
        if self._find(key) is None:
            raise parameters.unrecognized(name)
        return self._custom.get(key, name)

    def custom_names(self) -> list[str]:
        """The custom parameters that have a value."""
        return [shown for key, shown in self._custom.items() if self._find(key) is not None]

    def set_names(self) -> list[str]:
        """The keys of settings that are set, here or as defaults of the connection, the role and the database."""
        return list(dict.fromkeys((*self._defaults, *self._now)))

    def may_examine(self, name: str) -> bool:
        """May the role see the setting? Some are for superusers and members of pg_read_all_settings only."""
        return name.lower() not in parameters.SUPERUSER_ONLY or has_privs_of_role(
            self._session, self._session.role, ROLE_READ_ALL_SETTINGS
        )

    def check_may_examine(self, name: str) -> None:
        if not self.may_examine(name):
            raise PgError(
                "42501",
                f'permission denied to examine "{name}"',
                detail='Only roles with privileges of the "pg_read_all_settings" role may examine this parameter.',
            )

    def _find(self, key: str) -> Setting | None:
        setting = self._now.get(key) or self._defaults.get(key)
        if setting is None and key in _SPOKEN and self.release in _SPOKEN[key]:
            return Setting(_SPOKEN[key][self.release], None, "default")
        return setting

    def _is_superuser(self) -> bool:
        return is_superuser(self._session)

    # --- setting --------------------------------------------------------------------------------------------------

    def set(self, name: str, text: str | None, *, local: bool = False) -> None:
        """SET name = text; None resets it."""
        key = name.lower()
        parameter = self.check_may_set(name)
        if text is None:
            if key in parameters.NO_RESET:
                raise PgError("0A000", f'parameter "{name}" cannot be reset')
            self._remove(key, local)
        else:
            self._put(key, self._checked(name, parameter, text), local or key in CHARACTERISTICS)
        if parameter is None and key not in self._custom:  # from now on it exists, whatever becomes of this value
            self._custom[key] = name
            self._put_default(key, Setting("", None, "default"))
        if key == "session_authorization":
            self._remove("role", local)  # another user begins as himself

    def check_may_set(self, name: str) -> Parameter | None:
        """The parameter if the role may set it now; None for a custom one (set_config_with_handle)."""
        parameter = parameters.find(name)
        if parameter is None:
            if name.lower() not in self._custom:
                check_custom_name(name)
            return None
        if parameter.context == "internal":
            raise PgError("55P02", f'parameter "{name}" cannot be changed')
        if parameter.context == "postmaster":
            raise PgError("55P02", f'parameter "{name}" cannot be changed without restarting the server')
        if parameter.context == "sighup":
            raise PgError("55P02", f'parameter "{name}" cannot be changed now')
        if parameter.context in ("backend", "superuser-backend"):
            raise PgError("55P02", f'parameter "{name}" cannot be set after connection start')
        within = self._session.within
        if within and parameter.key in ("role", "session_authorization"):
            raise PgError("42501", f'cannot set parameter "{name}" within {within}')
        if parameter.context == "superuser" and not self._is_superuser():
            raise PgError("42501", f'permission denied to set parameter "{name}"')
        return parameter

    def check_text(self, name: str, text: str) -> None:
        """An error unless the text is a value of the parameter, whoever may set it."""
        self._checked(name, parameters.find(name), text)

    def set_by_system(self, name: str, text: str) -> None:
        """Make a value of ALTER SYSTEM the default."""
        parameter = parameters.find(name)
        setting = self._checked(name, parameter, text)._replace(source=_FILE)
        if self._defaults.get(name.lower(), setting).source == _FILE:
            self._put_default(name, setting)
        if parameter is None:
            self._custom.setdefault(name.lower(), name)

    def set_by_command_line(self, given: Mapping[str, str]) -> None:
        """Make values of the server's command line the defaults, unless the client or its role has set others."""
        for name, text in given.items():
            setting = self._checked(name, parameters.find(name), text)._replace(source=_COMMAND)
            if self._defaults.get(name.lower(), setting).source in (_COMMAND, _FILE):
                self._put_default(name, setting)

    def system_names(self) -> list[str]:
        """The parameters whose default is a value of ALTER SYSTEM."""
        return [self.canonical_name(key) for key, setting in self._defaults.items() if setting.source == _FILE]

    def forget_system(self, name: str) -> None:
        """Return to the built-in default, after ALTER SYSTEM RESET."""
        self._defaults = {key: setting for key, setting in self._defaults.items() if key != name.lower()}

    def differs_from_system(self, name: str, text: str | None) -> bool:
        """Would a new session begin with another value, now that ALTER SYSTEM has set `text` (None: nothing)?"""
        parameter = parameters.find(name)
        assert parameter is not None
        now = self._defaults.get(parameter.key)
        value = parameter.default if text is None else self._checked(name, parameter, text).value
        return value != (parameter.default if now is None else now.value)

    def take_system(self, other: Settings) -> None:
        """Copy the values of ALTER SYSTEM from another session of the instance."""
        self._take(other, _FILE, _FILE)

    def take_client(self, other: Settings) -> None:
        """Copy what the client of a session has set at its start, for the workers of its command."""
        self._take(other, "client", _COMMAND)

    def take_command(self, other: Settings) -> None:
        """Copy what take_client has copied."""
        self._take(other, _COMMAND, _COMMAND)

    def _take(self, other: Settings, source: str, as_source: str) -> None:
        for name, setting in other._defaults.items():
            if setting.source == source:
                self._put_default(name, setting._replace(source=as_source))

    def take_defaults(self, other: Settings) -> None:
        """Copy the defaults of a session, for one that is to work like it."""
        self._defaults = other._defaults

    def kept(self) -> tuple[Any, ...]:
        """The settings of a session that is in no transaction, for `take_kept`."""
        return self._now, self._defaults, self._custom, self.loaded_at, self.pending_restart

    def take_kept(self, kept: tuple[Any, ...]) -> None:
        self._now, self._defaults, self._custom, self.loaded_at, self.pending_restart = kept
        self._later = self._now

    def forget_stored(self) -> None:
        """Forget the settings of roles and databases, before they are read anew."""
        stored = ("global", "database", "user", "database user")
        self._defaults = {name: setting for name, setting in self._defaults.items() if setting.source not in stored}

    def check_value(self, name: str, text: str) -> None:
        """Check a value for ALTER ROLE … SET; an object that may exist later is only a NOTICE (PGC_S_TEST)."""
        parameter = self.check_may_set(name)
        try:
            self._checked(name, parameter, text)
        except PgError as problem:
            notice = notice_of_missing(name.lower(), text, problem)
            if notice is None:
                raise
            self._session.notice("NOTICE", notice, sqlstate="42501" if problem.sqlstate == "42501" else "42704")

    def _checked(self, name: str, parameter: Parameter | None, text: str) -> Setting:
        if parameter is None:
            return Setting(text)
        value = parse(parameter, text, name)
        check = CHECKS.get(parameter.key)
        return Setting(value) if check is None else Setting(*check(self._session, parameter.name, value))

    def set_default(self, name: str, text: str, *, complain: bool, source: str = "client") -> None:
        """Set a default from the client, the role or the database, which RESET returns to.

        A bad one from the client ends the connection; a bad stored one is a warning.
        """
        try:
            parameter = parameters.find(name)
            if (
                parameter is None
                or parameter.context in ("internal", "postmaster", "sighup")
                or (parameter.context == "superuser" and complain)
            ):
                self.check_may_set(name)
            setting = self._checked(name, parameter, text)._replace(source=source)
        except PgError as problem:
            if not complain:
                self._session.notice(
                    "WARNING", problem.message, sqlstate=problem.sqlstate, detail=problem.report.detail
                )
                return
            report = problem.report
            raise PgError(
                report.sqlstate, report.message, detail=report.detail, hint=report.hint, severity="FATAL"
            ) from problem
        self._put_default(name, setting)
        if parameter is None:
            self._custom.setdefault(name.lower(), name)

    def set_identity(self, role: int, name: str) -> None:
        """Set the session user at the start."""
        self._put_default("session_authorization", Setting(name, role, "default"))

    def set_encoding(self, encoding: str) -> None:
        """Set the encoding of the database, which is the client's unless it asks for another one."""
        for name in ("server_encoding", "client_encoding"):
            self._put_default(name, Setting(encoding, None, "default"))

    def reset_all(self) -> None:
        keep = parameters.NO_RESET_ALL
        self._now = {k: v for k, v in self._now.items() if k in keep}
        self._later = {k: v for k, v in self._later.items() if k in keep}

    def _put_default(self, name: str, setting: Setting) -> None:
        self._defaults = {**self._defaults, name.lower(): setting}

    def _put(self, key: str, setting: Setting, local: bool) -> None:
        self._now = {**self._now, key: setting}
        if not local:
            self._later = {**self._later, key: setting}

    def _remove(self, key: str, local: bool) -> None:
        if local:
            if key in self._now:
                default = self._defaults.get(key)
                parameter = parameters.find(key)
                if default is None and parameter is not None:
                    default = Setting(parameter.default, None, "default")
                self._now = {k: v for k, v in self._now.items() if k != key}
                if default is not None:
                    self._now = {**self._now, key: default}
            return
        self._now = {k: v for k, v in self._now.items() if k != key}
        self._later = {k: v for k, v in self._later.items() if k != key}

    @property
    def string_rules(self) -> StringRules:
        """The rules by which the session's string constants are read and printed."""
        return self.derived("string_rules", self._string_rules)

    def _string_rules(self) -> StringRules:
        return StringRules(
            self.get("standard_conforming_strings") == "on",
            self.get("escape_string_warning") == "on",
            self.get("backslash_quote") != "off",  # UTF-8 is safe
            self.release,
        )

    @contextmanager
    def during(self, items: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Settings while a routine runs (GUC_ACTION_SAVE). Afterwards they are as before, unless SET has changed
        them."""
        keys = [name.lower() for name, _ in items]
        before, later = self._now, self._later
        for name, text in items:
            self.set(name, text, local=True)
        try:
            yield
        finally:
            for key in keys:
                was_set = self._later.get(key) is not later.get(key)
                setting = self._later.get(key) if was_set else before.get(key)
                self._now = {k: v for k, v in self._now.items() if k != key}
                if setting is not None:
                    self._now = {**self._now, key: setting}

    def of_routine(self, config: Sequence[str] | None) -> AbstractContextManager[None]:
        """Apply a routine's SET clauses (`name=text`, pg_proc.proconfig) while it runs."""
        items = [item.partition("=") for item in config or ()]
        return self.during([(name, text) for name, _, text in items])

    # --- transactions ---------------------------------------------------------------------------------------------

    def begin(self) -> SettingsState:
        """The settings that a new transaction or savepoint returns to."""
        return SettingsState(self._now, self._later)

    def restore(self, state: Any) -> None:
        """Return to a savepoint's settings."""
        self._now, self._later = state

    def end(self, state: Any, *, committed: bool) -> None:
        """Undo SET LOCAL at the end of the transaction, and after a rollback every SET."""
        self._now = self._later if committed or state is None else state.later
        self._later = self._now

    def start_transaction(self, *, read_only: bool) -> None:
        """Give a new transaction the default characteristics; on a standby it is read-only."""
        changed = {}
        for name in CHARACTERISTICS:
            default = self._find(f"default_{name}")
            if default is not None:
                changed[name] = default
        if read_only:
            changed["transaction_read_only"] = Setting(True, None, "override")
        if changed:
            self._now = {**self._now, **changed}

    def transaction_characteristics(self) -> dict[str, Setting | None]:
        return {name: self._now.get(name) for name in CHARACTERISTICS}

    def set_characteristics(self, kept: Mapping[str, Setting | None]) -> None:
        """Give the next transaction the characteristics of the last (COMMIT AND CHAIN)."""
        others = {name: setting for name, setting in self._now.items() if name not in kept}
        self._now = {**others, **{name: setting for name, setting in kept.items() if setting is not None}}

    def leave_savepoint(self, state: Any) -> None:
        """Keep what was set, at RELEASE, but transaction_read_only as it was before (CommitSubTransaction)."""
        before = SettingsState(*state).now.get(_READ_ONLY)
        others = {name: setting for name, setting in self._now.items() if name != _READ_ONLY}
        self._now = others if before is None else {**others, _READ_ONLY: before}
