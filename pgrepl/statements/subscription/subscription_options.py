"""The WITH and SET options of CREATE and ALTER SUBSCRIPTION: their values, defaults and mutual exclusions.

One pass reads and checks the options in the order they were written; then their combinations are checked
(parse_subscription_options). The caller gives the options that its statement knows: others are "unrecognized".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.identifiers import check_slot_name
from pgrepl.catalog.subscription import NO_SCHEMA, TABLES
from pgrepl.catalog.subscription_facts import SCHEMA_CHANGES
from pgrepl.errors import PgError
from pgrepl.sql.def_elem import conflicting, get_boolean, get_streaming, get_string
from pgrepl.sql.nodes import DefElem
from pgrepl.types.lsn import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

CREATE = frozenset(
    """connect enabled create_slot slot_name copy_data synchronous_commit binary streaming two_phase disable_on_error
    password_required run_as_owner failover origin schema_changes conflict_log""".split()
)
SET = CREATE - {"connect", "enabled", "create_slot", "copy_data", "two_phase"}
PUBLICATION = frozenset({"copy_data", "refresh"})
REFRESH = frozenset({"copy_data"})
SKIP = frozenset({"lsn"})


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The names of the options written (`given`), and the values of all."""

    given: frozenset[str] = frozenset()
    connect: bool = True
    enabled: bool = True
    create_slot: bool = True
    slot_name: str | None = None
    copy_data: bool = True
    synchronous_commit: str | None = None
    refresh: bool = True
    binary: bool = False
    streaming: str = "f"
    two_phase: bool = False
    disable_on_error: bool = False
    password_required: bool = True
    run_as_owner: bool = False
    failover: bool = False
    origin: str = "any"
    schema_changes: str = NO_SCHEMA
    conflict_log: bool = False
    lsn: int = 0


def parse_subscription_options(
    session: Session, options: Sequence[DefElem], known: Collection[str]
) -> SubscriptionOptions:
    found: dict[str, Any] = {}
    for option in options:
        if option.name not in known:
            raise PgError("42601", f'unrecognized subscription parameter: "{option.name}"')
        if option.name == "lsn":  # a missing value is reported before a repeated option
            get_string(option)
        if option.name in found:
            conflicting(option)
        if option.name == "synchronous_commit":
            found[option.name] = get_string(option)
            session.settings.check_value("synchronous_commit", found[option.name])
        else:
            found[option.name] = _READERS.get(option.name, get_boolean)(option)
    parsed = SubscriptionOptions(given=frozenset(found), **found)
    if "connect" in known and not parsed.connect:
        parsed = _not_connected(parsed)
    _check_slot_none(parsed, known)
    if parsed.two_phase and parsed.schema_changes == TABLES:
        raise _exclusive("two_phase = true", "schema_changes = tables")
    return parsed


def _not_connected(options: SubscriptionOptions) -> SubscriptionOptions:
    for name in ("enabled", "create_slot", "copy_data"):
        if name in options.given and getattr(options, name):
            raise _exclusive("connect = false", f"{name} = true")
    return replace(options, enabled=False, create_slot=False, copy_data=False)


def _check_slot_none(options: SubscriptionOptions, known: Collection[str]) -> None:
    if options.slot_name is not None or "slot_name" not in options.given:
        return
    for name in ("enabled", "create_slot"):
        if name not in known or not getattr(options, name):
            continue
        if name in options.given:
            raise _exclusive("slot_name = NONE", f"{name} = true")
        raise PgError("42601", f"subscription with slot_name = NONE must also set {name} = false")


def _exclusive(one: str, other: str) -> PgError:
    return PgError("42601", f"{one} and {other} are mutually exclusive options")


def _slot_name(option: DefElem) -> str | None:
    name = get_string(option)
    if name == "none":
        return None
    check_slot_name(name)
    return name


def _origin(option: DefElem) -> str:
    value = get_string(option)
    if value.lower() not in ("none", "any"):
        raise PgError("22023", f'unrecognized origin value: "{value}"')
    return value


def _schema_changes(option: DefElem) -> str:
    value = get_string(option)
    modes = {word: mode for mode, word in SCHEMA_CHANGES.items()}
    if value.lower() not in modes:
        raise PgError("22023", f'unrecognized schema_changes value: "{value}"')
    return modes[value.lower()]


def _lsn(option: DefElem) -> int:
    text = get_string(option)
    if text == "none":
        return 0
    lsn = parse_lsn(text)
    if lsn == 0:
        raise PgError("22023", f"invalid WAL location (LSN): {text}")
    return lsn


_READERS: dict[str, Callable[[DefElem], Any]] = {
    "slot_name": _slot_name,
    "streaming": get_streaming,
    "origin": _origin,
    "schema_changes": _schema_changes,
    "lsn": _lsn,
}
