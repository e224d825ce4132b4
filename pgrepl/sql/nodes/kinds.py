"""Enumerations shared by the raw parse tree and the typed tree."""

from __future__ import annotations

from enum import Enum


class BoolOp(Enum):
    AND = "and"
    OR = "or"
    NOT = "not"


class BoolTestType(Enum):
    IS_TRUE = "IS TRUE"
    IS_NOT_TRUE = "IS NOT TRUE"
    IS_FALSE = "IS FALSE"
    IS_NOT_FALSE = "IS NOT FALSE"
    IS_UNKNOWN = "IS UNKNOWN"
    IS_NOT_UNKNOWN = "IS NOT UNKNOWN"


class CoercionForm(Enum):
    EXPLICIT_CALL = "call"
    EXPLICIT_CAST = "explicit"
    IMPLICIT_CAST = "implicit"
    SQL_SYNTAX = "sql"  # EXTRACT(… FROM …), OVERLAY, TRIM …: print as it was written


class NullTestType(Enum):
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


class SubLinkType(Enum):
    EXISTS = "exists"
    ALL = "all"
    ANY = "any"
    EXPR = "expr"
    ARRAY = "array"
    ROWCOMPARE = "rowcompare"  # (a, b) < (SELECT …); never in the text, analysis finds it


class GroupingKind(Enum):
    EMPTY = "empty"
    ROLLUP = "rollup"
    CUBE = "cube"
    SETS = "sets"


class JoinType(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    RIGHT = "right"
    CROSS = "cross"


class SetOp(Enum):
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"
