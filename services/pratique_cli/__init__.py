"""The command line: starts the services and asks the engine; owns no admission logic."""
