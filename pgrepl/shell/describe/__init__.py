r"""`\d` and its family: descriptions of the catalog's objects in psql's tables.

`listing` has what all share, `relation` describes relations (`footers_of`: the lines below a table, whose definitions
expr/print writes), `publications` (and subscriptions), `functions` (and types), `roles` (with databases, privileges
and settings) and `catalog_lists` the rest. They use the catalog's look-ups instead of SQL, so that a description is as
quick in a large catalog as in a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.shell.shell import check_connection

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

RELATION_LETTERS = frozenset("tvmisE")

# of describe/catalog_lists.py
_CATALOG_LISTS = frozenset("a A Ac Af Ao Ap b C c d es et eu ew F Fd Fp Ft L l O o X x y".split())
_FUNCTION_KINDS = frozenset("anptw")


def run(shell: Shell, command: str, args: Sequence[str | None]) -> bool | None:
    r"""Run `\d…`, `\l…` or `\z…`; `args` are its pattern arguments. None: there is no such command."""
    verbose, system = "+" in command, "S" in command
    kind = _kind(command)
    describe = None if kind is None else _find(kind, verbose, system)
    if kind is None or describe is None:
        return None
    connection = shell.connection
    if connection is None:
        shell.error("You are currently not connected to a database.")
        return False
    if not _echo(shell, kind, args[0] if args else None, verbose, system):
        return False
    from pgrepl.shell.describe.listing import BadPattern

    try:
        connection.check_open()
        with reading(connection.session):
            return describe(shell, args)
    except BadPattern as problem:
        shell.error(str(problem))
        return False
    except PgError as error:
        shell.report(error.report, None)
        check_connection(shell, error)
        return False


def _echo(shell: Shell, kind: str, pattern: str | None, verbose: bool, system: bool) -> bool:
    """Print the query that ECHO_HIDDEN shows; False: the command is not to be run."""
    if shell.variables.word("ECHO_HIDDEN") == "off":
        return True
    from pgrepl.shell.describe.hidden_queries import hidden_query

    query = hidden_query(kind, pattern, verbose, system)
    return query is None or shell.echo_hidden(query)


_LONG = ("config", "dp", "rds", "rg", "Rp", "Rs")
_ALONE = "CDLOTXabcdglnopuxy"  # further letters mean nothing

Describe = Callable[["Shell", Sequence[str | None]], bool]


def _first(args: Sequence[str | None]) -> str | None:
    return args[0] if args else None


def _kind(command: str) -> str | None:
    r"""The letters that say what is listed, "" of `\d`; None: there is no such command. psql looks at the first ones,
    and for `+` and `S` anywhere (exec_command_d)."""
    if command in ("l", "l+", "list", "list+"):
        return "databases"
    if command in ("z", "zS"):
        return "p"
    letters = command[1:]
    first, second = letters[:1], letters[1:2]
    if not command.startswith("d"):
        return None
    if first in ("", "+", "S"):
        return ""
    if first in RELATION_LETTERS:
        return "".join(letter for letter in letters if letter in RELATION_LETTERS)
    for known in _LONG:
        if letters.startswith(known):
            return known
    if first in "AeF":
        return letters[:2].rstrip("+")
    if first == "P":
        return "P" + "".join(letter for letter in letters if letter in "tin") if second in ("", *"+tin") else None
    if first == "f":
        return letters.replace("+", "").replace("S", "") if second in ("", *"+S", *_FUNCTION_KINDS) else None
    return first if first in _ALONE else None


def _find(kind: str, verbose: bool, system: bool) -> Describe | None:
    if kind == "":
        return lambda shell, args: _describe(shell, _first(args), verbose, system)
    if set(kind) <= RELATION_LETTERS:
        from pgrepl.shell.describe.relation import list_relations

        return lambda shell, args: list_relations(shell, kind, _first(args), verbose, system)
    return _other(kind, verbose, system)


_ROLES, _FUNCTIONS = "pgrepl.shell.describe.roles", "pgrepl.shell.describe.functions"
_PUBLICATIONS = "pgrepl.shell.describe.publications"
# the lists with one pattern: the function, and whether it asks for `+` (v) and `S` (s)
_LISTS = {
    "databases": ((_ROLES, "list_databases"), "v"),
    "n": ((_ROLES, "list_schemas"), "vs"),
    "u": ((_ROLES, "list_roles"), "vs"),
    "g": ((_ROLES, "list_roles"), "vs"),
    "config": ((_ROLES, "list_parameters"), "v"),
    "rg": ((_ROLES, "list_role_grants"), "s"),
    "p": ((_ROLES, "list_privileges"), "s"),
    "dp": ((_ROLES, "list_default_privileges"), ""),
    "T": ((_FUNCTIONS, "list_types"), "vs"),
    "D": ((_FUNCTIONS, "list_domains"), "vs"),
    "Rs": ((_PUBLICATIONS, "list_subscriptions"), "v"),
}


def _other(kind: str, verbose: bool, system: bool) -> Describe | None:
    if kind in _LISTS:
        (module, name), asked = _LISTS[kind]
        given = [{"v": verbose, "s": system}[letter] for letter in asked]
        return lambda shell, args: bool(getattr(import_module(module), name)(shell, _first(args), *given))
    if kind[0] == "f":
        if not set(kind[1:]) <= _FUNCTION_KINDS:
            return _only_function_kinds
        from pgrepl.shell.describe.functions import list_functions

        return lambda shell, args: list_functions(shell, kind[1:], args, verbose, system)
    if kind == "rds":
        from pgrepl.shell.describe.roles import list_settings

        return lambda shell, args: list_settings(shell, _first(args), args[1] if len(args) > 1 else None)
    if kind == "Rp":
        from pgrepl.shell.describe.publications import describe_publications, list_publications

        chosen = describe_publications if verbose else list_publications
        return lambda shell, args: chosen(shell, _first(args))
    if kind in _CATALOG_LISTS or (kind[0] == "P" and set(kind[1:]) <= set("tin")):
        from pgrepl.shell.describe.catalog_lists import list_objects

        return lambda shell, args: list_objects(shell, kind, args, verbose, system)
    return None


def _only_function_kinds(shell: Shell, args: Sequence[str | None]) -> bool:
    shell.error(r"\df only takes [anptwS+] as options")
    return True


def _describe(shell: Shell, pattern: str | None, verbose: bool, system: bool) -> bool:
    r"""`\d NAME`; without a pattern the same as `\dtvsE`."""
    if pattern is None:
        from pgrepl.shell.describe.relation import list_relations

        return list_relations(shell, "tvmsE", None, verbose, system)
    from pgrepl.shell.describe.relation import describe_relations

    return describe_relations(shell, pattern, verbose, system)
