"""`python -m pgrepl` is `pgrepl`."""

from pgrepl.cli import main

main()
