"""Engines: one chain, asked for decisions, with its controllers in this process or in the services."""
