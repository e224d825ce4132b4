"""The functions that decide, the tests of the usual run that have to notice each mutant of them, and the mutants that
nobody can tell from what was written, each with the reason."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    module: str
    functions: tuple[str, ...]  # none: all of the module
    tests: tuple[str, ...]


_R = "tests/replication/"
TARGETS = [
    Target(
        "pgrepl.replication.publisher.row_filter",
        ("any_true", "sent_of", "passing", "TableMessages.message", "TableMessages._passes", "TableMessages._sent"),
        (_R + "test_row_filter_sent.py",),
    ),
    Target(
        "pgrepl.replication.subscriber.state",
        ("states_for", "table_state", "applies_from", "unsettled", "settle_tables", "two_phase_can_begin"),
        (_R + "test_state.py",),
    ),
    Target(
        "pgrepl.server.hba",
        ("matching", "_fits", "_fits_address", "_fits_database", "_fits_user", "_matches", "maps_to", "_maps"),
        ("tests/server/test_hba.py",),
    ),
]

_F, _H = "pgrepl.replication.publisher.row_filter:", "pgrepl.server.hba:"
_S = "pgrepl.replication.subscriber.state:"
EQUIVALENT: dict[str, str] = {
    _F + "sent_of: 256 -> 257": "a code is a byte",
    _F + "sent_of: 1 -> 2 (2)": "numpy takes any negative number for the one that it finds itself",
    _F + "passing: test is None or not len(at) -> test is None": "of no rows none are tested",
    _F + "TableMessages.message: new is None or sent == DELETE -> sent == DELETE": "without a new row it is a DELETE",
    _F + "TableMessages._sent: row[number - 1] if number else None -> row[number - 1]": (
        "a partition has all columns of its ancestors that are sent"
    ),
    _H + "_fits_address: any((address.version == network.version and address in network for network in rule.networks))"
    " -> all((address.version == network.version and address in network for network in rule.networks))": (
        "a rule has one network at most, and without one it has a keyword or a name"
    ),
    _H + "_fits_address: address.version == network.version and address in network -> address in network": (
        "`in` compares the versions itself"
    ),
    _S + "applies_from: 0 -> 1": "a table without a state has no LSN that is looked at",
    _H + "_maps: False -> True": "an expression that cannot be read has made its line a BadLine",
}
