from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace

import pytest

from pgrepl.ground.frozen import frozen
from pgrepl.ground.frozen import replace as replaced


@frozen
class Point:
    """A place."""

    x: int
    y: int = 0
    name: str = field(default="", kw_only=True, compare=False)


@frozen
class Point3(Point):
    z: int = 5


@frozen
class Checked:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("negative")


def test_it_is_a_dataclass() -> None:
    point = Point3(1, 2, 3, name="a")
    assert is_dataclass(point) and [each.name for each in fields(point)] == ["x", "y", "name", "z"]
    assert replace(point, y=7) == Point3(1, 7, 3, name="a")
    assert repr(point) == "Point3(x=1, y=2, name='a', z=3)"
    assert (Point3(1).y, Point3(1).z, Point3(1).name) == (0, 5, "")


def test_instances_are_equal_when_class_and_compared_fields_are() -> None:
    assert Point(1, name="a") == Point(1, name="b") and hash(Point(1, name="a")) == hash(Point(1, name="b"))
    assert Point(1) != Point(2) and Point(1) != Point3(1) and Point(1) != (1, 0)


def test_nothing_can_be_changed_or_added() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "new", 2), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError, match="cannot change field"):
            change()
    assert point == Point(1) and not hasattr(point, "__dict__")


def test_wrong_arguments_are_refused_the_first_time_and_later() -> None:
    @frozen
    class Fresh:
        a: int

    for _ in range(2):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            Fresh()  # type: ignore[call-arg]
    assert Fresh(1) == Fresh(a=1)


def test_post_init_runs() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            Checked(-1)
    assert Checked(1).value == 1


def test_instances_can_be_copied_and_pickled() -> None:
    point = Point3(1, 2, 3, name="a")
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point and other.name == "a"


@frozen
class Named:
    oid: int
    name: str

    def __hash__(self) -> int:
        return self.oid


def test_a_class_may_have_a_hash_of_its_own() -> None:
    assert hash(Named(7, "a")) == 7
    assert {Named(7, "a"): 1}[Named(7, "a")] == 1
    assert Named(7, "b") not in {Named(7, "a")}


def test_copies_are_those_of_dataclasses() -> None:
    point = Point3(1, 2, 3, name="a")
    for changes in ({}, {"y": 7}, {"x": None, "z": 0, "name": "b"}):
        assert replaced(point, **changes) == replace(point, **changes)
        assert replaced(point, **changes).name == replace(point, **changes).name
    with pytest.raises(TypeError):
        replaced(point, w=1)
    with pytest.raises(ValueError, match="negative"):
        replaced(Checked(1), value=-1)
