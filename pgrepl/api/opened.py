"""A session in a catalog of this process: what the shell's connection and a program's connection have in common."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import stack_depth_exceeded

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.catalog.store.connection import Catalog
    from pgrepl.ground.errors import Report
    from pgrepl.query.result import Result
    from pgrepl.statements.run import Execute


class OpenedSession:
    """An open session and its catalog. `on_report` gets its notices as they come."""

    def __init__(
        self,
        catalog: str | os.PathLike[str],
        database: str,
        user: str,
        *,
        settings: Mapping[str, str] | None = None,
        data_path: str | None = None,
        folder: str = "",
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """PgError if the catalog cannot be opened, or does not let the role in. Arguments as for open_catalog."""
        from pgrepl.backend import open_session
        from pgrepl.catalog.store.opening import open_catalog

        self.lost: PgError | None = None  # the error that has ended the session
        self.idle_since = time.monotonic()
        self.catalog: Catalog = open_catalog(catalog, data_path=data_path, folder=folder)
        self.session: Session = open_session(self.catalog, database, user, on_report=on_report, settings=settings)

    def run(
        self, text: str, parameters: Sequence[Parameter] | None = None, *, execute: Execute | None = None
    ) -> Iterator[Result]:
        """Run a simple query: the results of its statements, one after the other. With `parameters` it is one statement
        with values for $1, $2, … `execute` carries out the statements, if they are not really run. PgError where a
        statement fails."""
        from pgrepl.statements import utility
        from pgrepl.statements.run import run, run_extended

        self.check_open()
        try:
            if parameters is None:
                yield from run(self.session, text, execute or utility.execute)
            else:
                result = run_extended(self.session, text, parameters, execute or utility.execute)
                if result is not None:
                    yield result
        except PgError as error:
            if error.report.severity == "FATAL":
                self.terminate(error)
            raise
        except Exception as problem:
            raise interrupts.pg_error(problem) or internal_error(problem) from problem
        except GeneratorExit:
            # the rest of the string is not wanted: its transaction must not stay open
            if self.session.transaction.block.name == "IMPLICIT":
                self.session.transaction.fail_statement()
            raise
        finally:
            self.idle_since = time.monotonic()

    def check_open(self) -> None:
        """Raise the error that has ended the session, or that of a session that was idle for too long."""
        from pgrepl.query.timeouts import overdue

        error = self.lost or overdue(self.session, self.idle_since)
        if error is not None:
            self.terminate(error)
            raise error

    def terminate(self, error: PgError) -> None:
        """End the session with a FATAL error, which later statements get, too."""
        if self.lost is None:
            self.lost = error
            self.session.close()

    def close(self) -> None:
        if self.lost is None:
            self.session.close()
        self.catalog.close()


def require_catalog(file: str, folder: str = "", *, hint: str | None = None) -> None:
    """An error if there is no such catalog, which opening would make."""
    if "://" not in file:
        try:
            os.stat(os.path.join(folder, file))
        except OSError as problem:
            message = f'could not open catalog "{file}": {problem.strerror}'
            raise PgError("58P01", message, hint=hint, severity="FATAL") from None


def internal_error(problem: Exception) -> PgError:
    """An internal error in PostgreSQL's form: a defect of pgrepl names its place in the code, without a traceback."""
    if isinstance(problem, RecursionError):
        return stack_depth_exceeded()
    if isinstance(problem, MemoryError):
        return PgError("53200", "out of memory")
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None
    if trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_name}, {os.path.basename(code.co_filename)}:{trace.tb_lineno}"
    return PgError("XX000", f"internal error: {type(problem).__name__}: {problem}", context=place)
