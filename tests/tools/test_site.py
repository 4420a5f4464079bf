"""The documentation site is whole, works offline, and can be searched from file://."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
TOOLS = TREE / "tools"
HAS_SPHINX = shutil.which("sphinx-build") and shutil.which("mandoc") and subprocess.run(
    [sys.executable, "-c", "import myst_parser"], check=False, capture_output=True).returncode == 0
needs_sphinx = pytest.mark.skipif(not HAS_SPHINX, reason="there is no Sphinx with MyST, or no mandoc: `make site`")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([TOOLS / "site.py", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr
    return folder / "html"


def search(site, word):
    """What a browser shows for WORD, without a server."""
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={site.parent}/browser",
                           "--virtual-time-budget=8000", "--dump-dom", f"file://{site}/search.html?q={word}"],
                          capture_output=True, text=True, check=True, timeout=120)
    results = done.stdout.partition('id="search-results"')[2].partition('class="sphinxsidebar"')[0]
    return re.findall(r'<li[^>]*><a href="([^"#?]*)', results)


@needs_sphinx
def test_the_site(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    wanted = {f"{path.relative_to(TREE).with_suffix('.html')}" for path in TREE.glob("docs/**/*.md")}
    wanted |= {f"man/{path.name}.html" for path in TREE.glob("man/*.[0-9]")}
    assert wanted <= pages
    # Pictures, tables with heads, links among manual pages, and the recording.
    shown = {name for path in TREE.glob("docs/**/*.md") for name in re.findall(r"images/([\w-]+\.png)", path.read_text())}
    assert shown and shown == {path.name for path in (site / "_images").iterdir()}
    assert '<a class="Xr" href="cloister-profile.1.html">' in (site / "man/cloister-run.1.html").read_text()
    recording = (site / "docs/recording/README.html").read_text()
    assert 'id="cast-data">[[' in recording and "PROVED" in recording
    # Every page is reached from the first one.
    index = (site / "index.html").read_text()
    assert all(f'href="{page}"' in index for page in wanted)
    # The index of the search is a script, which a browser loads from file:// too.
    assert (site / "searchindex.js").read_text().startswith("Search.setIndex(")
    if shutil.which("chromium"):
        found = search(site, "tripwires")
        assert "docs/tripwires.html" in found and search(site, "nosuchwordanywhere") == []


@needs_sphinx
def test_a_dead_link_in_a_document_is_an_error(tmp_path):
    """Sphinx knows places in other documents."""
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\nmyst_heading_anchors = 4\nroot_doc = "index"\n')
    (tmp_path / "index.md").write_text("# One\n\n[a link](#nowhere)\n")
    done = subprocess.run(["sphinx-build", "-W", "-q", "-b", "html", tmp_path, tmp_path / "html"], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and "nowhere" in done.stderr


@pytest.mark.parametrize("body, complaint", [
    ('<a href="b.html#here">b</a> <a href="https://example.org/">away</a> <img src="x.png">', None),
    ('<a href="c.html">c</a>', "a.html: dead link: c.html"),
    ('<a href="b.html#there">b</a>', "a.html: no such place: b.html#there"),
    ('<a href="#top">b</a>', "a.html: no such place: #top"),
    ('<img src="y.png">', "a.html: dead link: y.png"),
    ('<script src="https://cdn.example.org/x.js"></script>', "a.html: fetches https://cdn.example.org/x.js"),
])
def test_dead_links_in_pages_are_found(tmp_path, body, complaint):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "x.png").write_bytes(b"")
    done = subprocess.run([TOOLS / "check_links.py", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == ((1, f"{complaint}\n") if complaint else (0, ""))
