"""What PostgreSQL's documentation says of logical replication, with a lake as the publisher of PostgreSQL 16 and 18:
the tests of tests/postgres that compare two PostgreSQL databases with ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.both_replicas import Both
from tests.postgres.replicas import RealReplicas
from tests.postgres.test_replication_applying import *  # noqa: F403
from tests.postgres.test_replication_copying import *  # noqa: F403
from tests.postgres.test_replication_sending import *  # noqa: F403
from tests.server.lake_publishes import lake_publishes

# not compared yet: what follows several errors at once, and what is published on from the subscriber
OTHERS = (
    "test_other_tables_go_on_while_one_cannot_be_copied",
    "test_with_origin_none_nothing_comes_that_came_from_elsewhere",
    "test_what_is_published_on_hears_of_each_change",
    "test_what_is_published_on_whole_arrives_whole",
    "test_two_databases_that_subscribe_to_each_other_come_to_rest",
)
for name in OTHERS:
    globals().pop(name)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[16, 18])
def lake(request: pytest.FixtureRequest) -> Iterator[RealReplicas]:
    with lake_publishes(request.param) as found:
        yield found


@pytest.fixture
def both(real: RealReplicas, lake: RealReplicas) -> Both:
    real.renew()
    lake.renew()
    return Both(real, lake)
