"""How figures come about and how they are drawn: frames, cores, scales, curves."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import curves
import peer_installs
import pytest
import run
from fanouts import NotMeasurableError
from frames import FrameEcho, FrameReader, frame_load, framed
from hypothesis import given
from hypothesis import strategies as st
from measures import Figures, Section
from paths import PATHS
from peer_installs import NotInstallableError, install_go
from results import Results
from tails import divided

SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_frames_come_out_whole_however_they_arrive(bodies: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(map(framed, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    reader = FrameReader()
    found: list[bytes] = []
    for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        found += reader.feed(sent[begin:end])
    assert found == [framed(body) for body in bodies]


@pytest.mark.parametrize("by", ["port", "socket"])
def test_frames_are_echoed_over_tcp_and_over_a_unix_socket(by: str, tmp_path: Path) -> None:
    async def exchange() -> list[float]:
        loop = asyncio.get_running_loop()
        if by == "port":
            server = await loop.create_server(FrameEcho, "127.0.0.1", 0)
            address: int | str = server.sockets[0].getsockname()[1]
        else:
            address = str(tmp_path / "socket")
            server = await loop.create_unix_server(FrameEcho, address)
        async with server:
            return await frame_load(address, b"x" * 100_000, in_flight=4, seconds=0.05)

    latencies = asyncio.run(exchange())
    assert len(latencies) >= 4
    assert all(latency > 0 for latency in latencies)


def test_the_generator_has_the_last_core_and_the_suite_the_others() -> None:
    assert divided(frozenset({0, 1, 5})) == (5, frozenset({0, 1}))
    assert divided(frozenset({3, 4})) == (4, frozenset({3}))
    assert divided(frozenset({2})) == (None, frozenset({2}))


def test_a_section_that_fails_or_cannot_be_measured_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Section:
        raise RuntimeError("the suite ended before it was ready")

    def has_no_flag() -> Section:
        raise NotMeasurableError("there is no flag")

    sections = {"tails": fails, "fan-out": has_no_flag, "paths": lambda: {"/admit": {"x": {"p50": 1.0}}}}
    monkeypatch.setattr(run, "parts", lambda *_: sections)
    results, failed = run.measure(run.read_options([]))
    assert failed == ["tails"]
    assert results.left_out == {"tails": "measuring it failed", "fan-out": "there is no flag"}
    assert results.sections.keys() == results.measured.keys() == {"paths"}
    assert "the suite ended before it was ready" in capsys.readouterr().err


def test_peers_in_go_are_left_out_where_there_is_no_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstallableError, match="no Go toolchain"):
        install_go("opa", "github.com/open-policy-agent/opa")


def test_a_peer_is_built_anew_where_its_lock_or_its_source_is_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources, programs = tmp_path / "peers" / "one", tmp_path / "programs"
    sources.mkdir(parents=True)
    programs.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (sources / name).write_text(name)
    go = programs / "go"  # writes what `go build -mod=readonly -trimpath -o server <package>` would
    go.write_text('#!/bin/sh\ncat main.go "$6" >>server\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(peer_installs, "PEERS", tmp_path / "peers")
    monkeypatch.setattr(peer_installs, "INSTALLED", tmp_path / "installed")
    built = [install_go("one", "go.mod").read_text() for _ in range(2)]
    (sources / "main.go").write_text("another")
    built.append(install_go("one", "go.mod").read_text())
    assert built == ["main.gogo.mod", "main.gogo.mod", "anothergo.mod"]


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=6))
def test_a_scale_holds_all_values_between_two_marks(values: list[float]) -> None:
    marks = curves.decades(values)
    assert marks == sorted(set(marks))
    assert 2 <= len(marks) <= 13
    assert marks[0] <= min(values) * (1 + 1e-9)
    assert marks[-1] >= max(values) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("value", "written"), [(0.05, "0.05"), (1, "1"), (1500, "1.5K"), (20_000, "20K"), (5_000_000, "5M")]
)
def test_numbers_at_scales_are_short(value: float, written: str) -> None:
    assert curves.short(value) == written


def figures(number: int) -> Figures:
    return {"p50": 0.001 * number, "p99": 0.002 * number, "rate": 1000 / number, "cpu": 0.0005 * number}


def grown() -> Results:
    sizes = {1: "1 connection", 4: "4 connections", 16: "16 connections"}
    paths = {path: {name: figures(number) for number, name in sizes.items()} for path in PATHS[:2]}
    validators = {
        "1 validator": {"1 connection": figures(1), "16 connections": figures(3)},
        "8 validators": {"1 connection": figures(8)},
    }
    return Results(measured={}, sections={"paths": paths, "validators": validators})


def drawn(name: str) -> ET.Element:
    return ET.fromstring(curves.drawings(grown())[name])


def test_only_what_was_measured_is_drawn() -> None:
    assert curves.drawings(grown()).keys() == {"paths", "validators"}


def test_each_curve_is_drawn_in_each_of_three_panels() -> None:
    lines = drawn("paths").findall(f"{SVG}polyline")
    assert len(lines) == 3 * 2
    assert {len(str(line.get("points")).split()) for line in lines} == {3}
    words = [text.text for text in drawn("paths").findall(f"{SVG}text")]
    assert {"p50 ms", "reviews a second", "CPU µs a review", *PATHS[:2]} <= set(words)


def test_a_step_that_was_not_measured_is_left_out_of_its_curve() -> None:
    lines = drawn("validators").findall(f"{SVG}polyline")
    assert sorted(len(str(line.get("points")).split()) for line in lines) == [1, 1, 1, 2, 2, 2]


def test_a_curve_that_falls_is_drawn_downwards() -> None:
    rates = drawn("paths").findall(f"{SVG}polyline")[2]
    heights = [float(point.split(",")[1]) for point in str(rates.get("points")).split()]
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]


def test_everything_drawn_is_inside_the_page() -> None:
    page = drawn("paths")
    _, _, width, height = map(float, str(page.get("viewBox")).split())
    for mark in page.iter(f"{SVG}circle"):
        assert 0 <= float(str(mark.get("cx"))) <= width
        assert 0 <= float(str(mark.get("cy"))) <= height


def test_a_drawing_has_colours_for_readers_in_the_dark() -> None:
    text = curves.drawings(grown())["paths"]
    light, dark = text.split("prefers-color-scheme: dark", 1)
    named = re.compile(r"\.(\w+) \{")
    assert set(named.findall(dark)) == set(named.findall(light)) - {"bar"}
