"""The OIDs of the system tables, as pg_depend and pg_description refer to them, and other fixed OIDs."""

from __future__ import annotations

from typing import NamedTuple

PG_TYPE = 1247
PG_CLASS = 1259
PG_AUTHID = 1260
PG_AUTH_MEMBERS = 1261
PG_DATABASE = 1262
PG_PROC = 1255
PG_ATTRDEF = 2604
PG_CONSTRAINT = 2606
PG_NAMESPACE = 2615
PG_REWRITE = 2618
PG_TRIGGER = 2620
PG_SUBSCRIPTION = 6100
PG_PUBLICATION = 6104
PG_PUBLICATION_REL = 6106
PG_PUBLICATION_NAMESPACE = 6237

CATALOG_NAMESPACE = 11
TOAST_NAMESPACE = 99
PUBLIC_NAMESPACE = 2200
INFORMATION_SCHEMA = 13134

BOOTSTRAP_SUPERUSER = 10
ROLE_DATABASE_OWNER = 6171
ROLE_READ_ALL_DATA = 6181
ROLE_WRITE_ALL_DATA = 6182
ROLE_READ_ALL_SETTINGS = 3374
ROLE_MAINTAIN = 6337
ROLE_CREATE_SUBSCRIPTION = 6304

FIRST_NORMAL_OID = 16384


class ObjectAddress(NamedTuple):
    """An object of any kind: the system table it stands in, its OID, and a column's number or 0."""

    classid: int
    objid: int
    subid: int = 0
