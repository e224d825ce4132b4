"""What an expression runs in: the session behind it, the style of texts, and what one call of a function may ask about
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.memory import Meter
from pgrepl.types.style import DEFAULT_STYLE, TextStyle

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Context:
    """The surroundings of the expressions of one statement. Without a session only what needs no catalog can run."""

    def __init__(self, session: Session | None = None, style: TextStyle | None = None) -> None:
        self._session = session
        self._style = style
        self._meter: Meter | None = None

    @property
    def meter(self) -> Meter:
        """Of the memory that the statement's rows take."""
        if self._meter is None:
            limit = self._session.settings.value("pgrepl.memory_limit") if self._session is not None else 0
            self._meter = Meter(int(limit) << 10)
        return self._meter

    @property
    def session(self) -> Session:
        assert self._session is not None, "this expression needs a session"
        return self._session

    @property
    def has_session(self) -> bool:
        return self._session is not None

    def catalog_function(self, source: str) -> tuple[Callable[..., Any], bool] | None:
        """What computes a function that only the catalog can answer, and whether it wants the call."""
        return None if self._session is None else self._session.hooks.catalog_function(source)

    def hash_classes(self, parent: int) -> tuple[tuple[int, int], ...] | None:
        """Operator classes and types of the key of a hash-partitioned table; None: it is none."""
        from pgrepl.expr.partition import partition_key

        key = partition_key(self.session, parent)
        if key is None or key.strategy != "h":
            return None
        return tuple((column.opclass, column.type) for column in key.columns)

    @property
    def style(self) -> TextStyle:
        """The settings that texts depend on, as they were when the statement first needed them."""
        if self._style is None:
            self._style = DEFAULT_STYLE if self._session is None else self._session.text_style
        return self._style

    @property
    def now(self) -> int:
        """Start of the transaction, microseconds since 2000-01-01."""
        from pgrepl.types.datetime_decoding import current_usecs

        return current_usecs(self.style)


@frozen
class Call:
    """One place where a function is called: what its implementation may need beyond the values."""

    context: Context
    argtypes: tuple[int, ...]  # the actual types, where the declared ones are polymorphic
    type: int
    collation: int = 0
    variadic: bool = False  # the last argument was given as VARIADIC array

    @property
    def session(self) -> Session:
        return self.context.session

    @property
    def style(self) -> TextStyle:
        return self.context.style
