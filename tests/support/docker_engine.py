"""The Docker engine that tests of images run on, and why there may be none."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import subprocess

import pytest

from support import go_programs

IMAGE = os.environ.get("IMAGE", "pratique")
LEDGER_IMAGE = os.environ.get("LEDGER_IMAGE", "postgres:17-alpine")
_OLDEST_COMPOSE = (2, 20)
"""The first release that reads all of compose.yaml."""


def why_not(*images: str) -> str:
    """Return what is missing to run containers of the images; empty if nothing is."""
    if not _engine_listens():
        return "no Docker engine runs"
    docker = pytest.importorskip("docker")
    try:
        with contextlib.closing(docker.from_env()) as client:
            for image in images:
                client.images.get(image)
    except docker.errors.ImageNotFound as error:
        return f"{error.explanation}; ours is made by make image"
    except docker.errors.DockerException:
        return "no Docker engine runs"
    return ""


@functools.cache
def compose() -> list[str]:
    """Return the command of Compose 2: the one of the module, or the client's own; empty if there is none."""
    commands = [[str(go_programs.folder("docker-compose") / "docker-compose")], ["docker", "compose"]]
    return next((command for command in commands if _reads_our_file(command)), [])


def _reads_our_file(command: list[str]) -> bool:
    try:
        said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    release = re.match(r"v?(\d+)\.(\d+)\.", said.stdout)
    return release is not None and (int(release[1]), int(release[2])) >= _OLDEST_COMPOSE


def _engine_listens() -> bool:
    """Where nothing does, Docker's client would leave an open socket behind, and another test would be blamed."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) == 0
