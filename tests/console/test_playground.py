from __future__ import annotations

import io
import json
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from support.forked_commands import PROGRAM, run

from .conftest import PATIENCE_SECONDS, POLL_SECONDS

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: %s
  containers:
    - {name: web, image: registry.example/web:1}
"""
HOSTILE = POD.replace("name: web", 'name: "<img src=x onerror=document.title=1>"', 1) % "false"
STRICT_CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: default}
"""
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: images}
webhooks:
  - name: images.example.com
    clientConfig: {url: "https://127.0.0.1:1/"}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    sideEffects: None
    admissionReviewVersions: [v1]
"""
WRONG_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: wrong}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - expression: object.(
"""

# Each of these is done in one go, which no decision and no drawing comes between.
TYPE_AT_ONCE = """
for (const [id, text] of Object.entries(arguments[0])) {
  const editor = document.getElementById(id);
  editor.value = text;
  editor.dispatchEvent(new Event("input"));
}
"""
MARKED_LINES = """
const root = document.getElementById(arguments[0]).shadowRoot;
const top = (element) => element.getBoundingClientRect().top;
const numbers = [...root.querySelectorAll(".cm-lineNumbers .cm-gutterElement")];
return [...root.querySelectorAll(".marks .error, .marks .warning")].map(
  (mark) => `${mark.innerText} ${numbers.find((number) => top(number) === top(mark)).innerText}`);
"""
LINES = """
const root = document.getElementById(arguments[0]).shadowRoot;
return [...root.querySelectorAll(".cm-line")].map(
  (line) => [line.innerText.replace("\\n", ""), line.getBoundingClientRect().top]);
"""


def send(console: str, path: str, case: object, **headers: str) -> bytes:
    wanted = {"Content-Type": "application/json", "Origin": console} | headers
    request = urllib.request.Request(console + path, json.dumps(case).encode(), wanted)
    with urllib.request.urlopen(request, timeout=120) as answer:
        body: bytes = answer.read()
    return body


def decided(console: str, **case: str | bool) -> Any:
    return json.loads(send(console, "/playground/decide", case))


def refusal(console: str, path: str, case: object, **headers: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        send(console, path, case, **headers)
    with refused.value as answer:
        return answer.code, answer.read().decode()


def type_case(browser: Chrome, console: str, **texts: str) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    browser.execute_script(TYPE_AT_ONCE, texts)


def marked_lines(browser: Chrome, editor: str) -> list[str]:
    """The symbols in an editor's gutter, each with the number of its line."""
    found: list[str] = browser.execute_script(MARKED_LINES, editor)
    return found


def wait_for_state(browser: Chrome, text: str) -> None:
    WebDriverWait(browser, PATIENCE_SECONDS, POLL_SECONDS).until(
        lambda here: text in here.find_element(By.ID, "state").text
    )


def focus(browser: Chrome) -> str:
    """The ID of the element with the focus; empty if none has it."""
    found: str = browser.execute_script("return document.activeElement.id")
    return found


def test_a_decision_appears_beneath_while_you_type(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=POD % "false", cluster=STRICT_CLUSTER)
    wait_for_state(browser, "Admitted")
    type_case(browser, console, manifest=POD % "true", cluster=STRICT_CLUSTER)
    wait_for_state(browser, "Denied")
    assert "host namespaces (hostNetwork=true)" in browser.find_element(By.CLASS_NAME, "message").text


def test_a_denial_is_marked_at_its_line_and_leads_there(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=POD % "true", cluster=STRICT_CLUSTER)
    wait_for_state(browser, "Denied")
    assert marked_lines(browser, "manifest") == ["✕ 5"]
    mark = browser.find_element(By.CSS_SELECTOR, "#manifest-marks button")
    assert mark.text.startswith("✕ Line 5: ")
    mark.click()
    assert browser.execute_script("return document.activeElement.selection") == "  hostNetwork: true"


def test_the_lines_of_an_editor_stand_close_together(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=POD % "false")
    texts, tops = zip(*browser.execute_script(LINES, "manifest"), strict=True)
    assert list(texts) == (POD % "false").split("\n")
    assert tops[-1] - tops[0] == 20 * (len(tops) - 1)


@pytest.mark.parametrize(
    ("host_network", "state", "next_stop"),
    [("false", "Admitted", "policies"), ("true", "Denied", "✕ Line 5: ")],
    ids=["to the next editor", "to a mark beneath it"],
)
def test_tab_leaves_an_editor(
    browser: Chrome, console: str, host_network: str, state: str, next_stop: str
) -> None:
    type_case(browser, console, manifest=POD % host_network, cluster=STRICT_CLUSTER)
    wait_for_state(browser, state)  # the decision draws the marks, and moves what is beneath them
    browser.find_element(By.ID, "manifest").click()
    assert focus(browser) == "manifest"
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert (focus(browser) or browser.switch_to.active_element.text).startswith(next_stop)


def test_a_hostile_name_stays_text(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=HOSTILE)
    wait_for_state(browser, "Denied")
    assert "<img src=x" in browser.find_element(By.CSS_SELECTOR, "article h2").text
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.title == "Playground · Pratique"


def test_the_keyboard_alone_opens_a_patch(browser: Chrome, console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    keys = ActionChains(browser)
    keys.send_keys(Keys.TAB, Keys.TAB, "d").perform()  # past the skip link, to the list of examples
    wait_for_state(browser, "Admitted")
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if "LimitRanger" in browser.switch_to.active_element.text:
            break
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    patch = browser.find_element(By.CSS_SELECTOR, "[aria-label='Patch of LimitRanger']")
    assert patch.is_displayed()
    assert "/spec/containers/0/resources" in patch.text


def test_each_field_says_who_set_it(browser: Chrome, console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    Select(browser.find_element(By.ID, "example")).select_by_value("defaults-and-limits")
    wait_for_state(browser, "Admitted")
    setters = [item.text for item in browser.find_elements(By.CSS_SELECTOR, ".setters li")]
    number = setters.index("LimitRanger") + 1
    lines = [line.text.strip() for line in browser.find_elements(By.CSS_SELECTOR, ".blame .line")]
    assert f'{number} memory: "256Mi"' in [" ".join(line.split()) for line in lines]
    assert "name: web" in lines


def test_a_link_holds_the_case_and_keeps_it_from_the_server(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=POD % "true", cluster=STRICT_CLUSTER)
    wait_for_state(browser, "Denied")
    browser.find_element(By.ID, "link").click()
    wait_for_state(browser, "The link is")
    url = browser.current_url
    assert url.startswith(f"{console}/playground#case=")
    browser.get("about:blank")
    browser.get(url)
    wait_for_state(browser, "Denied")
    assert browser.find_element(By.ID, "manifest").get_property("value") == POD % "true"


def test_a_narrow_window_needs_no_sideways_scrolling(browser: Chrome, console: str) -> None:
    browser.set_window_size(500, 900)  # Chromium's narrowest; the page itself gets 360
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        type_case(browser, console, manifest=POD % "true", cluster=STRICT_CLUSTER)
        wait_for_state(browser, "Denied")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_saved_case_passes_pratique_test(console: str, tmp_path: Path) -> None:
    with urllib.request.urlopen(f"{console}/playground/examples/a-policy-denies-replicas") as answer:
        case = json.load(answer)
    with zipfile.ZipFile(io.BytesIO(send(console, "/playground/save", case))) as archive:
        archive.extractall(tmp_path)
    command = [PROGRAM, "test", tmp_path / "case"]
    ran = run(command)
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    policies = tmp_path / "case" / "policies.yaml"
    policies.write_text(policies.read_text().replace("<= 5", "<= 50"))
    assert run(command).returncode == 1


def test_webhooks_are_named_and_not_called(console: str) -> None:
    html = decided(console, manifest=POD % "false", policies=WEBHOOK)["html"]
    assert "images.example.com of images" in html
    assert "✓ Admitted" in html


def test_a_quota_is_charged_for_one_decision_alone(console: str) -> None:
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: one, namespace: default}\nspec: {hard: {pods: '1'}}"
    cluster = f"{STRICT_CLUSTER}---\n{quota}\n"
    for _ in range(2):
        assert "✓ Admitted" in decided(console, manifest=POD % "false", cluster=cluster)["html"]
    twice = (POD % "false") + "---\n" + (POD % "false").replace("{name: web}", "{name: second}")
    assert "exceeded quota: one" in decided(console, manifest=twice, cluster=cluster)["html"]


@pytest.mark.parametrize(
    ("case", "editor", "line"),
    [
        ({"manifest": "kind: Pod\n  x: 1\n"}, "manifest", 2),
        (
            {
                "manifest": POD % "false",
                "policies": WEBHOOK.replace("sideEffects: None", "sideEffects: Some"),
            },
            "policies",
            8,
        ),
        (
            {"manifest": POD % "false", "policies": WRONG_POLICY},
            "policies",
            8,
        ),
        ({"manifest": POD % "false", "cluster": "apiVersion: v1\nkind: Namespace\n"}, "cluster", 1),
    ],
)
def test_what_cannot_be_read_is_marked_at_its_line(
    console: str, case: dict[str, str], editor: str, line: int
) -> None:
    result = decided(console, **case)
    assert (editor, line) in {(mark["editor"], mark["line"]) for mark in result["marks"]}
    assert "Not decided:" in result["html"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "attacker.example", "Origin": "http://attacker.example"}, 400),
    ],
)
def test_pages_of_others_may_not_ask(console: str, headers: dict[str, str], code: int) -> None:
    assert refusal(console, "/playground/decide", {"manifest": POD}, **headers)[0] == code


@pytest.mark.parametrize(
    ("case", "code"), [({"manifest": "x" * 600_000}, 413), ({"manifest": 1}, 400), ({"other": ""}, 400)]
)
def test_a_case_is_bounded_and_read_strictly(console: str, case: object, code: int) -> None:
    assert refusal(console, "/playground/decide", case)[0] == code


def test_pages_allow_nothing_inline_and_nothing_from_elsewhere(console: str) -> None:
    with urllib.request.urlopen(f"{console}/playground") as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert "unsafe" not in policy
    assert " style=" not in page
    assert "://" not in page


def test_the_chain_is_drawn_in_the_order_in_which_it_ran(browser: Chrome, console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    Select(browser.find_element(By.ID, "example")).select_by_value("defaults-and-limits")
    wait_for_state(browser, "Admitted")
    columns = browser.find_elements(By.CSS_SELECTOR, ".column")
    heads = [column.find_element(By.TAG_NAME, "h4").text.splitlines()[0] for column in columns]
    assert heads == ["Defaults", "Mutating", "Object validation", "Validating"]
    assert columns[3].find_elements(By.CLASS_NAME, "name")[-1].text == "ResourceQuota"
    boxes = columns[3].find_elements(By.CLASS_NAME, "box")
    rows = [box.rect["y"] for box in boxes]
    assert rows[0] == rows[1]  # validating steps stand side by side
    assert rows.count(rows[-1]) == 1  # and ResourceQuota, which comes last, stands alone
    skipped = columns[1].find_element(By.CLASS_NAME, "skipped")
    skipped.find_element(By.TAG_NAME, "summary").click()
    assert all(len(item.text.split()) > 2 for item in skipped.find_elements(By.TAG_NAME, "li"))


def test_the_documents_show_the_page_in_both_themes(browser: Chrome, console: str, tmp_path: Path) -> None:
    for theme in ("light", "dark"):
        browser.get("about:blank")
        browser.get(f"{console}/playground")
        Select(browser.find_element(By.ID, "example")).select_by_value("defaults-and-limits")
        wait_for_state(browser, "Admitted")
        if browser.execute_script("return document.documentElement.dataset.theme") != theme:
            browser.find_element(By.ID, "theme").click()
        folder = Path(os.environ.get("PRATIQUE_SCREENSHOTS", tmp_path))
        assert browser.save_screenshot(str(folder / f"{theme}.png"))
