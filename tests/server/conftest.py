"""A real server as the publisher beside the lake."""

from tests.postgres.conftest import real as real
