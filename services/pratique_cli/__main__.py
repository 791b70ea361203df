"""Run the command line as ``python -m pratique_cli``, as ``pratique up`` starts its services."""

from pratique_cli.main import main

main()
