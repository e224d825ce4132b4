"""The two errors that nearly every input function raises."""

from __future__ import annotations

from pgrepl.errors import PgError


def invalid_text(typename: str, text: str) -> PgError:
    return PgError("22P02", f'invalid input syntax for type {typename}: "{text}"')


def out_of_range(typename: str, text: str) -> PgError:
    return PgError("22003", f'value "{text}" is out of range for type {typename}')
