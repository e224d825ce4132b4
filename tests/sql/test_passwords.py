"""Whether a statement may hold a password is found in a time that is proportional to its length (what statements those
are: tests/shell/test_history.py)."""

from __future__ import annotations

import pytest

from pgrepl.sql.passwords import holds_password

_LENGTH = 1_000_000


@pytest.mark.parametrize("word", ["connection ", "://:", "://", "/*", "--", "$", "%25", "*/ /*", "pass"])
def test_long_texts(word: str) -> None:
    text = word * (_LENGTH // len(word))
    assert not holds_password(text)
    assert holds_password(f"{text}\n*/ PASSWORD 'x'")
