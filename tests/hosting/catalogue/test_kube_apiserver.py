"""The catalogue has the names, the order and the defaults that kube-apiserver 1.37 prints in its help.

The program is the one in ``KUBEBUILDER_ASSETS``, else the one in the cache of programs built for these tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pratique.hosting.catalogue import CHAIN_ORDER, load_catalogue

RELEASE = "1.37."
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pratique" / "kube-apiserver"


def printed(program: str, flag: str) -> str:
    run = subprocess.run([program, flag], capture_output=True, text=True, check=True, timeout=120)
    return " ".join(run.stdout.split())


@pytest.fixture(name="help_text", scope="module")
def _help_text() -> str:
    folders = [os.environ.get("KUBEBUILDER_ASSETS", ""), *map(str, sorted(CACHES.glob(f"{RELEASE}*")))]
    program = shutil.which("kube-apiserver", path=os.pathsep.join(filter(None, folders)) or os.devnull)
    if program is None:
        pytest.skip("there is no kube-apiserver in KUBEBUILDER_ASSETS, nor in the cache of built programs")
    version = printed(program, "--version")
    if not version.startswith(f"Kubernetes v{RELEASE}"):
        pytest.skip(f"{version} is not of the release whose chain the catalogue has: {RELEASE}x")
    return printed(program, "--help")


def listed(pattern: str, text: str) -> list[str]:
    found = re.search(pattern, text)
    assert found is not None
    return found[1].split(", ")


def registered(help_text: str) -> set[str]:
    return set(listed(r"--admission-control strings .*?Comma-delimited list of: (.*?)\. ", help_text))


def defaults(help_text: str) -> list[str]:
    """The default controllers, which kube-apiserver prints in chain order."""
    return listed(r"--enable-admission-plugins strings .*?default enabled ones \((.*?)\)", help_text)


def test_the_chain_order_has_every_name(help_text: str) -> None:
    assert registered(help_text) <= set(CHAIN_ORDER)
    assert registered(help_text) <= {controller.name for controller in load_catalogue()}


def test_what_kube_apiserver_does_not_have_was_removed_from_kubernetes(help_text: str) -> None:
    others = {
        controller.name for controller in load_catalogue() if controller.name not in registered(help_text)
    }
    assert (
        others
        == {controller.name for controller in load_catalogue() if controller.removed_in}
        == set(CHAIN_ORDER) - registered(help_text)
    )


def test_the_defaults_are_the_same_and_in_the_same_order(help_text: str) -> None:
    names = [controller.name for controller in load_catalogue() if controller.default]
    assert names == defaults(help_text)
