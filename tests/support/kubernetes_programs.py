"""The programs of Kubernetes that tests run: kube-apiserver, etcd and kubectl, and why there may be none.

``KUBEBUILDER_ASSETS`` names a folder that has all three, as it does for those who test with envtest. Otherwise
kube-apiserver is the one that ``make apiserver`` built, and the others are in the PATH, as Debian's packages have them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support import go_programs

_REMEDIES = {
    "kube-apiserver": "make apiserver builds it",
    "etcd": "on Debian: apt-get install etcd-server",
    "kubectl": "on Debian: apt-get install kubernetes-client",
}


def version() -> str:
    """The release of Kubernetes that decides, such as ``1.37.2``."""
    return go_programs.version("kube-apiserver")


def program(name: str) -> Path | None:
    """Find a program; none if it is not installed."""
    # a kube-apiserver of the PATH could be of any release, and would be the wrong judge
    path = str(go_programs.folder(name)) if name == "kube-apiserver" else os.environ.get("PATH", os.defpath)
    folders = [os.environ.get("KUBEBUILDER_ASSETS", ""), path]
    found = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    return Path(found) if found else None


def why_not(*names: str) -> str:
    """Return which of the programs are missing, and what brings them; empty if none is."""
    missing = [name for name in names or _REMEDIES if program(name) is None]
    return "; ".join(f"there is no {name} ({_REMEDIES[name]})" for name in missing)
