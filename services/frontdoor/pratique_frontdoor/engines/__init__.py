"""Engines: one chain that decides reviews, with its controllers in this process or in the services."""
