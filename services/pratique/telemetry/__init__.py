"""Logs, metrics and traces of the services, and watching the files that they read."""
