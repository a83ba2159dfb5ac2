"""Each page of the site in headless Chromium, at the width of a desktop and of a phone, light and dark.

Without CUSTOMOPS_SITE and CUSTOMOPS_BROWSER, which `make test-docs` sets, there is nothing to look at.
CUSTOMOPS_SCREENSHOTS=FOLDER keeps what the browser saw.
"""

import functools
import http.server
import os
import threading
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

SITE = Path(os.environ["CUSTOMOPS_SITE"])
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
VIEWS = {"desktop": (1280, "light"), "phone": (390, "dark")}

PROBLEMS = """() => {
  const width = document.documentElement.clientWidth, found = [];
  const shown = element => element.getClientRects().length > 0;
  for (const image of document.images)
    if (shown(image) && !(image.complete && image.naturalWidth > 0)) found.push(`broken image: ${image.src}`);
  for (const image of document.images)
    if (!image.alt) found.push(`image without a description: ${image.src}`);
  for (const table of document.querySelectorAll("table")) {
    const box = table.getBoundingClientRect();
    if (shown(table) && (box.right > width + 1 || box.left < -1))
      found.push(`table wider than the page: ${table.innerText.slice(0, 60)} (${Math.round(box.left)} to ${Math.round(box.right)} of ${width})`);
    const frame = table.closest(".md-typeset__scrollwrap");
    if (frame && frame.scrollWidth > frame.clientWidth + 1) found.push(`table wider than its column: ${table.innerText.slice(0, 60)}`);
    const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode());)
      for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].filter(r => r.width > 0).map(r => Math.round(r.top)));
        if (lines.size > 1) found.push(`word of a table on two lines: ${word[0]}`);
      }
  }
  for (const code of document.querySelectorAll("pre > code"))
    if (shown(code) && code.innerText.trim() !== code.textContent.trim())
      found.push(`code that is shown with other line ends than it has: ${code.textContent.slice(0, 60)}`);
  if (document.documentElement.scrollWidth > width + 1)
    found.push(`the page scrolls sideways: ${document.documentElement.scrollWidth} of ${width}`);
  return found;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address():
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:  # its user data folder is new and empty
        browser = playwright.chromium.launch(
            executable_path=os.environ["CUSTOMOPS_BROWSER"], args=FLAGS, chromium_sandbox=False
        )
        yield browser
        browser.close()


def look(browser, url: str, view: str, picture: str = "") -> list[str]:
    """What is wrong with a page."""
    width, scheme = VIEWS[view]
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = []
    page.on("console", lambda m: found.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(f"exception: {error}"))
    page.on("response", lambda r: found.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
    page.on("requestfailed", lambda request: found.append(f"not loaded: {request.url}"))
    page.goto(url, wait_until="networkidle")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(
        "Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode().catch(() => 0); }))"
    )
    found += page.evaluate(PROBLEMS)
    if picture:
        page.screenshot(path=picture, full_page=True)
    page.close()
    return found


def test_there_are_pages():
    assert {"index.html", "install/index.html", "api/index.html", "performance/index.html"} <= set(PAGES)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", PAGES)
def test_page(browser, address, name, view):
    folder = os.environ.get("CUSTOMOPS_SCREENSHOTS", "")
    picture = (
        f"{folder}/{name.removesuffix('/index.html').removesuffix('.html').replace('/', '-')}-{view}.png"
        if folder
        else ""
    )
    assert not look(browser, address + name, view, picture)


BROKEN = """<!doctype html><title>x</title><link rel=icon href=data:,>"""


@pytest.mark.parametrize(
    "content, problem",
    [
        ("<script>console.error('wrong')</script>", "console"),
        ("<script>undefined_name</script>", "exception"),
        ("<img src=missing.png alt=x>", "broken image"),
        ("<img src=data:image/gif;base64,R0lGODlhAQABAAAAACw=>", "without a description"),
        ("<table style='width:3000px'><tr><td>x</table>", "table wider"),
        (
            "<table style='width:5em; overflow-wrap:anywhere'><tr><td>depthwise convolution</table>",
            "on two lines: convolution",
        ),
        ("<pre><code><span style='display:block'>make</span> wheel</code></pre>", "other line ends"),
        ("<p style='width:3000px'>x", "sideways"),
    ],
)
def test_broken_pages_are_found(browser, tmp_path, content, problem):
    """The checks above can fail."""
    (tmp_path / "page.html").write_text(BROKEN + content)
    assert any(problem in line for line in look(browser, (tmp_path / "page.html").as_uri(), "phone"))
    (tmp_path / "page.html").write_text(BROKEN + "<p>fine")
    assert not look(browser, (tmp_path / "page.html").as_uri(), "phone")
