"""`python -m vtrace.cli`."""

from .main import main

main()
