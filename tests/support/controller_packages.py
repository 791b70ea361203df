"""Packages of other people's controllers, laid out as pip does, for tests of who runs them."""

from __future__ import annotations

from pathlib import Path


def lay_out(folder: Path, module: str, code: str, **entry_points: str) -> Path:
    """Write a package of one module, with entry points to names in it; gives the folder to look for it in."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code, "utf-8")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    lines = [f"{name} = {module}:{target}" for name, target in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[pratique.controllers]", *lines]), "utf-8")
    return folder
