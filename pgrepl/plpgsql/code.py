"""A function made ready to run: its steps, and what is remembered for them between calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.expr.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.assignment import Column
    from pgrepl.plpgsql.compilation import Function
    from pgrepl.plpgsql.frame import Frame, Step
    from pgrepl.plpgsql.piece import Piece


class Code:
    def __init__(self, session: Session, function: Function) -> None:
        self.function = function
        self.session = session
        self.context = RoutineContext(session)
        self.columns: Sequence[Column] = ()  # of the result
        self.pieces: list[Piece] = []  # the SQL of the body
        self.casts: dict[Any, Callable[[Any], Any]] = {}
        self.row_types: dict[int, list[Column]] = {}  # the columns of named row types
        self.run: Step = _unmade
        self._state: object = None

    def refresh(self) -> None:
        """Forget what has been analysed when definitions or the search path have changed since."""
        session = self.session
        self.context.renew()
        now = (session.derived.setdefault(("plpgsql",), object()), session.settings.get("search_path"))
        if self._state != now:
            self._state = now
            self.casts.clear()
            self.row_types.clear()
            for piece in self.pieces:
                piece.forget()


class RoutineContext(Context):
    """The context of compiled expressions, which live longer than a statement."""

    def renew(self) -> None:
        """Read the settings anew, which a statement may have changed."""
        self._style = None


def _unmade(frame: Frame) -> None:
    raise AssertionError("the body has not been compiled")
