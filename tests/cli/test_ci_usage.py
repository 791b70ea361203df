"""What people type into `pratique review` in CI, and what the repository offers there: an action and hooks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from support.forked_commands import PROGRAM

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

ROOT = Path(__file__).parents[2]
BASELINE = ("--pod-security", "baseline")
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
BAD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
    "spec:\n  hostNetwork: true\n  containers: [{name: web, image: web}]\n"
)
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {pod-security.kubernetes.io/enforce: privileged, pod-security.kubernetes.io/warn: baseline}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
"""
WARNED = BAD.replace("{name: web}\nspec", "{name: web, namespace: shop}\nspec")
HELM = f"---\n# Source: shop/templates/settings.yaml\n{GOOD}---\n# Source: shop/templates/pod.yaml\n{BAD}"
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ships, kind: Ship}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
SHIP = "apiVersion: example.com/v1\nkind: Ship\nmetadata: {name: ark, namespace: sea}\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name, text in {"good.yaml": GOOD, "deep/er/bad.yaml": BAD, "cluster.yaml": CLUSTER}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def places(log: dict[str, Any]) -> list[tuple[str, int]]:
    """The file and line of each result of a SARIF log."""
    found = [result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"]]
    return [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in found]


@pytest.mark.usefixtures("files")
def test_files_can_be_given_as_to_kubectl(pratique: Program) -> None:
    ran = pratique("review", *BASELINE, "-R", "-f", "good.yaml", "-f", "deep")
    assert ran.returncode == 1
    assert ran.stdout.startswith("✓ admitted  ConfigMap default/settings  (good.yaml:1)\n✗ denied    Pod")
    assert ran.stdout.endswith("2 reviewed, 1 admitted, 1 denied\n")
    assert len(ran.stdout.splitlines()) == 4


def test_files_of_a_folder_can_be_left_out(pratique: Program, files: Path) -> None:
    for name in ("values.yaml", "kustomization.yaml"):
        (files / "deep" / name).write_text("apiVersion: kustomize.config.k8s.io/v1\nkind: Kustomization\n")
    ran = pratique("review", "deep")
    assert ran.returncode == 2
    assert "never sent to an API server: take what kubectl kustomize writes" in ran.stderr
    assert ran.stderr.endswith("leave it out: --exclude NAME\n")
    ran = pratique("review", "deep", "--exclude", "values.yaml,kustom*", "--exclude", "none")
    assert ran.returncode == 0
    assert ran.stderr.splitlines() == [
        "pratique: note: left out by --exclude: 2 files",
        "pratique: note: --exclude none matches no file of a folder",
    ]


def test_a_folder_without_manifests_is_not_told_to_leave_files_out(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "README.md").write_text("# Nothing")
    for command in ("review", "check"):
        ran = pratique(command, "none")
        assert (ran.returncode, "--exclude" in ran.stderr) == (2, False)
        assert "files with other endings, such as README.md, are not read" in ran.stderr


def test_a_pipe_is_read_if_no_file_is_given(pratique: Program) -> None:
    assert "(standard input:1)" in pratique("review", stdin=GOOD).stdout
    ran = pratique("review")
    assert (ran.returncode, ran.stdout) == (2, "0 reviewed, 0 admitted, 0 denied, 1 unreadable\n")
    assert "standard input: holds no documents" in ran.stderr


def test_a_terminal_is_not_read(on_terminal: Callable[..., str]) -> None:
    assert "Missing argument 'FILE...'" in on_terminal("review")


@pytest.mark.parametrize(
    ("selection", "shown"),
    [("denied", {"web"}), ("warned", {"warned"}), ("all", {"web", "warned", "settings"})],
)
def test_only_what_is_selected_is_written(
    pratique: Program, files: Path, selection: str, shown: set[str]
) -> None:
    (files / "warned.yaml").write_text(WARNED.replace("name: web,", "name: warned,", 1))
    flags = ("--cluster", "cluster.yaml", "--assume", "namespaces,serviceaccounts", *BASELINE)
    ran = pratique("review", *flags, "--only", selection, "-o", "jsonl", "good.yaml", "deep", "warned.yaml")
    names = {json.loads(line)["object"]["metadata"]["name"] for line in ran.stdout.splitlines()}
    assert names == shown


@pytest.mark.usefixtures("files")
def test_quiet_output_holds_nothing_that_is_admitted(pratique: Program) -> None:
    assert pratique("review", "-q", "good.yaml").stdout == ""
    ran = pratique("review", "-q", *BASELINE, "good.yaml", "deep")
    assert [line.split()[1] for line in ran.stdout.splitlines()] == ["denied", "pods"]
    assert pratique("review", "-q", "-o", "table", "good.yaml").stdout == ""


def test_one_run_writes_several_outputs(pratique: Program, files: Path) -> None:
    formats = ("text", "table", "json", "jsonl", "yaml", "junit", "sarif", "github")
    outputs = [part for name in formats for part in ("-o", f"{name}=out.{name}")]
    ran = pratique("review", *BASELINE, "-o", "jsonl", *outputs, "good.yaml", "deep")
    texts = {name: (files / f"out.{name}").read_text() for name in formats}
    source = {"file": "deep/er/bad.yaml", "line": 1}
    assert ran.returncode == 1
    assert json.loads(ran.stdout.splitlines()[1])["source"] == source
    assert json.loads(texts["json"])[1]["source"] == source
    assert list(yaml.safe_load_all(texts["yaml"]))[1]["source"] == source
    assert places(json.loads(texts["sarif"])) == [("deep/er/bad.yaml", 5)]
    assert "file=deep/er/bad.yaml,line=5," in texts["github"]
    assert "deep/er/bad.yaml:5: PodSecurity" in texts["junit"]
    assert "denied    Pod default/web             deep/er/bad.yaml:1  pods" in texts["table"]
    assert "(deep/er/bad.yaml:1)" in texts["text"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("-o", "json", "-o", "text"), "json, text would all go to standard output"),
        (("-o", "json="), "'json=' names no file; write json=FILE"),
        (("-o", "xml=a"), "'xml' is not a format"),
        (("-o", "json=no/such/folder"), "no/such/folder: cannot be written: no such file or directory"),
        (("--assume", "pods"), "'pods' cannot be assumed to exist; there are namespaces, serviceaccounts"),
        (("--crds", "good.yaml"), "ConfigMap is no CustomResourceDefinition; --cluster takes other objects"),
    ],
)
@pytest.mark.usefixtures("files")
def test_wrong_flags_get_one_message(pratique: Program, flags: tuple[str, ...], problem: str) -> None:
    ran = pratique("review", *flags, "good.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr
    assert "Traceback" not in ran.stderr


def test_text_has_annotations_in_a_job_of_github_actions(pratique: Program) -> None:
    shown = pratique("review", *BASELINE, "--stdin-filename", "a/b.yaml", stdin=BAD, GITHUB_ACTIONS="true")
    assert "::error file=a/b.yaml,line=5," in shown.stdout
    assert "✗ denied    Pod default/web  403 Forbidden  (a/b.yaml:1)" in shown.stdout
    assert "::" not in pratique("review", *BASELINE, stdin=BAD, GITHUB_ACTIONS="false").stdout


def test_what_helm_renders_is_placed_in_its_templates(pratique: Program) -> None:
    log = json.loads(pratique("review", *BASELINE, "-o", "sarif", stdin=HELM).stdout)
    assert places(log) == [("shop/templates/pod.yaml", 5)]
    broken = pratique("review", stdin=HELM.replace("kind: Pod", "kind: Podd"))
    assert "shop/templates/pod.yaml: document 1, line 1, column 1: " in broken.stderr


def test_definitions_add_kinds_and_take_no_namespaces_away(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "crds.yaml").write_text(DEFINITION)
    assert pratique("review", stdin=SHIP).returncode == 2
    assert pratique("review", "--crds", "crds.yaml", stdin=SHIP).returncode == 0
    denied = pratique("review", "--cluster", "crds.yaml", stdin=SHIP)
    assert denied.returncode == 1
    assert "note: --cluster holds no Namespace" in denied.stderr
    assert "use --crds instead" in denied.stderr
    assumed = pratique("review", "--cluster", "crds.yaml", "--assume", "namespaces", stdin=SHIP)
    assert (assumed.returncode, assumed.stderr) == (0, "")


def test_an_assumed_namespace_brings_no_account(pratique: Program, files: Path) -> None:
    (files / "empty.yaml").write_text(GOOD)
    flags = ("--cluster", "empty.yaml", "--assume")
    assert 'serviceaccount "default" not found' in pratique("review", *flags, "namespaces", stdin=BAD).stdout
    assert pratique("review", *flags, "namespaces,serviceaccounts", stdin=BAD).returncode == 0


HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def action_step(name: str) -> str:
    """The script of a step of the action."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (step for step in action["runs"]["steps"] if step.get("name") == name)
    return str(step["run"])


def test_the_action_and_the_hooks_install_what_is_locked_and_nothing_else() -> None:
    assert action_step("Install") == '"$ACTION_PATH/scripts/install_locked.sh" "$RUNNER_TEMP/pratique"\n'
    assert "pip" not in action_step("Review")
    for hook in HOOKS.values():
        assert (hook["language"], "additional_dependencies" in hook) == ("script", False)
    script = (ROOT / "scripts" / "pre_commit_hook.sh").read_text()
    assert ("pip" in script, '"$root/scripts/install_locked.sh"' in script) == (False, True)
    installing = (ROOT / "scripts" / "install_locked.sh").read_text()
    assert re.findall(r"pip install (.+)", installing) == [
        '--require-hashes --requirement "$root/scripts/requirements/offline.txt"',
        '--no-deps --no-build-isolation "$root"',
    ]


def test_actions_that_the_action_uses_are_named_by_their_commits() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    used = [step["uses"] for step in action["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)


def test_the_action_runs_python_without_the_modules_of_the_repository() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    scripts = "".join(step.get("run", "") for step in action["runs"]["steps"])
    assert re.findall(r"\bpython (?!-I )", scripts) == []


def run_action(files: Path, *, args: str = "", more: str = "") -> subprocess.CompletedProcess[str]:
    """Run the review of the action, with its inputs ``args`` and ``files``."""
    (files / "temp" / "pratique").mkdir(parents=True)
    (files / "temp" / "pratique" / "bin").symlink_to(PROGRAM.parent)
    variables = {
        "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(files / "temp"),
        "GITHUB_ACTIONS": "true",
        "ARGS": args,
        "FILES": more,
        "SARIF": "log.sarif",
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action_step("Review")]
    return subprocess.run(command, cwd=files, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("given", "more", "code"),
    [
        ("good.yaml", "", 0),
        ("--pod-security baseline 'deep/er'", "", 1),
        ("--pod-security baseline", "good.yaml\n\ndeep/er/bad.yaml\n", 1),
        ("", "good.yaml", 0),
    ],
)
def test_the_action_reviews_with_its_arguments(files: Path, given: str, more: str, code: int) -> None:
    (files / "shlex.py").write_text("raise SystemExit('ran a module of the reviewed repository')")
    ran = run_action(files, args=given, more=more)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert ("::error file=deep/er/bad.yaml,line=5," in ran.stdout) == bool(code)
    assert len(places(json.loads((files / "log.sarif").read_text()))) == code


def test_the_action_reviews_the_folder_unless_it_is_told_what(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    ran = run_action(tmp_path)
    assert (ran.returncode, ran.stdout) == (
        0,
        "✓ admitted  ConfigMap default/settings  (good.yaml:1)\n1 reviewed, 1 admitted, 0 denied\n",
    )


LIKE_FLAGS = (
    "--pod-security=privileged",
    "--pod-security=privileged.yaml",
    "-ojson=written.yaml",
    "-ojson=/deep/written.yaml",
    "--admission-control=NamespaceLifecycle.yaml",
    "--config=policies.yaml",
    "--help.yaml",
    "--help",
    "-q.yaml",
)
"""Names of files in a repository: whoever sends a change chooses them."""


def write_names_like_flags(folder: Path) -> list[Path]:
    """Write a bad manifest in a file of each name, and list all files."""
    for name in LIKE_FLAGS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(BAD)
    return sorted(folder.rglob("*"))


def test_the_action_takes_no_file_for_a_flag(tmp_path: Path) -> None:
    before = write_names_like_flags(tmp_path)
    ran = run_action(tmp_path, args="--pod-security baseline", more="\n".join(LIKE_FLAGS))
    assert (ran.returncode, ran.stderr) == (1, "")
    number = len(LIKE_FLAGS)
    assert ran.stdout.endswith(f"{number} reviewed, 0 admitted, {number} denied\n")
    made = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert made == {"temp", "pratique", "bin", "log.sarif"}


def run_hook(
    folder: Path, hook: str, *names: str, args: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does, from a copy of the repository that has been installed."""
    copy = folder.parent / "copy"
    environment = copy / ".pre-commit-environment"
    if not copy.exists():
        (copy / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "pre_commit_hook.sh", copy / "scripts")
        environment.mkdir()
        (environment / "bin").symlink_to(PROGRAM.parent)
        (environment / "installed").touch()
    program, *entry = shlex.split(HOOKS[hook]["entry"])
    command = [copy / program, *entry, *(HOOKS[hook]["args"] if args is None else args), *names]
    variables = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The folder that is committed to."""
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("hook", "file", "code"),
    [
        ("pratique-review", "good.yaml", 0),
        ("pratique-review", "broken.yaml", 2),
        ("pratique-check", "policy.yaml", 0),
        ("pratique-check", "policy.yaml good.yaml", 0),
        ("pratique-check", "good.yaml", 0),
        ("pratique-check", "broken.yaml", 0),
        ("pratique-check", "wrong.yaml", 2),
    ],
)
def test_the_hooks_run_on_files(repository: Path, hook: str, file: str, code: int) -> None:
    policies = (ROOT / "examples" / "04-cel-policies" / "policies.yaml").read_text()
    (repository / "good.yaml").write_text(GOOD)
    (repository / "policy.yaml").write_text(policies)
    (repository / "wrong.yaml").write_text(policies.replace("validations:", "validation:"))
    (repository / "broken.yaml").write_text("kind: Podd\napiVersion: v1\n")
    assert run_hook(repository, hook, *file.split()).returncode == code


def test_a_hook_takes_no_file_for_a_flag(repository: Path) -> None:
    before = write_names_like_flags(repository)
    ran = run_hook(repository, "pratique-review", *LIKE_FLAGS, args=["--pod-security", "baseline", "--"])
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.count("403 Forbidden") == len(LIKE_FLAGS)
    assert run_hook(repository, "pratique-check", *LIKE_FLAGS).returncode == 0
    assert sorted(repository.rglob("*")) == before


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_whose_own_args_do_not_end_the_flags_refuses_to_run(repository: Path, hook: str) -> None:
    (repository / "good.yaml").write_text(GOOD)
    ran = run_hook(repository, hook, "good.yaml", args=["--release", "1.36"])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "so that no file is taken for a flag: args: [..., --]" in ran.stderr
    assert HOOKS[hook]["args"] == ["--"]
