"""Tracing with OpenTelemetry, for those who ask for it by its environment variables.

Nothing here imports OpenTelemetry before somebody does: it is 20 MB and a third of a second at the start of a process.
"""
