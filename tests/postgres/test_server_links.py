"""One connection to a server: what was asked for and not wanted to its end, and a server that goes away meanwhile."""

from __future__ import annotations

import pytest

from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.postgres.connecting import link_to
from pgrepl.replication.postgres.link import Link
from pgrepl.replication.publisher import PublisherError
from tests.postgres.served import Served

ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)
ENDLESS = "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 1000000)) TO STDOUT"


def abandoned(served: Served) -> Link:
    link = link_to(parse_conninfo(served.conninfo))
    next(link.copy_out(ENDLESS))
    return link


@ON_ONE
def test_what_nobody_wants_to_its_end_is_out_of_the_way_of_the_next_command(served: Served) -> None:
    link = abandoned(served)
    assert link.value("SELECT 'next'") == "next"
    link.close()


@ON_ONE
def test_a_link_that_is_lost_says_so_whenever_it_is_asked(served: Served) -> None:
    link = abandoned(served)
    served.pub(f"SELECT pg_terminate_backend({link.backend}, 10000)")
    for _ in range(3):
        with pytest.raises(PublisherError) as caught:
            link.rows("SELECT 1")
        assert caught.value.sqlstate in ("08006", "57P01")
    assert not link.alive
    link.close()
