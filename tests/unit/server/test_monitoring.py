"""docs/monitoring: every metric and label of dashboard and alerts is one of a real server's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from edge_runtime import errors

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
PROTOCOL = (FOLDER.parent / "protocol.md").read_text()
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = (FOLDER / "alerts.yml").read_text()
TARGETS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
RULES = re.findall(r"expr: (?:>\n)?(.*?)\n        (?:for|labels):", ALERTS, re.S)
LABELS = {
    name: set(re.findall(r"`(\w+)`", labels))
    for name, labels in re.findall(r"^\| `(edge_runtime_\w+)` \| \w+ \|(.*?)\|", PROTOCOL, re.M)
}
TOLD = {"instance", "job"}
"""Labels that Prometheus adds."""


@pytest.fixture
async def told(house) -> set[str]:
    """The names of all samples that a server may give."""
    server = await house()
    async with server.http.get(server.url + "/metrics") as answer:
        families = list(text_string_to_metric_families(await answer.text()))
    names = {family.name for family in families}
    for family in families:
        names |= {f"{family.name}{end}" for end in ENDS[family.type]}
    return names


ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def used(expression: str) -> set[str]:
    return set(re.findall(r"edge_runtime_\w+", expression))


async def test_every_metric_that_is_named_is_told(told):
    assert len(TARGETS) > 20
    assert len(RULES) == ALERTS.count("- alert:") == 12
    named = set().union(*map(used, [*TARGETS, *RULES, json.dumps(DASHBOARD["templating"])]))
    assert len(named) > 25
    assert named <= told
    tests = (FOLDER / "alerts_test.yml").read_text()
    assert used(tests) - set(re.findall(r"alertname=~.*", tests)) <= told


@pytest.mark.parametrize("expression", [*TARGETS, *RULES])
def test_its_labels_are_labels_of_it(expression):
    for name, selector in re.findall(r"(edge_runtime_\w+)\{(.*?)\}", expression):
        known = LABELS[re.sub("_bucket$", "", name)] | TOLD
        assert set(re.findall(r"(\w+)=", selector)) <= known
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"(?:by|on) \((.*?)\)", expression))))
    if used(expression):
        known = set().union(*(LABELS[re.sub("_bucket$", "", name)] for name in used(expression)))
        assert grouped <= known | TOLD | {"le"}


def test_codes_of_alerts_are_codes():
    codes = {code for found in re.findall(r'code=~?"(.*?)"', ALERTS) for code in found.split("|")}
    known = {each.code for each in vars(errors).values() if hasattr(each, "code")}
    assert codes == known & codes | {errors.ServerFull("", "").code}
    assert {"device", "device_lost"} <= codes


def test_panels_lie_side_by_side():
    places = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & places
        assert max(x for x, _ in cells) < 24
        places |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="apt-get install prometheus")
@pytest.mark.parametrize(
    "line", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")]
)
def test_promtool_takes_the_rules(line):
    done = subprocess.run(
        ["promtool", *line], cwd=FOLDER, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.skipif(shutil.which("promtool") is None, reason="apt-get install prometheus")
def test_promtool_takes_every_expression_of_the_dashboard(tmp_path):
    rules = "\n".join(
        f"  - {{record: 'panel:{number}', expr: {json.dumps(expr)}}}"
        for number, expr in enumerate(TARGETS)
    ).replace("$instance", ".*")
    (tmp_path / "panels.yml").write_text(f"groups:\n- name: panels\n  rules:\n{rules}\n")
    done = subprocess.run(
        ["promtool", "check", "rules", "panels.yml"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(TARGETS)} rules found" in done.stdout
