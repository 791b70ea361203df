"""Our side: ``pratique serve all`` as a process, asked over HTTP for both phases with what the API server hands on."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jsonpatch

from differential.pairs import Answer, Setup, World
from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack, running_alone

_CONFIGURATIONS = frozenset(
    {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
"""The kinds that ``--config`` takes."""


class Pratique:
    """A front door that stands in for the API server's admission in one world."""

    def __init__(self, stack: Stack, connection: http.client.HTTPConnection) -> None:
        self._stack = stack
        self._connection = connection

    def decide(self, review: JSONObject) -> Answer:
        """What it answers to a review."""
        written = json.dumps(review, separators=(",", ":"), ensure_ascii=False).encode()
        code, answered = self._stack.post_bytes("/admit", written, self._connection)
        if code != 200:
            return Answer(code, str(answered.get("reason", "")), str(answered.get("message", "")))
        response = answered["response"]
        warnings = tuple(response.get("warnings", ()))
        annotations = response.get("auditAnnotations", {})
        if not response["allowed"]:
            status = response["status"]
            words = status.get("code", 0), status.get("reason", ""), status.get("message", "")
            return Answer(*words, warnings, annotations=annotations)
        reviewed = review["request"]["object"]
        if "patch" in response:
            operations = json.loads(base64.b64decode(response["patch"]))
            reviewed = jsonpatch.apply_patch(reviewed, operations)
        return Answer(200, warnings=warnings, object=reviewed, annotations=annotations)


@contextlib.contextmanager
def deciding(
    world: World,
    common: Sequence[JSONObject],
    setup: Setup,
    shared: Path,
) -> Iterator[Pratique]:
    """Run it in a world as the API server has it until the block ends.

    Args:
        world: the world as it is stored.
        common: what is there beside it.
        setup: the plugins and their configurations.
        shared: the folder that configurations name.
    """
    with tempfile.TemporaryDirectory() as folder:
        flags = _flags(Path(folder), world, common, setup.admission(shared, ours=True))
        with running_alone("--enable-admission-plugins", ",".join(setup.plugins), *flags) as stack:
            connection = stack.connect()
            try:
                yield Pratique(stack, connection)
            finally:
                connection.close()


def _flags(
    folder: Path, world: World, common: Sequence[JSONObject], configuration: JSONObject | None
) -> list[str]:
    own = {_key(item) for item in world.objects}
    there = [*(item for item in common if _key(item) not in own), *world.objects]
    for name, chosen in (("config", True), ("cluster", False)):
        items = [item for item in there if (item["kind"] in _CONFIGURATIONS) is chosen]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (folder / f"{name}.json").write_text(json.dumps(listed))
    flags = [
        "--first-denial-only",
        "--config",
        f"{folder}/config.json",
        "--cluster",
        f"{folder}/cluster.json",
    ]
    if configuration is None:
        return flags
    (folder / "admission.json").write_text(json.dumps(configuration))
    return [*flags, "--admission-control-config-file", f"{folder}/admission.json"]


def _key(item: JSONObject) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]
