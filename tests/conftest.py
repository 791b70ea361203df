"""What all tests have alike."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes on a machine that is busy with other things says nothing about the code. hypothesis sees
# that by itself where CI runs; the rest of its profile for CI (no chance, no memory) is for CI alone.
settings.register_profile(
    "unhurried", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# What `make test-long` runs the properties with that everything stands on: many examples, the same ones every time.
settings.register_profile(
    "thorough", parent=settings.get_profile("unhurried"), max_examples=2_000, derandomize=True, database=None
)
