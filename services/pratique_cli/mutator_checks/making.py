"""Making objects up: always the same ones of the same seed, and nothing of it left on disk."""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pratique.apimachinery.json_values import JSON, JSONObject
    from pratique.cluster.schemas import Type
    from pratique_cli.mutator_checks.words import GeneratedKind, Vocabulary

_USUAL_FIELDS = frozenset({"metadata", "spec", "template"})
"""What an object is hardly one without, though schemas do not ask for it."""
_SMALLEST_SCALARS: dict[Scalar, JSON] = {Scalar.STRING: "a", Scalar.INTEGER: 1, Scalar.NUMBER: 1, Scalar.BOOLEAN: False}


def smallest(kind: GeneratedKind) -> JSONObject:
    """What an object of a kind has to have, and nothing else."""
    needed: JSONObject = _smallest(kind.schema, "")
    named = {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "metadata": {"name": "made"}}
    return named | {name: value for name, value in needed.items() if name not in named}


def _smallest(type_: Type, field: str) -> JSON:
    match type_:
        case Structure():
            needed = sorted(type_.required | (_USUAL_FIELDS & type_.fields.keys()))
            return {name: _smallest(type_.fields[name], name) for name in needed if name in type_.fields}
        case ListType():
            # A schema does not say that a Pod has to have a container.
            return [_smallest(type_.items, field)] if field == "containers" else []
        case MapType() | Scalar.ANY:
            return {}
        case _:
            return _SMALLEST_SCALARS.get(type_, "1")


HYPOTHESIS_MISSING = (
    "pratique prove makes objects up with Hypothesis, which is not installed: pip install 'pratique[prove]', or "
    "pip install hypothesis beside a pratique that is there"
)
"""What is said where the extra ``prove`` was not installed."""


def generate_objects(
    kind: GeneratedKind, words: Vocabulary, *, seed: int, examples: int, visit: Callable[[JSONObject], None]
) -> None:
    """Make up objects of one kind, and show each to ``visit``.

    Raises:
        PratiqueError: ``visit`` raised it; no further object was shown.
        InputError: Hypothesis is not installed.
    """
    # A third of a second of imports that only those wait for who make objects up.
    try:
        import hypothesis  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError(HYPOTHESIS_MISSING) from None

    from pratique_cli.mutator_checks.objects import generated_objects  # noqa: PLC0415

    ended: list[PratiqueError] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(generated_objects(kind, words))
    def show(document: JSONObject) -> None:
        if ended:
            return
        try:
            visit(document)
        except PratiqueError as error:
            # Hypothesis would take an error for a finding, and ask again.
            ended.append(error)

    with _temporary_hypothesis_home():
        show()
    if ended:
        raise ended[0]


@contextlib.contextmanager
def _temporary_hypothesis_home() -> Iterator[None]:
    """Keep Hypothesis from leaving a folder behind: it stores more than examples."""
    from hypothesis import configuration  # noqa: PLC0415 - as above

    before = configuration.storage_directory(intent_to_write=False).home_directory
    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
