"""The Docker engine that tests of images run on, and why there may be none."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess

import pytest

IMAGE = os.environ.get("IMAGE", "pratique")
LEDGER_IMAGE = os.environ.get("LEDGER_IMAGE", "postgres:17-alpine")


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


def compose_is_there() -> bool:
    """Ask the client for its plugin."""
    command = ["docker", "compose", "version"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _engine_listens() -> bool:
    """Where nothing does, Docker's client would leave an open socket behind, and another test would be blamed."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) == 0
