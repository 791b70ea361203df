"""The script that reads which defaulting functions of Kubernetes run on which types."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_defaults.py"
TYPES = """package v1

const (
\tDefaultColour Colour = "blue"
)

type Ship struct {
\tmetav1.TypeMeta `json:",inline"`
\tSpec ShipSpec `json:"spec,omitempty"`
}

type ShipSpec struct {
\tHull `json:",inline"`
\tMasts []Mast `json:"masts,omitempty"`
\tCargo ResourceList `json:"cargo,omitempty"`
}

type Hull struct {
\tKeel *Keel `json:"keel,omitempty"`
}

type Keel struct {
\tColour *Colour `json:"colour,omitempty"`
}

type Mast struct {
\tFlag string `json:"flag"`
}
"""
DEFAULTERS = """package v1

import (
\tshipsv1 "k8s.io/api/ships/v1"
)

func SetObjectDefaults_Ship(in *shipsv1.Ship) {
\tSetDefaults_Ship(in)
\tif in.Spec.Hull.Keel != nil {
\t\tif in.Spec.Hull.Keel.Colour == nil {
\t\t\tptrVar1 := shipsv1.Colour(shipsv1.DefaultColour)
\t\t\tin.Spec.Hull.Keel.Colour = &ptrVar1
\t\t}
\t}
\tfor i := range in.Spec.Masts {
\t\ta := &in.Spec.Masts[i]
\t\tif a.Flag == "" {
\t\t\ta.Flag = "white"
\t\t}
\t}
\tSetDefaults_ResourceList(&in.Spec.Cargo)
}
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_defaults", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_defaults", module)  # where dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def read(script: ModuleType, folder: Path, defaulters: str) -> dict[str, dict[str, object]]:
    module = folder / "api@v0.0.0"
    (module / "ships" / "v1").mkdir(parents=True)
    (module / "ships" / "v1" / "types.go").write_text(TYPES)
    reader = script.Reader(script.GoTypes([module]))
    reader.read("k8s.io/kubernetes/pkg/apis/ships/v1", defaulters)
    return {name: {key: value for key, value in node.items() if value} for name, node in reader.found.items()}


def test_functions_and_literals_are_found_by_the_type_that_json_has(
    script: ModuleType, tmp_path: Path
) -> None:
    assert read(script, tmp_path, DEFAULTERS) == {
        "api.ships.v1.Ship": {
            "functions": ["ships.v1.Ship"],
            "fields": ["spec"],
            "embedded": ["spec"],
        },
        "api.ships.v1.ShipSpec": {"fields": ["keel", "masts"], "quantities": ["cargo"]},
        "api.ships.v1.Keel": {"missing": {"colour": "blue"}},
        "api.ships.v1.Mast": {"zero": {"flag": "white"}},
    }


def test_a_statement_of_another_form_is_refused(script: ModuleType, tmp_path: Path) -> None:
    strange = DEFAULTERS.replace("SetDefaults_Ship(in)", "in.Spec.Sink()")
    with pytest.raises(SystemExit, match=r"cannot read 'in\.Spec\.Sink\(\)'"):
        read(script, tmp_path, strange)
