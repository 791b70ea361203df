"""``pratique serve``: the services, one command each."""

from __future__ import annotations

import click

from pratique_cli.main import LazyGroup

SUMMARIES = {
    "all": "Answer AdmissionReviews with everything in one process, without gRPC.",
    "frontdoor": "Answer AdmissionReviews over HTTP or HTTPS.",
    "mutator": "Run mutating admission controllers, over gRPC.",
    "validator": "Run validating admission controllers, over gRPC.",
    "image-verifier": "Answer ImageReviews by the signatures of images.",
}

EPILOG = """\b
Examples:
  pratique serve mutator --port 9001
  pratique serve validator --port 9002
  pratique serve frontdoor --mutator 127.0.0.1:9001 --validator 127.0.0.1:9002

\b
On one small machine, `pratique serve all` runs the whole chain in one process.

\b
SIGTERM and Ctrl-C drain: calls in flight are finished. After SIGTERM, a front
door goes on answering for --drain-seconds, until load balancers have noticed.
A second signal ends the service at once.
"""


@click.group(
    "serve",
    cls=LazyGroup,
    folder="pratique_cli.commands.services",
    summaries=SUMMARIES,
    epilog=EPILOG,
)
def command() -> None:
    """Run one service in the foreground; `pratique up` runs them all."""
