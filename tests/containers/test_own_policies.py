"""Images with one's own policies in Python, and a mounted folder of them: as docs/containers.md shows.

Skipped, and said so, where no Docker engine runs or the image is not built: ``make image``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_engine import IMAGE, why_not

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "01-first-policy"
SECTION = (
    (ROOT / "docs" / "containers.md").read_text().partition("## Your own policies")[2].partition("\n## ")[0]
)
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"^```console\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
BUILT = "registry.example/pratique-policies"
WHY_NOT = why_not(IMAGE)
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs")


def run(command: str, folder: Path) -> str:
    kept = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    # packages are built with what is installed here, because a test asks no index
    pip = kept | {"PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "DOCKER_BUILDKIT": "0"}
    words = re.sub("IMAGE=pratique ", f"IMAGE={IMAGE} ", command)
    ran = subprocess.run(
        ["sh", "-euc", words], cwd=folder, env=pip, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, (command, ran.stderr)
    return ran.stdout


@pytest.fixture(name="image", scope="module")
def _image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("built") / "01-first-policy"
    shutil.copytree(EXAMPLE, folder)
    wheel, build = (command for command in COMMANDS if command.startswith(("pip wheel", "docker build")))
    run(wheel, folder)
    run(build, folder)
    yield BUILT
    with contextlib.suppress(OSError):
        subprocess.run(["docker", "image", "rm", "--force", BUILT], capture_output=True, check=False)


def listed(*flags: str, image: str) -> set[str]:
    command = [
        "docker",
        "run",
        "--rm",
        "--read-only",
        "--network",
        "none",
        *flags,
        image,
        "plugins",
        "-o",
        "json",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return {item["name"] for item in json.loads(ran.stdout)}


def test_the_image_of_the_page_has_the_policies(image: str) -> None:
    assert {"RequireTeam", "CostCentre"} <= listed(image=image)


def test_the_image_runs_as_the_same_user_and_holds_no_further_files(image: str) -> None:
    shown = subprocess.run(
        ["docker", "image", "inspect", image], capture_output=True, text=True, check=True
    ).stdout
    [described] = json.loads(shown)
    assert described["Config"]["User"] == "65532:65532"
    assert described["Config"]["Entrypoint"] == ["pratique"]


def test_a_mounted_folder_has_the_policies(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "01-first-policy")
    [install] = [command for command in COMMANDS if command.startswith("pip install")]
    run(install, tmp_path)
    mounted = f"--volume={tmp_path / 'my-policies'}:/etc/pratique/policies:ro"
    variable = "--env=PYTHONPATH=/etc/pratique/policies"
    assert {"RequireTeam", "CostCentre"} <= listed(mounted, variable, image=IMAGE)
    assert "RequireTeam" not in listed(image=IMAGE)
