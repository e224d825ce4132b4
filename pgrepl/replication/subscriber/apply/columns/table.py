"""The messages of a batch for one table here: which of them leave what, where the old rows stand, and the new rows as
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.engine import Declined
from pgrepl.expr.rowfilter import check_replica_identity
from pgrepl.lake.table import LakeTable
from pgrepl.lake.write import Write
from pgrepl.replication.subscriber.apply.columns import fold
from pgrepl.replication.subscriber.apply.columns.convert import Conversion
from pgrepl.replication.subscriber.apply.columns.fold import Folded, NotClean
from pgrepl.replication.subscriber.apply.columns.key_columns import TableKeys, key_values, table_keys
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys, Places
from pgrepl.replication.subscriber.apply.columns.other_keys import KeptKeys, check_other_keys
from pgrepl.replication.subscriber.apply.columns.sent import MOST_BYTES, SentColumns, check_needed, parts_of
from pgrepl.replication.subscriber.apply.columns.unchanged import steps_of, with_kept
from pgrepl.replication.subscriber.apply.roles import check_target_privilege
from pgrepl.replication.wire.batch import AT, DELETE, INSERT, UPDATE, RelationChanges
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.checks_table_spark import SparkChecks
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session

    Numbers = npt.NDArray[Any]

ROW = "__row"  # the row id that a new version keeps
_CHUNK = 16  # bits of a message's number that tell rows of one chunk apart


class TableApply:
    """One table that holds rows, and what a batch does to it. `truncates` are sequence numbers."""

    def __init__(
        self,
        session: Session,
        table: Relation,
        changes: RelationChanges,
        since: int,
        truncates: Sequence[int],
        write: Write,
        *,
        routed: bool = False,
        keys: TableKeys | None = None,
        kept: KeptKeys | None = None,
    ) -> None:
        """Changes with sequence numbers below `since` do not concern the table. `write` takes what comes of them.
        `routed`: its rows belong into this partition. `keys` are given where the changes are a part of all; `kept` then
        takes what new rows have in other unique indexes."""
        self.relation = table
        self._session = session
        self._changes = changes
        self._since = since
        self._truncates = sorted(truncates)
        self._routed = routed
        self._keys, self._kept = keys, kept
        self.table: LakeTable = write.table
        self.write = write
        assert write.snapshot is not None, "rows are looked for before the write lock is held"
        self._snapshot: int = write.snapshot
        self._conversion = Conversion(session, table, changes.relation)
        self._folded: Folded | None = None
        self._others: Sequence[tuple[int, ...]] = ()  # keys of unique indexes that rows are not found by

    # --- deciding -----------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Fold the messages; NotClean with the sequence number of the first that cannot be carried out."""
        import numpy as np

        changes = self._changes
        chosen = changes.seq >= self._since
        inserts, updates, deletes = ((changes.op == each) & chosen for each in (INSERT, UPDATE, DELETE))
        self._check_rights(inserts.any(), updates.any(), deletes.any())
        keys = self._keys
        if keys is None:
            needed = bool(updates.any() or deletes.any())
            keys = table_keys(self._session, self.relation, self._conversion, changes.unchanged, needed=needed)
        attnums, self._others = keys.attnums, keys.others
        if not attnums:
            nothing = np.empty(0, np.int64)
            kept = np.flatnonzero(inserts & (self._rounds() == len(self._truncates)))
            rest = np.flatnonzero(inserts & (self._rounds() != len(self._truncates)))
            self._folded = Folded(kept, nothing, nothing, nothing, rest)
            self._places: Places | None = None
            return
        try:
            self._fold(attnums, inserts | updates, (updates | deletes) & changes.has_old, updates)
        except NotClean as found:
            raise NotClean(int(changes.seq[found.message])) from None

    def _rounds(self) -> Numbers:
        import numpy as np

        found: Numbers = np.searchsorted(np.array(self._truncates, np.int64), self._changes.seq)
        return found

    def _fold(self, attnums: Sequence[int], new: Numbers, old: Numbers, updates: Numbers) -> None:
        import numpy as np

        changes = self._changes
        at_new, at_old = np.flatnonzero(new), np.flatnonzero(old)
        sides = [self._keys_of(attnums, at, old=old) for at, old in ((at_new, False), (at_old, True))]
        columns = [list(parts) for parts in zip(*sides, strict=True)]
        if self._is_plain:
            changes.prepare(self._sent_places, MOST_BYTES)
        for parts, at in ((0, at_new), (1, at_old)):
            missing = [at[column[parts].is_null().to_numpy(zero_copy_only=False)] for column in columns
                       if column[parts].null_count]  # fmt: skip
            if missing:
                raise NotClean(int(min(each.min() for each in missing)))
        keys = Keys(self.table, attnums, columns)
        code_new, code_old = (np.empty(changes.count, np.int64) for _ in range(2))
        code_new[at_new], code_old[at_old] = keys.codes
        moves = updates & old
        moves &= code_new != code_old
        stays = (new & ~moves) | (old & ~new)
        step = np.full(changes.count, fold.UPDATE, np.int8)
        step[changes.op == INSERT], step[changes.op == DELETE] = fold.INSERT, fold.DELETE
        message, code = np.flatnonzero(stays), np.where(new, code_new, code_old)
        if len(message) != changes.count:
            step, code = step[message], code[message]
        if moves.any():
            moving = np.flatnonzero(moves)
            message = np.concatenate([message, moving, moving])
            order = np.argsort(message, kind="stable")
            ends = [np.full(len(moving), each, np.int8) for each in (fold.LEAVE, fold.ENTER)]
            step = np.concatenate([step, *ends])[order]
            code = np.concatenate([code, code_old[moving], code_new[moving]])[order]
            message = message[order]
        order, first = keys.in_order(code)
        places = self._places = keys.find(self._session, self._snapshot, again=self._keys is None)
        row = places.number
        if self._others:
            if self._truncates:
                raise Declined("several unique indexes of a table that is emptied")
            if moves.any():
                raise NotClean(int(np.flatnonzero(moves)[0]))
            number = np.empty(changes.count, np.int64)
            number[message[order]] = np.cumsum(first) - 1
            self._check_others(at_new, number[at_new])
        rounds = None
        if not self._truncates:
            self._folded = fold.fold_sorted(message, step, order, first, row)
        else:
            number = np.empty(len(order), np.int64)
            number[order] = np.cumsum(first) - 1
            rounds = self._rounds()[message]
            folded = fold.fold(message, number, step, places.exists, rounds, len(self._truncates) + 1)
            self._folded = fold.named_by(folded, row)
        if changes.unchanged:
            steps = steps_of(message, step, order, first, row, rounds)
            self._changes = with_kept(
                self._session, self.table, self._snapshot, changes, self._conversion, steps, places, self._folded
            )

    def _check_others(self, messages: Numbers, key: Numbers) -> None:
        import numpy as np

        assert self._places is not None
        row = self._places.number[key]
        row_id = np.full(len(row), NOT_THERE, np.int64)
        row_id[row != NOT_THERE] = self._places.row_id[row[row != NOT_THERE]]
        for attnums in self._others:
            columns = self._keys_of(attnums, messages, old=False)
            if self._kept is None:
                check_other_keys(self._session, self.table, self._snapshot, attnums, columns, messages, key, row_id)
            else:
                self._kept.keep(attnums, columns, self._changes.seq[messages], key, row_id)

    def _keys_of(self, attnums: Sequence[int], at: Numbers, *, old: bool) -> list[pa.Array]:
        return key_values(self._conversion, self._changes, attnums, at, old=old)

    def _check_rights(self, inserts: bool, updates: bool, deletes: bool) -> None:
        for privilege, wanted in (("INSERT", inserts), ("UPDATE", updates), ("DELETE", deletes)):
            if wanted:
                check_target_privilege(self._session, self.relation, privilege)
                if privilege != "INSERT":
                    check_target_privilege(self._session, self.relation, "SELECT")
                    check_replica_identity(self._session, self.relation, privilege)

    # --- carrying out -------------------------------------------------------------------------------------------------

    @property
    def folded(self) -> Folded:
        assert self._folded is not None
        return self._folded

    def leave(self) -> None:
        """Old rows go."""
        import numpy as np

        if self._truncates:
            self.write.truncate()
            return
        if self._places is None:
            return
        places = self._places
        gone = np.zeros(len(places.position), np.bool_)
        gone[self.folded.deleted] = True
        gone[self.folded.replaced] = True
        for file, start, end in places.files:
            here = gone[start:end]
            if file == NOT_THERE:
                self.write.delete_inlined(places.row_id[start:end][here].tolist())
            elif here.any():
                self.write.delete_positions(file, np.sort(places.position[start:end][here]))

    def columns(self) -> list[SentColumns] | None:
        """The same without Spark, if rows are kept as they were sent and no rule looks at them. None: they are not."""
        if not self._is_plain:
            return None
        changes, places, folded = self._changes, self._sent_places, self.folded
        if self._places is None:
            changes.prepare(places, MOST_BYTES)
        if not changes.fits(places, MOST_BYTES):
            return None
        needed = frozenset([a.num for a in table_rules(self._session, self.relation).not_null])
        if needed and len(folded.passing):
            check_needed(self.table, changes.pick(places, folded.passing), needed)
        found = [SentColumns(self.table, changes, places, needed, part, None) for part in parts_of(folded.inserted)]
        if len(folded.updated):
            assert self._places is not None
            row_ids = self._places.row_id[folded.replaced]
            for part, ids in zip(parts_of(folded.updated), parts_of(row_ids), strict=True):
                found.append(SentColumns(self.table, changes, places, needed, part, ids))
        return found

    @cached_property
    def _is_plain(self) -> bool:
        """Are rows kept as they were sent, and does no rule look at them?"""
        rules = table_rules(self._session, self.relation)
        bound = rules.bound and not self._routed
        plain = not (self._conversion.unsent or rules.checks or rules.generated or bound)
        return plain and all(self._conversion.same_type(a.num) for a in self.relation.columns)

    @property
    def _sent_places(self) -> list[int]:
        """In the order of the table's columns."""
        return [self._conversion.places[column.attnum - 1] for column in self.table.columns]

    def frames(self) -> list[tuple[DataFrame, str | None]]:
        """What is to be written: new rows, and new versions with their row ids."""
        import numpy as np

        folded = self.folded
        found: list[tuple[DataFrame, str | None]] = []
        if len(folded.inserted):
            found.append((self._checked(self._conversion.new_rows(self._rows(folded.inserted))), None))
        if len(folded.updated):
            assert self._places is not None
            ids = np.full(self._changes.count, NOT_THERE, np.int64)
            ids[folded.updated] = self._places.row_id[folded.replaced]
            rows = _with_numbers(self._rows(folded.updated), ids)
            if self._conversion.unsent:
                rows = self._with_kept(self._conversion.sent_rows(rows, [AT, ROW])).orderBy(AT)
            else:
                rows = self._conversion.sent_rows(rows, [ROW])
            found.append((self._checked(rows), ROW))
        return found

    def passing(self) -> DataFrame | None:
        """Rows of which nothing is left, if they could break a rule: they are computed and checked."""
        rules = table_rules(self._session, self.relation)
        known = {n for info in unique_indexes(self._session, self.relation) for n in info.columns}
        plain = (
            all(a.num in known for a in rules.not_null)
            and not rules.checks
            and not rules.generated
            and not rules.bound
            and all(self._conversion.same_type(n) for n, place in enumerate(self._conversion.places, 1) if place >= 0)
        )
        if plain or not len(self.folded.passing):
            return None
        if self._conversion.unsent and (rules.checks or rules.generated):
            raise Declined("rules over columns that are not sent")
        return self._checked(self._conversion.new_rows(self._rows(self.folded.passing, ordered=False)))

    def _rows(self, messages: Numbers, *, ordered: bool = True) -> DataFrame:
        import numpy as np

        chosen = np.zeros(self._changes.count, np.bool_)
        chosen[messages] = True
        return self._changes.rows(self._conversion.sent_places, chosen=chosen, ordered=ordered)

    def _checked(self, rows: DataFrame) -> DataFrame:
        checks = SparkChecks(self._session, self.relation, self.relation, frozenset())
        return checks.checked(checks.complete(rows), bound=self.relation.is_partition)

    def _with_kept(self, rows: DataFrame) -> DataFrame:
        """With the values of columns that are not sent, as they stand in the table."""
        from pyspark.sql import functions as F

        from pgrepl.lake import scan

        attnums = [a.num for a in self._conversion.unsent]
        old = scan.frame(self._session, self.table, attnums, self._snapshot, places=True)
        old = old.select(F.col("place.row").alias("__kept"), *[f"c{n}" for n in attnums])
        return rows.join(old, F.col(ROW) == F.col("__kept")).drop("__kept")


def _with_numbers(rows: DataFrame, numbers: Numbers) -> DataFrame:
    """Rows with a number each, by `at`: a list of numbers for each chunk of rows is sent to all."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    from pgrepl.lake.scan import arrow_frame

    size = 1 << _CHUNK
    padded = np.full(-(-len(numbers) // size) * size, NOT_THERE, np.int64)
    padded[: len(numbers)] = numbers
    chunks = len(padded) // size
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(padded) + 1, size), pa.int32()), pa.array(padded))
    known = arrow_frame(pa.table({"__chunk": pa.array(range(chunks), pa.int64()), "__numbers": lists}))
    joined = rows.join(F.broadcast(known), F.shiftright(F.col(AT), _CHUNK) == F.col("__chunk"))
    number = F.expr(f"__numbers[CAST({AT} & {size - 1} AS INT)]").alias(ROW)
    return joined.select(*[F.col(name) for name in rows.columns], number)
