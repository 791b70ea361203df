"""Chains of Python policies, and of what ``pratique export`` makes of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from pratique import Controller
from pratique.testing import PolicyChain
from pratique_cli.encoding import dump_yaml
from pratique_cli.policy_exports import PolicyExport, export_source

ExportedChains: TypeAlias = "dict[str, tuple[PolicyChain, PolicyChain]]"
"""By the name of the policy: the chain of the Python policy, and that of its export."""


def exported_chains(file: Path, names: Iterable[str], controller: str) -> ExportedChains:
    """Export a file whose policies have functions ``f_NAME``; ``controller`` runs the policies that come out."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    chains: ExportedChains = {}
    for name, export in zip(names, export_source(file), strict=True):
        assert isinstance(export, PolicyExport), export
        native = file.with_name(f"{name}.yaml")
        native.write_text("---\n".join(map(dump_yaml, export.documents)))
        policy = getattr(module, f"f_{name}")
        assert isinstance(policy, Controller)
        chains[name] = (
            PolicyChain(policy, admission_control=[name]),
            PolicyChain(config=[native], admission_control=[controller]),
        )
    return chains
