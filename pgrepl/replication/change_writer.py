"""Changes of publications, written somewhere with a slot of their own (`pgrepl changes`).

What is written is what a subscription to the publications would receive. The slot is made at first and kept; it moves
on only when what it has sent is flushed, so that the next run continues exactly behind it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.catalog.locks import lock_file
from pgrepl.ground.errors import PgError, Report
from pgrepl.replication.formats.sinks import Sink
from pgrepl.replication.formats.written import SinkOwner
from pgrepl.replication.publisher import slots
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from pgrepl.replication.publisher.lake.transactions import published_since
from pgrepl.replication.publisher.protocol import PublisherError, StreamRequest
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

PORTION = 1 << 26  # bytes that are written between two flushes, about
_PASSING = ("53", "55", "57", "58")  # no place, in use, cancelled, not written


class ChangeWriter:
    """Writes what a slot sends to a sink."""

    def __init__(self, session: Session, publications: Sequence[str], slot: str, sink: Sink) -> None:
        self._session, self._publications, self._slot, self._sink = session, tuple(publications), slot, sink
        there = session.elsewhere(session.database_oid, session.role, apart=True)
        self._publisher = LakePublisher(there, used_password=False, own_instance=True, apart=True)
        self._owner = SinkOwner(slot, session.catalog.identity)
        self._token = ""
        self._position = 0
        self._may_go = False  # the slot is new, and nothing has been confirmed yet

    def start(self, since: int | None) -> None:
        """Begin at the slot's position, or at `since` if that is later. Without the slot: at `since`, but not before
        the publications, or now."""
        with _translated(), self._or_no_new_slot():
            self._check_publications()
            is_new = self._publisher.stream.lag(self._slot) is None
            if is_new:
                self._create(since)
            self._token = lock_file.new_token()
            statement = f'START_REPLICATION SLOT "{self._slot}" LOGICAL {lsn_text(since or 0)}'
            self._publisher.slots.occupy(self._slot, WalSender(self._token, "pgrepl changes", statement))
            position = self._publisher.stream.start(self._slot, 0)
            if since is not None and since < position and not is_new:
                told = f"{lsn_text(since)} has been already streamed, forwarding to {lsn_text(position)}"
                self._session.report(Report("NOTICE", "00000", told))
            self._position = self._publisher.stream.start(self._slot, max(position, since or 0))
        if not is_new:
            self._sink.resume(self._position, self._owner, is_new=False)

    def _check_publications(self) -> None:
        known = self._publisher.catalog.existing_publications(self._publications)
        missing = next((name for name in self._publications if name not in known), None)
        if missing is not None:
            raise PgError("42704", f'publication "{missing}" does not exist')

    def _create(self, since: int | None) -> None:
        """Make the slot. The changes since a past LSN must still be there."""
        session, detail = self._session, None
        slots.check_slot_permissions(session)
        slots.check_decoding_requirements(session)
        with slots.at_once(session) as there:
            slot = slots.create_slot(there, self._slot)
            start = slot.confirmed_flush_lsn or 0
            if since is not None:
                slots.check_start(there, since)
                if since < start:
                    start = slots.begin_at(there, slot, since)
                published, youngest = max((published_since(there, name), name) for name in self._publications)
                if start < published:
                    start = slots.begin_at(there, slot, published)
                    detail = f'No publication "{youngest}" existed before that.'
            self._sink.resume(start, self._owner, is_new=True)  # an output that cannot be written on leaves no slot
        self._may_go = True
        told = f'created replication slot "{self._slot}" at {lsn_text(start)}'
        session.report(Report("NOTICE", "00000", told, detail))

    @contextmanager
    def _or_no_new_slot(self, passing: Sequence[str] = ()) -> Iterator[None]:
        """Drop the slot that this run has made if its first changes cannot be sent: later they could not be, either.
        `passing`: classes of errors that a later run may not meet."""
        try:
            yield
        except (PgError, PublisherError) as problem:
            if self._may_go and problem.sqlstate[:2] not in passing:
                self._leave()
                with slots.at_once(self._session) as there:
                    slots.drop_slot(there, self._slot)
                self._session.report(Report("NOTICE", "00000", f'dropped replication slot "{self._slot}"'))
            raise

    def round(self, upto: int | None, stopped: Callable[[], bool]) -> bool:
        """Write what is there, up to the commits at an LSN, or until told to stop; returns whether there was any."""
        with _translated(), self._or_no_new_slot(_PASSING):
            end = self._publisher.stream.current_lsn()
            end = end if upto is None else min(end, upto + 1)
            if end <= self._position:
                self._may_go = False
                return False
            size, wrote = 0, False
            try:
                wanted = StreamRequest(self._slot, self._publications, self._position, end)
                for transaction in self._publisher.stream.transactions(wanted):
                    size += self._sink.write(transaction)
                    wrote = True
                    if size >= PORTION or stopped():
                        self._confirm(transaction.end_lsn)
                        size = 0
                    if stopped():
                        return wrote
                self._confirm(end)
            except BaseException as problem:
                with suppress(OSError):
                    self._sink.abandon()
                if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):
                    raise self._not_written(problem) from None
                raise
            return wrote

    def _not_written(self, problem: OSError) -> PgError:
        state = "53100" if problem.errno == errno.ENOSPC else "58030"
        return PgError(state, f'could not write to "{self._sink.name}": {problem.strerror}')

    @property
    def position(self) -> int:
        return self._position

    def wait(self, seconds: float, over: Event) -> bool:
        """Wait for the next commit, for so long at most, or until `over` is set and `wake` is called; whether there may
        be something to write."""
        with _translated():
            return self._publisher.stream.wait(self._position, seconds, over)

    def wake(self) -> None:
        """End a wait."""
        self._publisher.stream.wake()

    def beat(self) -> None:
        """Tell that the slot is still in use."""
        with _translated():
            self._publisher.stream.confirm(self._slot, self._position)

    def _confirm(self, lsn: int) -> None:
        self._sink.flush()
        self._publisher.stream.confirm(self._slot, lsn)
        self._position = lsn
        self._may_go = False

    def close(self) -> None:
        try:
            with _translated():
                self._leave()
        finally:
            self._publisher.close()
            self._sink.close()

    def _leave(self) -> None:
        token, self._token = self._token, ""
        if token:
            lock_file.retire(token)
            self._publisher.slots.leave(self._slot, token)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the publisher as they are: there is no connection between it and the reader."""
    try:
        yield
    except PublisherError as problem:
        cause = problem.__cause__
        if isinstance(cause, PgError):
            raise cause from None
        raise PgError(problem.sqlstate, str(problem).removeprefix("ERROR:  ")) from None


def slot_name(publications: Sequence[str]) -> str:
    """The name of the slot, if none is given: of characters that slots may have."""
    word = "_".join(publications).lower()
    shown = "".join([char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in word])
    return f"changes_{shown}"[:63]
