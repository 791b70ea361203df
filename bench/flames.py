"""Where the time of a review goes: a flame graph of each service under load, into ``bench/results``.

Run as ``make flame``. The work is that of the comparison with peers: the restricted level, a label and a sidecar.
py-spy looks at each process from outside, a hundred times a second; what it costs them stands in no figure, because no
time is taken here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from contests import reviews
from deployments import Deployment, configured, deployed
from measures import Shape, load
from results import FOLDER
from sidecars import sidecar_policies

_SPY = Path(sys.executable).with_name("py-spy")
_SAMPLES_A_SECOND = 100
_TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*')
_CONNECTIONS = 16
_WARM_UP_SECONDS = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the graphs; gives the exit code, 1 where there is no py-spy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long each path is watched (default 20)"
    )
    seconds = parser.parse_args(arguments).seconds
    if not _SPY.exists():
        print("py-spy is not installed: run `make flame`, which installs it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = folder / "review.json"
        body.write_text(json.dumps(reviews()["restricted/pass/base_linux"][1]))
        flags = configured(folder, "policies", sidecar_policies(), "PodSecurity,MutatingAdmissionPolicy")
        with deployed((*flags, "--pod-security", "restricted")) as deployment:
            for path, service in (("/validate", "validator 1"), ("/mutate", "mutator")):
                _watch(deployment, path, Shape(_CONNECTIONS, body), ("frontdoor", service), seconds)
    return 0


def _watch(deployment: Deployment, path: str, shape: Shape, services: Sequence[str], seconds: float) -> None:
    """Keep a path busy, and watch who has to do with it."""
    target = deployment.target(path)
    load(target, shape, seconds=_WARM_UP_SECONDS)
    with contextlib.ExitStack() as watching:
        for service in services:
            file = FOLDER / f"flame{path.replace('/', '-')}-{service.split()[0]}.svg"
            watching.enter_context(_spy(deployment.pids[service], file, f"{service}, {path}", seconds))
        load(target, shape, seconds=seconds + _WARM_UP_SECONDS)


@contextlib.contextmanager
def _spy(pid: int, file: Path, title: str, seconds: float) -> Iterator[None]:
    """Watch a process while the block runs, and draw what was seen.

    Raises:
        CalledProcessError: py-spy may not look at it; where only root may, it has to be run by root.
    """
    # Without stopping the process at each look, which would change what is looked at.
    how = ("--nonblocking", "--gil", "--rate", str(_SAMPLES_A_SECOND), "--duration", str(round(seconds)))
    command = [str(_SPY), "record", *how, "--output", str(file), "--pid", str(pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        yield
        _, told = running.communicate()
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command, stderr=told)
    # What py-spy writes there is its own command line.
    file.write_text(_TITLE.sub(rf"\g<1>{title}", file.read_text("utf-8")), "utf-8")
    print(f"{title}: {file}")


if __name__ == "__main__":
    sys.exit(main())
