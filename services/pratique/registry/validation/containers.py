"""Containers, their probes, ports, environments and mounts."""
