from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Program: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

HOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1"}
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def test_good_configuration_has_no_problems(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK)
    ran = pratique("check", "hooks.yaml", "--enable-admission-plugins", "AlwaysDeny")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "no problems found\n", "")


def test_standard_input_is_checked_too(pratique: Program) -> None:
    assert pratique("check", "-", stdin=HOOK).returncode == 0
    assert pratique("check", "-", stdin=HOOK.replace("None", "Some")).returncode == 2


def test_every_problem_is_a_line(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK.replace("sideEffects: None", "sideEffects: Some"))
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n")
    flags = ("--cluster", "cluster.yaml", "--enable-admission-plugins", "AlwaysDny")
    ran = pratique("check", "hooks.yaml", *flags)
    assert ran.returncode == 2
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert all(line.startswith("pratique: ") for line in lines)
    for told in ("hooks.yaml: document 1", "cluster.yaml: document 1", '"AlwaysDny" is unknown'):
        assert [line for line in lines if told in line]


def test_what_only_a_flag_names_can_be_checked(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert pratique("check", "--cluster", "cluster.yaml").returncode == 0
    assert pratique("check", PRATIQUE_CLUSTER="cluster.yaml").returncode == 0
