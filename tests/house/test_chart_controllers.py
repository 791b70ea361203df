"""The Helm chart knows the controllers as the catalogue does."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_charts_file_of_controllers_is_generated_from_the_catalogue(root: Path) -> None:
    script = runpy.run_path(str(root / "scripts" / "write_chart_controllers.py"))
    written = (root / "deploy" / "helm" / "pratique" / "files" / "controllers.yaml").read_text()
    assert written == script["text"](), "run scripts/write_chart_controllers.py"
