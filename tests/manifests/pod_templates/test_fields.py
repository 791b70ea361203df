from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import Step
from pratique.manifests.pod_templates import field_in_workload

IN_SPEC = ("spec", "template")
IN_CRON_JOB = ("spec", "jobTemplate", "spec", "template")


@pytest.mark.parametrize("template", [IN_SPEC, IN_CRON_JOB])
@pytest.mark.parametrize(
    "path", [("spec", "containers", 0, "image"), ("metadata", "labels", "a"), ("spec", "volumes", 1)]
)
def test_a_template_field_is_located_in_the_template(
    path: tuple[Step, ...], template: tuple[str, ...]
) -> None:
    assert field_in_workload(path, template) == (*template, *path)


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (("metadata", "name"), ("metadata", "name")),
        (("metadata", "generateName"), ("metadata", "name")),
        (("metadata", "namespace"), ("metadata", "namespace")),
        (("metadata", "ownerReferences", 0, "uid"), ("metadata", "name")),
    ],
)
def test_a_generated_field_is_located_in_the_workload(
    path: tuple[Step, ...], written: tuple[Step, ...]
) -> None:
    assert field_in_workload(path, IN_SPEC) == written
