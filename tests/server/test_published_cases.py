"""What PostgreSQL's documentation says of logical replication, with a lake as the publisher of PostgreSQL 16 and 18:
the tests of tests/postgres that compare two PostgreSQL databases with ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.both_replicas import Both
from tests.postgres.replicas import RealReplicas
from tests.postgres.test_replication_applying import *  # noqa: F403
from tests.postgres.test_replication_copying import *  # noqa: F403
from tests.postgres.test_replication_roles import *  # noqa: F403
from tests.postgres.test_replication_sending import *  # noqa: F403
from tests.server.lake_publishes import lake_publishes

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
