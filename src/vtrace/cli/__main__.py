"""`python -m vtrace.cli`."""

from . import main

main()
