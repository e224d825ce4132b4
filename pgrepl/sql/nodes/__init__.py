"""The nodes a statement is made of: PostgreSQL's raw parse tree as frozen dataclasses.

Names follow PostgreSQL's parsenodes.h where it has one, so that a rule found there can be found here. `location` is the
0-based character offset in the statement's text (-1: nowhere). Sequences are tuples, optional parts are None.
"""

from pgrepl.sql.nodes.dml import *  # noqa: F403
from pgrepl.sql.nodes.expr import *  # noqa: F403
from pgrepl.sql.nodes.publication import *  # noqa: F403
from pgrepl.sql.nodes.role import *  # noqa: F403
from pgrepl.sql.nodes.select import *  # noqa: F403
from pgrepl.sql.nodes.subscription import *  # noqa: F403
from pgrepl.sql.nodes.table import *  # noqa: F403
from pgrepl.sql.nodes.utility import *  # noqa: F403
