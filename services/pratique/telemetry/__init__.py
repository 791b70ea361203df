"""Logs, metrics and traces of the services, and the files that they reload."""
