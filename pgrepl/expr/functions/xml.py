"""XML: which texts are documents."""

from __future__ import annotations

from pgrepl.expr.functions.registry import Family
from pgrepl.types.xml_text import is_document

implements = Family()


implements("xml_is_well_formed_document")(is_document)
