"""Go programs that tests run, as ``scripts/build_for_tests.sh`` built them: once for each release."""

from __future__ import annotations

import os
import re
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pratique"
"""What tests need and is made once."""
_TESTS = Path(__file__).parents[1]
_MODULES = {
    "kube-apiserver": ("apiserver", "k8s.io/kubernetes"),
    "docker-compose": ("containers/compose", "github.com/docker/compose/v2"),
    "helm": ("helm", "helm.sh/helm/v3"),
    "cosign": ("images/cosign", "github.com/sigstore/cosign/v3"),
    "registry": ("images/distribution", "github.com/distribution/distribution/v3"),
}


def version(name: str) -> str:
    """The release of a program, such as ``1.37.2``; its ``go.mod`` is the only place that names it."""
    folder, module = _MODULES[name]
    text = (_TESTS / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found is not None, name
    return found[1]


def folder(name: str) -> Path:
    """Where a program is once it is built."""
    return CACHE / name / version(name)
