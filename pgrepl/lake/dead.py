"""Which rows of a data file are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.files import DataFile
    from pgrepl.lake.table import LakeTable


def dead(session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None) -> npt.NDArray[np.int64]:
    """The positions of the file that are deleted at the snapshot, ascending, none twice."""
    raise NotImplementedError


def deaths(
    session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same with the snapshot at which each was deleted."""
    raise NotImplementedError
