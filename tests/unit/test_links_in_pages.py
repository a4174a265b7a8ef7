"""Every link within the checkout leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    page for glob in ("*.md", "docs/**/*.md", "systemd/*.md", "examples/*.md")
    for page in ROOT.glob(glob)
]  # fmt: skip
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def links() -> list[tuple[str, str]]:
    """(page, target) of every link that leads nowhere outside."""
    return [
        (str(page.relative_to(ROOT)), target)
        for page in PAGES
        for target in dict.fromkeys(LINK.findall(page.read_text()))
        if "://" not in target
    ]


def anchors(page: Path) -> set[str]:
    """What a page's headings are called in links."""
    shown = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", shown, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    place = page.parent / path if path else page
    return place.exists() and (not anchor or anchor in anchors(place))


@pytest.mark.parametrize(("page", "target"), links())
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    assert leads(ROOT / page, target)


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `name`, and more\n```sh\n# no heading\n```\n")
    assert leads(page, "#a-name-and-more")
    assert leads(page, "page.md")
    assert not leads(page, "#no-heading")
    assert not leads(page, "other.md")
