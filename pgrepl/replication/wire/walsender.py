"""The messages of both-ways COPY between a walsender and its receiver: data and keepalives, and the receiver's status.

Each begins with its letter: XLogData `w`, keepalive `k`, standby status update `r` (protocol-replication).
"""

from __future__ import annotations

from datetime import datetime, timezone
from struct import Struct

DATA_TYPE, KEEPALIVE_TYPE = b"wk"
DATA = Struct("!cQQq")  # start of WAL, end of WAL, time; then the data
KEEPALIVE = Struct("!cQqb")  # end of WAL, time, whether the receiver shall answer
STATUS = Struct("!cQQQqb")  # written, flushed, applied, time, whether the sender shall answer
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def now() -> int:
    """The present time in microseconds since 2000-01-01 UTC."""
    return int((datetime.now(timezone.utc) - _EPOCH).total_seconds() * 1_000_000)
