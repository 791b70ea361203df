"""Run the command line as ``python -m pratique_cli``; ``pratique up`` starts its services this way."""

from pratique_cli.main import main

main()
