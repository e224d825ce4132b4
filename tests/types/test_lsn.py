"""LSNs."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.types.plain import lsn_text, parse_lsn
from tests.harness.dose import dose


@pytest.mark.parametrize(
    ("lsn", "text"), [(0, "0/0"), (26, "0/1A"), (0x16B374D848, "16/B374D848"), (2**64 - 1, "FFFFFFFF/FFFFFFFF")]
)
def test_an_lsn_is_written_in_two_halves(lsn: int, text: str) -> None:
    assert (lsn_text(lsn), parse_lsn(text)) == (text, lsn)


@pytest.mark.parametrize("text", dose(["", "0", "/", "0/", "/0", "0/123456789", "x/0", " 0/0"], 4))
def test_not_an_lsn(text: str) -> None:
    with pytest.raises(PgError, match=f'invalid input syntax for type pg_lsn: "{text}"'):
        parse_lsn(text)
