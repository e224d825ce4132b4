"""What PostgreSQL's documentation and its tests say of logical replication, as 18 does it: the tests that compare with
16, again beside a real 18, between lakes that speak 18 and from the server to a lake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.both_replicas import Both
from tests.postgres.replicas import RealReplicas
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.test_replication_applying import *  # noqa: F403
from tests.postgres.test_replication_copying import *  # noqa: F403
from tests.postgres.test_replication_roles import *  # noqa: F403
from tests.postgres.test_replication_sending import *  # noqa: F403
from tests.postgres.test_server_workloads import PlayServed, ServedReplicas

OF_17 = (
    "test_a_key_that_is_checked_later_finds_no_row",  # 18 passes such changes over (docs/differences.md)
    "test_changes_from_before_a_publication_stop_its_subscription",  # 18 passes over a publication that is missing
)
# between a server and a lake: what docs/differences.md says of copies, and what needs two publishers
OF_ONE_KIND = (
    "test_a_copy_that_failed_heals_when_the_publisher_removes_the_row",
    "test_column_lists_differ_when_a_table_is_copied",
    "test_row_security_of_the_publisher_counts_for_a_copy",
    "test_two_databases_that_subscribe_to_each_other_come_to_rest",
)
for name in OF_17:
    globals().pop(name)

pytestmark = pytest.mark.slow


@pytest.fixture(params=["lake", "from the server"])
def both(real18: RealReplicas, request: pytest.FixtureRequest) -> Iterator[Both]:
    if request.param != "lake" and request.node.name.startswith(OF_ONE_KIND):
        pytest.skip("not the same between a server and a lake")
    real18.renew()
    if request.param == "lake":
        ours = OurReplicas(release=18)
        yield Both(real18, ours)
    else:
        ours = ServedReplicas(real18, release=18)
        yield PlayServed(real18, ours)
    ours.close()
