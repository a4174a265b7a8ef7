"""The page in a real browser, with the real model: for eyes, for keyboards, without outsiders."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

from edge_runtime.server.keys import Keys
from tests.browser import tab

CLIP = "1867-154075-0005"
FIRST, SECOND = "That's a likely story.", "I can show you the tracks."

FINALS = "[...document.querySelectorAll('.finals p')].map((line) => line.textContent)"
CLICK = "document.getElementById('{}').click()"
STATE = "document.getElementById('captions').dataset.session"


def words(lines):
    """What was said, however it is written: live, that depends on when the words came."""
    return re.findall(r"[a-z']+", " ".join(lines).lower())


async def click(page, name):
    await page.evaluate(CLICK.format(name))


async def drop(page, file):
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        await page.call("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)
        shown = await page.evaluate("!document.getElementById('drop').hidden")
        assert shown == (kind != "drop")


async def test_what_is_said_appears_and_what_may_change_is_marked(page, server):
    await click(page, "listen")
    # while it is said: marked by more than its colour
    unstable = await page.until(
        """(() => {
          const shown = document.querySelector("#live:not([hidden]) .unstable");
          if (!shown?.textContent) return null;
          const style = getComputedStyle(shown);
          return [style.fontStyle, style.textDecorationLine];
        })()"""
    )
    assert unstable == ["italic", "underline"]
    await page.until("document.querySelector('#live .stable')?.textContent.length > 3")
    stable = "getComputedStyle(document.querySelector('#live .stable'))"
    assert await page.evaluate(f"[{stable}.fontStyle, {stable}.textDecorationLine]") == [
        "normal",
        "none",
    ]
    await page.until(f"{FINALS}.length === 2")
    await click(page, "listen")
    await page.until(f"{STATE} === undefined")
    assert words(await page.evaluate(FINALS)) == words([FIRST, SECOND])
    kinds = await page.evaluate("heard.map(({type}) => type)")
    assert (kinds[0], kinds[-1]) == ("ready", "closed")

    # what the server did for it
    await page.until("document.querySelectorAll('#waterfall li').length > 3")
    said = await page.evaluate("document.querySelector('#waterfall .bar').ariaLabel")
    assert said.startswith("queue ")
    assert ", decode " in said
    await page.until("document.querySelectorAll('#charts canvas').length >= 5")
    facts = await page.evaluate("document.getElementById('facts').innerText")
    assert "moonshine-tiny-en, fp32" in facts
    assert "of 32" in facts

    # as text
    assert await page.evaluate("!document.getElementById('save').disabled")
    blob = (
        "URL.createObjectURL = (made) => { made.text().then((text) => saved = text); return '#' }"
    )
    await page.evaluate(f"window.saved = ''; {blob}")
    await click(page, "save")
    saved = await page.until("saved")
    assert words([saved]) == words([FIRST, SECOND])
    assert saved.count("\n") == 2

    assert page.console == []
    assert await page.evaluate("violations") == []
    assert {urlsplit(url).netloc for url in page.requests if not url.startswith("blob:")} == {
        urlsplit(server.url).netloc
    }


async def test_files_give_their_text_chosen_and_dropped(page, clip, spoken_file):
    wav = clip(spoken_file)
    document = await page.call("DOM.getDocument")
    chosen = await page.call(
        "DOM.querySelector", nodeId=document["root"]["nodeId"], selector="#file"
    )
    await page.call("DOM.setFileInputFiles", nodeId=chosen["nodeId"], files=[str(wav)])
    await page.until(f"{FINALS}.length === 2 && {STATE} === undefined")

    await drop(page, spoken_file)
    await page.until(f"{FINALS}.length === 4 && {STATE} === undefined")
    assert await page.evaluate(FINALS) == 2 * [FIRST, SECOND]
    titles = await page.evaluate(
        "[...document.querySelectorAll('.recording h3')].map((title) => title.textContent)"
    )
    assert titles == [f"{CLIP}.wav, 0:04", f"{CLIP}.flac, 0:04"]  # FLAC goes as well
    assert page.console == []
    assert await page.evaluate("violations") == []


async def test_a_file_without_sound_is_said_to_be_one(page, tmp_path):
    nothing = tmp_path / "letter.txt"
    nothing.write_text("no sound")
    await drop(page, nothing)
    said = await page.until("document.querySelector('#trouble:not([hidden])')?.innerText")
    assert "finds no sound in letter.txt" in said
    assert "WAV, MP3" in said
    assert await page.evaluate("!document.getElementById('listen').disabled")


async def test_it_comes_back_when_the_server_does_and_keeps_what_was_said(page, server):
    await click(page, "listen")
    await page.until(f"{FINALS}.length === 1")
    server.kill()  # the second sentence is on its way
    said = await page.until("document.querySelector('#trouble:not([hidden])')?.innerText")
    assert "connection to the server is lost" in said
    assert words(await page.evaluate(FINALS)) == words([FIRST])
    await asyncio.to_thread(server.start)
    await page.until(f"{STATE} === 'open'")
    # it was said while nobody was there
    await page.until(f"{FINALS}.length === 2")
    await click(page, "listen")
    await page.until(f"{STATE} === undefined")
    assert words(await page.evaluate(FINALS)) == words([FIRST, SECOND])
    assert await page.evaluate("document.getElementById('trouble').hidden")


async def test_a_lost_connection_is_taken_up_in_the_same_session(page):
    await click(page, "listen")
    await page.until("heard.some(({type}) => type === 'partial')")
    await page.evaluate("sockets.at(-1).close(4000)")
    await page.until(f"sockets.length === 2 && {STATE} === 'open'")
    await page.until(f"{FINALS}.length === 2")
    await click(page, "listen")
    await page.until(f"{STATE} === undefined")
    assert words(await page.evaluate(FINALS)) == words([FIRST, SECOND])
    heard = await page.evaluate("heard")
    greetings = [event for event in heard if event["type"] == "ready"]
    assert len(greetings) == 2
    assert len({event["session"] for event in greetings}) == 1
    new = [event["seq"] for event in heard if event not in greetings[1:]]
    assert new == list(range(1, len(new) + 1))


async def test_a_page_that_is_left_ends_its_session(page, server):
    await click(page, "listen")
    await page.until(f"{STATE} === 'open'")
    await page.call("Page.navigate", url=f"{server.url}/readyz")
    await page.until("location.pathname === '/readyz'")
    look = "fetch('/healthz').then((answer) => answer.json()).then(({ sessions }) => sessions.open)"
    await page.until(f"{look}.then((open) => open === 0)")


async def test_without_https_the_microphone_is_for_this_machine_and_files_are_for_all(
    browser, server, machine, spoken_file
):
    async with tab(browser) as page:
        await page.open(f"http://{machine}:{server.port}/")
        await click(page, "listen")
        said = await page.until("document.querySelector('#trouble:not([hidden])')?.innerText")
        assert "only to pages over https" in said
        assert "--tls-cert" in said
        assert f"ssh -L {server.port}:localhost:{server.port} {machine}" in said
        await drop(page, spoken_file)
        await page.until(f"{FINALS}.length === 2")
        assert page.console == []


async def test_the_keyboard_reaches_every_control_and_shows_where_it_is(page):
    reached = set()
    wanted = set(
        await page.evaluate(
            "[...document.querySelectorAll('button:not(:disabled), a, [tabindex=\"0\"]')]"
            ".filter((each) => each.checkVisibility()).map((each) => each.id || each.className)"
        )
    )
    assert {"listen", "choose", "key", "paper", "skip"} <= wanted
    for _ in range(len(wanted) + 2):
        await page.press("Tab", 9)
        name, outline = await page.evaluate(
            "[document.activeElement.id || document.activeElement.className,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.add(name)
        assert outline == "solid" or not name
    assert wanted <= reached

    await page.evaluate("document.getElementById('listen').focus()")
    await page.press("Enter", 13)
    await page.until(f"{STATE} === 'open'")
    await page.press(" ", 32)
    await page.until(f"{STATE} === undefined")

    await page.evaluate("document.getElementById('key').focus()")
    await page.press("Enter", 13)
    await page.until("document.activeElement.id === 'ask-key'")
    await page.press("Escape", 27)
    await page.until("!document.getElementById('ask').open")


async def test_a_microphone_that_is_refused_is_explained(page):
    await page.evaluate(
        "navigator.mediaDevices.getUserMedia = () =>"
        " Promise.reject(new DOMException('no', 'NotAllowedError'))"
    )
    await click(page, "listen")
    said = await page.until("document.querySelector('#trouble:not([hidden])')?.innerText")
    assert "may not use the microphone" in said
    assert "Allow it" in said
    await page.evaluate(
        "navigator.mediaDevices.getUserMedia = () =>"
        " Promise.reject(new DOMException('no', 'NotFoundError'))"
    )
    await click(page, "listen")
    await page.until("document.getElementById('trouble').innerText.includes('no microphone')")


async def test_nothing_else_may_run_or_be_called(page):
    await page.evaluate(
        """(() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", "<p style='color: red'>");
        })()"""
    )
    assert await page.evaluate("fetch('http://127.0.0.2:9/').catch((error) => error.name)") == (
        "TypeError"
    )
    assert await page.evaluate("window.ran") is None
    assert set(await page.until("violations.length >= 3 && violations")) == {
        "script-src-elem",
        "style-src-attr",
        "connect-src",
    }


async def test_it_asks_for_a_key_where_the_server_does(page, server):
    # the last test: from the first key on a server asks for one
    key = Keys(server.keys).add("page")
    # as another machine, by a proxy's word
    elsewhere = {"X-Forwarded-For": "192.0.2.7"}
    await page.call("Network.setExtraHTTPHeaders", headers=elsewhere)
    page.console.clear()
    await page.open(f"{server.url}/")
    await page.until("document.getElementById('note').textContent.includes('asks for a key')")
    facts = await page.evaluate("document.getElementById('facts').innerText")
    assert "whoever has a key" in facts
    assert "moonshine" not in facts
    assert await page.evaluate("!document.getElementById('no-figures').hidden")
    assert page.console == []  # nothing was asked for in vain

    await click(page, "listen")
    await page.until("document.getElementById('ask').open")
    assert "A key is needed" in await page.evaluate("document.getElementById('trouble').innerText")
    await page.evaluate(f"document.getElementById('ask-key').value = {key!r}")
    await click(page, "ask-use")
    await page.until("document.getElementById('facts').innerText.includes('moonshine-tiny-en')")
    await click(page, "listen")
    await page.until(f"{FINALS}.length === 1")
    assert await page.evaluate("document.getElementById('note').textContent") == ""
    assert key not in "".join(page.requests)
