"""The command line: it starts services and calls the engine, and holds no admission logic."""
