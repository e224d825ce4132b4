"""The parameters of a function in SQL, as its statements name them: $1, name, function.name, name.field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import project
from pgrepl.expr.analyse.kinds import Conflict
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.tree import Const, Expr, Variable

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class SqlVariables:
    """`values` None: a parameter stands for itself, as a `Variable` with its number; else for its value."""

    conflict = Conflict.COLUMN

    def __init__(
        self,
        session: Session,
        function: str,
        names: Sequence[str],
        types: Sequence[int],
        values: Sequence[Any] | None = None,
    ) -> None:
        self._scope = Scope(session)
        self._function = function
        self._names = names
        self._types = types
        self._values = values
        self._found: dict[int, int] = {}  # the number of the parameter that stands at a place

    def of(self, values: Sequence[Any]) -> SqlVariables:
        """The parameters with these values."""
        return SqlVariables(self._scope.session, self._function, self._names, self._types, values)

    def value(self, variable: Variable) -> Expr:
        """The value of a parameter as a constant."""
        assert self._values is not None
        return Const(
            variable.type,
            typmod=variable.typmod,
            collation=variable.collation,
            location=variable.location,
            value=self._values[variable.number - 1],
        )

    def numbered(self, number: int, location: int) -> Expr | None:
        if not 0 < number <= len(self._types):
            return None
        self._found[location] = number
        typoid = self._types[number - 1]
        variable = Variable(typoid, collation=lookup.collation(typoid), location=location, number=number)
        return variable if self._values is None else self.value(variable)

    def number_at(self, location: int) -> int:
        return self._found[location]

    def named(self, names: tuple[str, ...], location: int, *, must_have_field: bool) -> Expr | None:
        """A parameter of a function in SQL, by its name (sql_fn_post_column_ref)."""
        if len(names) > 1 and names[0] == self._function:
            found = self._parameter(names[1], location)
            rest = names[2:]
            if found is not None:
                return self._field(found, rest, location)
        found = self._parameter(names[0], location)
        return None if found is None else self._field(found, names[1:], location)

    def _parameter(self, name: str, location: int) -> Expr | None:
        if not name or name not in self._names:
            return None
        return self.numbered(self._names.index(name) + 1, location)

    def _field(self, found: Expr, rest: tuple[str, ...], location: int) -> Expr | None:
        if not rest:
            return found
        return project(self._scope, rest[0], found, location) if len(rest) == 1 else None

    def starred(self, names: tuple[str, ...], location: int) -> Expr | None:
        found = self.named(names, location, must_have_field=False)
        return found if found is not None and lookup.is_row(found.type) else None


def input_names(names: Sequence[str] | None, modes: Sequence[str] | None, count: int) -> list[str]:
    """The names of the input parameters of a routine; empty ones have none."""
    if names is None:
        return [""] * count
    return [name for name, mode in zip(names, modes or "i" * len(names), strict=True) if mode in "ibv"]


@contextmanager
def analysing(session: Session, variables: SqlVariables | None) -> Iterator[None]:
    """Statements see the variables, and no parameters of the client's statement."""
    before, parameters = session.variables, session.parameters
    session.variables, session.parameters = variables, None
    try:
        yield
    finally:
        session.variables, session.parameters = before, parameters
