"""What was read last stays; what was not asked for the longest goes."""

from __future__ import annotations

from pgrepl.lake.read.footers import Recent, forget_all


def test_the_one_not_asked_for_goes() -> None:
    known: Recent[str, int] = Recent(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert [known.get(key) for key in "abc"] == [1, None, 3]


def test_sizes_are_counted_together() -> None:
    known: Recent[str, bytes] = Recent(10, len)
    known.put("a", b"1234")
    known.put("a", b"12")  # takes the other's place
    known.put("b", b"12345678")
    assert (known.get("a"), known.get("b")) == (b"12", b"12345678")
    known.put("c", b"x" * 100)  # more than all may have: it stays alone
    assert [known.get(key) for key in "abc"] == [None, None, b"x" * 100]


def test_all_is_forgotten() -> None:
    known: Recent[str, int] = Recent(2)
    known.put("a", 1)
    forget_all()
    assert known.get("a") is None


def test_a_lower_limit_drops_the_oldest_at_once_and_a_higher_one_changes_nothing() -> None:
    known: Recent[str, bytes] = Recent(10, len)
    for key in "abc":
        known.put(key, b"xxx")
    known.limit(7)
    assert [known.get(key) is not None for key in "abc"] == [False, True, True]
    known.limit(100)
    known.put("d", b"xx")
    assert [known.get(key) is not None for key in "bcd"] == [False, True, True]
