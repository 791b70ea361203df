# ruff: noqa: INP001 - hatchling loads it by its path
"""Generates the gRPC code before hatchling builds: a wheel of a fresh clone holds it, and needs no make."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateProtos(BuildHookInterface[Any]):
    """Runs ``scripts/generate_protos.py``, which does nothing where the code is current."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Generate the code.

        Raises:
            SystemExit: protoc refused the contracts; it has said why on standard error.
        """
        runpy.run_path(str(Path(self.root) / "scripts" / "generate_protos.py"))["main"]()
