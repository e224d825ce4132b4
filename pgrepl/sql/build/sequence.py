"""CREATE SEQUENCE, and the options of sequences and identity columns."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names
from pgrepl.sql.build.table import NewRelation
from pgrepl.sql.nodes import CreateSeqStmt, DefElem, FloatText, TypeName

Number = int | FloatText


@build
def create_sequence(location: int, persistence: str, new: NewRelation, options: list[DefElem]) -> CreateSeqStmt:
    relation, if_not_exists = new
    return CreateSeqStmt(replace(relation, persistence=persistence), tuple(options), if_not_exists)


@build
def sequence_as(location: int, type_name: TypeName) -> DefElem:
    return DefElem("as", type_name, location)


@build
def sequence_cache(location: int, number: Number) -> DefElem:
    return DefElem("cache", number, location)


@build
def sequence_cycle(location: int) -> DefElem:
    return DefElem("cycle", True, location)


@build
def sequence_no_cycle(location: int) -> DefElem:
    return DefElem("cycle", False, location)


@build
def sequence_increment(location: int, _: None, number: Number) -> DefElem:
    return DefElem("increment", number, location)


@build
def sequence_logged(location: int) -> DefElem:
    return DefElem("logged", None, location)


@build
def sequence_unlogged(location: int) -> DefElem:
    return DefElem("unlogged", None, location)


@build
def sequence_maxvalue(location: int, number: Number) -> DefElem:
    return DefElem("maxvalue", number, location)


@build
def sequence_minvalue(location: int, number: Number) -> DefElem:
    return DefElem("minvalue", number, location)


@build
def sequence_no_maxvalue(location: int) -> DefElem:
    return DefElem("maxvalue", None, location)


@build
def sequence_no_minvalue(location: int) -> DefElem:
    return DefElem("minvalue", None, location)


@build
def sequence_owned_by(location: int, names: Names) -> DefElem:
    return DefElem("owned_by", names, location)


@build
def sequence_sequence_name(location: int, names: Names) -> DefElem:
    return DefElem("sequence_name", names, location)


@build
def sequence_start(location: int, _: None, number: Number) -> DefElem:
    return DefElem("start", number, location)


@build
def sequence_restart(location: int) -> DefElem:
    return DefElem("restart", None, location)


@build
def sequence_restart_with(location: int, _: None, number: Number) -> DefElem:
    return DefElem("restart", number, location)
