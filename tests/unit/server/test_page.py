"""The page's files: what leads to what, what is told with them; nothing else is to be had."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
import yarl

from edge_runtime.events import Final, Partial
from edge_runtime.metrics.recent import KEPT
from edge_runtime.server import page
from edge_runtime.server.door import DOORS

FILES = page.files()
OURS = {name for name in FILES if not name.startswith("uplot")}
TEXT = {name: file.body.decode() for name, file in FILES.items()}


class Tags(HTMLParser):
    """Every tag with its attributes, and whether scripts and styles have text of their own."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.inline = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in {"script", "style"} and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def index():
    tags = Tags()
    tags.feed(TEXT["index.html"])
    return tags


def led_to():
    """The names that files of the page mention as theirs."""
    mentioned = re.compile(r"""["'(](?:/page/|\./)([\w.-]+\.\w+)["')]""")
    return {found for name in OURS for found in mentioned.findall(TEXT[name])}


def test_every_file_that_is_mentioned_is_there_and_the_others_are_not():
    assert led_to() == set(FILES) - {"index.html", "uplot.license.txt"}


def test_nothing_is_fetched_from_elsewhere():
    address = re.compile(r"(?:https?|wss?)://[^\s\"'`]+")
    assert {found for name in OURS for found in address.findall(TEXT[name])} == {
        "http://www.w3.org/2000/svg",  # a name, not an address
        # what a reader is told to open
        "https://${hostname}:${at},",
        "http://localhost:${at}.",
    }
    assert "http" not in re.sub(r"/\*!.*?\*/", "", TEXT["uplot.min.js"] + TEXT["uplot.min.css"])


def test_no_script_style_or_handler_is_inline(index):
    assert not index.inline
    for tag, attributes in index.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


def test_every_control_has_a_name(index):
    for tag, attributes in index.tags:
        if tag in {"meter", "progress"}:
            assert attributes["aria-label"]
        if tag == "button":
            assert attributes["type"] in {"button", "submit"}
        if tag == "img":
            assert "alt" in attributes


async def test_it_is_served_with_what_keeps_it_to_itself(house):
    server = await house()
    async with server.http.get(f"{server.url}/") as answer:
        assert answer.status == 200
        assert (answer.content_type, answer.charset) == ("text/html", "utf-8")
        assert await answer.read() == FILES["index.html"].body
        policy = dict(
            part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
        )
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Permissions-Policy"].startswith("microphone=(self)")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("app.js", "text/javascript"),
        ("style.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
        ("uplot.license.txt", "text/plain"),
    ],
)
async def test_files_have_their_types_and_are_sent_again_only_when_they_changed(house, name, kind):
    server = await house()
    url = f"{server.url}/page/{name}"
    async with server.http.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, kind)
        assert await answer.read() == FILES[name].body
        assert answer.headers["Cache-Control"] == "no-cache"
        tag = answer.headers["ETag"]
    for told, status in ((tag, 304), (f'"other", {tag}', 304), ('"other"', 200)):
        async with server.http.get(url, headers={"If-None-Match": told}) as answer:
            assert answer.status == status
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert bool(await answer.read()) == (status == 200)
    async with server.http.head(url) as answer:
        assert (answer.status, answer.headers["ETag"]) == (200, tag)


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/nothing.js",
        "/page/../server/page.py",
        "/page/..%2fserver%2fpage.py",
        "/page/%2e%2e/errors.py",
        "/page/..%5cerrors.py",
        "/page/%2fetc%2fpasswd",
        "/page/app.js%00",
        "/page/./app.js/../../errors.py",
        "/page/APP.JS",
    ],
)
async def test_no_other_file_is_to_be_had(house, path):
    server = await house()
    async with server.http.get(yarl.URL(server.url + path, encoded=True)) as answer:
        assert answer.status == 404
        assert "import" not in await answer.text()


async def test_it_is_shown_without_a_key_but_figures_are_not(house):
    server = await house(admitting={"keys": "always"})
    elsewhere = {"X-Forwarded-For": "192.0.2.7"}
    for path, status in (("/", 200), ("/page/app.js", 200), ("/page/updates", 401)):
        async with server.http.get(f"{server.url}{path}", headers=elsewhere) as answer:
            assert answer.status == status
    assert server.app[DOORS]["/page/updates"] == server.app[DOORS]["/metrics"]


async def test_a_name_that_is_not_its_own_is_explained_at_once(house):
    server = await house(admitting={"origins": "https://captions.example.org"})
    for host, status in (
        ("127.0.0.1:80", 200),
        ("192.0.2.1", 200),
        ("captions.example.org", 200),
        ("evil.example", 403),
    ):
        async with server.http.get(f"{server.url}/", headers={"Host": host}) as answer:
            assert answer.status == status
            assert (status == 200) == (await answer.read() == FILES["index.html"].body)
    assert (
        "by the name evil.example."
        in await (await server.http.get(f"{server.url}/", headers={"Host": "evil.example"})).text()
    )


async def test_the_last_updates_are_told_one_by_one(house):
    server = await house()
    cost = SimpleNamespace(
        queue=0.001,
        encode=0.02,
        draft=0.003,
        decode=0.004,
        drafted=3,
        accepted=2,
        bonus=1,
        produced=4,
        passes=2,
    )
    for purpose in ("partial", "partial", "speculative"):
        server.metrics.update(purpose, cost)
    said = Partial(segment=1, stable="", unstable="secret", start=0.0, end=1.0)
    server.metrics.sent(said, 10, 0.005)
    final = Final(segment=1, turn=1, reason="stop", text="", start=0.0, end=1.0, logprob=0.0)
    server.metrics.sent(final, 10, 0.006)
    server.metrics.sent(final, 10, 0.007)  # of another update, which is long forgotten
    async with server.http.get(f"{server.url}/page/updates") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        updates = (await answer.json())["updates"]
    stages = {"queue": 0.001, "encode": 0.02, "draft": 0.003, "decode": 0.004}
    assert updates == [
        {"number": 1, "purpose": "partial", **stages, "emit": None},
        {"number": 2, "purpose": "partial", **stages, "emit": 0.005},
        {"number": 3, "purpose": "speculative", **stages, "emit": 0.006},
    ]
    for _ in range(2 * KEPT):
        server.metrics.update("final", cost)
    assert [each.number for each in server.metrics.recent] == list(range(KEPT + 4, 2 * KEPT + 4))
