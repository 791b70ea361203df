"""The package that ``pratique new policy`` writes: a policy, its tests, and what installs and configures it."""

from __future__ import annotations

import keyword
import string
import sys
from pathlib import Path

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import encode
from pratique.apimachinery.patterns import pattern
from pratique.hosting.chain_order import CHAIN_ORDER

_NAME = pattern(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_WORD = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TAKEN = sys.stdlib_module_names | {"pratique", "pytest", "tests"}

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$package"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["pratique"]

[project.entry-points."pratique.controllers"]
$package = "$module:$module"

[tool.hatch.build.targets.wheel]
include = ["$module.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""

_POLICY = '''\
"""The policy $name."""

import msgspec

from pratique import Answer, Review, allow, deny, member, rule, validator


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the block of the policy in an AdmissionConfiguration can set."""

    label: str = "team"


@validator("$name", rule("pods"), settings=Settings)
def $module(review: Review, settings: Settings) -> Answer:
    """Denies Pods without a certain label."""
    if member(review.object, "metadata", "labels", settings.label):
        return allow()
    return deny(f"label {settings.label} is missing")
'''

_TESTS = '''\
"""Tests of the policy $name."""

from $module import $module
from pratique.testing import admit

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {team: shop}}
"""


def test_a_pod_with_the_label_is_admitted() -> None:
    assert admit($module, POD).allowed


def test_a_pod_without_the_label_is_denied() -> None:
    decision = admit($module, POD.replace("team: shop", "tier: prod"))
    assert not decision.allowed
    assert decision.message == 'pods "web" is forbidden: label team is missing'


def test_the_label_can_be_set() -> None:
    decision = admit($module, POD, settings={"label": "owner"})
    assert decision.message == 'pods "web" is forbidden: label owner is missing'
'''

_CONFIGURATION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: $name
  configuration:
    label: team
"""

_README = """\
# $name

A policy for Pratique: it denies Pods without a label.

| file | holds |
|---|---|
| `$module.py` | the policy |
| `tests` | its tests |
| `admission.yaml` | an AdmissionConfiguration with its settings |
| `review.json` | a request that it denies |

Test it (`pip install pytest` if you have none), install it beside Pratique, and run a chain with it:

```console
$$ pytest
$$ pip install .
$$ pratique up --enable-admission-plugins $name --admission-control-config-file admission.yaml
$$ curl -H 'Content-Type: application/json' -d @review.json http://127.0.0.1:8080/admit
```

While you change it, use `pip install -e .` and `pratique up --reload`: each change then takes effect by itself.
"""

_REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "default",
        "userInfo": {"username": "ada"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web"}]},
        },
    },
}


class PolicyPackage(msgspec.Struct, frozen=True):
    """The names of a package of one policy."""

    name: str
    """The policy's name, as in ``RequireTeam``."""
    package: str
    """The distribution and its folder, as in ``require-team``."""
    module: str
    """The module and the function in it, as in ``require_team``."""

    @classmethod
    def named(cls, text: str) -> PolicyPackage:
        """Derive all names from one, written as ``RequireTeam``, ``require-team`` or ``require_team``.

        Raises:
            InputError: no policy can be named so; the message says what would be right.
        """
        if not _NAME.fullmatch(text):
            raise InputError(f'a policy needs a name of letters and digits, such as "RequireTeam": {text!r}')
        words = _WORD.findall(text)
        name = text if text[0].isupper() and text.isalnum() else "".join(word.capitalize() for word in words)
        lower = [word.lower() for word in words]
        if name in CHAIN_ORDER:
            raise InputError(f'admission controller "{name}" is already Kubernetes\'; choose another name')
        found = cls(name, "-".join(lower), "_".join(lower))
        if found.module in _TAKEN or keyword.iskeyword(found.module) or keyword.issoftkeyword(found.module):
            raise InputError(
                f'the policy would be a module "{found.module}", which Python or its tests have already;'
                ' choose a name of more words, such as "RequireTeam"'
            )
        return found

    def files(self) -> dict[str, bytes]:
        """The files of the package, by their paths in its folder."""
        texts = {
            "pyproject.toml": _PYPROJECT,
            f"{self.module}.py": _POLICY,
            f"tests/test_{self.module}.py": _TESTS,
            "admission.yaml": _CONFIGURATION,
            "README.md": _README,
        }
        names = msgspec.structs.asdict(self)
        written = {path: string.Template(text).substitute(names).encode() for path, text in texts.items()}
        return {**written, "review.json": encode(_REVIEW) + b"\n"}

    def write(self, folder: Path) -> list[Path]:
        """Write the package into a new or empty folder, and return the files.

        Raises:
            InputError: there is something already, or it cannot be written.
        """
        try:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise InputError(
                    f"{folder}: is there already, and is not overwritten; --dir names another folder"
                )
            (folder / "tests").mkdir(parents=True, exist_ok=True)
            for path, text in self.files().items():
                with (folder / path).open("xb") as file:  # x: even what has come meanwhile is kept
                    file.write(text)
        except OSError as error:
            raise InputError(f"{error.filename or folder}: {error.strerror}") from None
        return [folder / path for path in self.files()]
