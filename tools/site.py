#!/usr/bin/python3
"""site.py - builds the documentation site from docs/ and man/ with Sphinx: site.py FOLDER

The site is in FOLDER/html.  It needs no network and no server: search works from file:// too.  A link that leads nowhere
is an error, in the sources (Sphinx) and in the pages (check_links.py)."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TREE = TOOLS.parent
# What the pages link to, beside docs/ and man/.
MORE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "clients/js/README.md", "clients/python/README.md"]

CONF = """
project = "cloister"
author = "the authors of cloister"
version = release = {version!r}
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_ref_domains = ["std"]
smartquotes = False
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {{"description": "AI agents in throwaway cells", "fixed_sidebar": True, "page_width": "1180px",
                      "sidebar_width": "260px", "show_powered_by": False}}
templates_path = ["_templates"]
html_sidebars = {{"**": ["about.html", "searchbox.html", "contents.html"]}}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
# A page from file:// may not fetch others.
html_show_search_summary = False
highlight_language = "none"
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
"""

CSS = """
table.docutils { width: 100%; } table.docutils td, table.docutils th { vertical-align: top; }
div.body img { max-width: 100%; border: 1px solid #ccc; }
div.body { max-width: none; }
div.sphinxsidebar { overflow-y: auto; max-height: 96vh; } div.sphinxsidebar ul { list-style: none; margin: 0 0 0.5em 1em; }
div.sphinxsidebar summary { cursor: pointer; font-weight: bold; } div.sphinxsidebar a.current { font-weight: bold; }
pre.cast { background: #16181d; color: #e4e6eb; min-height: 30em; padding: 1em; font-size: 0.8em; white-space: pre-wrap; }
.cast-bold { font-weight: bold; } .cast-dim { opacity: 0.65; } .cast-red { color: #ff7b72; } .cast-green { color: #56d364; }
.manual-text dl { margin-left: 1em; } .manual-text .Bd-indent { margin-left: 2em; } .manual-text code { font-weight: bold; }
.manual-text h1.Sh { font-size: 1.4em; } .manual-text h2.Ss { font-size: 1.15em; } :is(table, div):is(.head, .foot) { display: none; }
"""

PLAYER = """
```{{raw}} html
<p><button id="cast-button"></button></p>
<pre class="cast" id="cast-screen"></pre>
<script type="application/json" id="cast-data">{data}</script>
<script>{player}</script>
```
"""


def version():
    return re.search(r'CLOISTER_VERSION "(.*)"', (TREE / "src/base/version.h").read_text())[1]


def copy_documents(place):
    shutil.copytree(TREE / "docs", place / "docs")
    for name in MORE:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, place / name)
    for page in place.rglob("*.md"):
        # Manual pages are pages of the site.
        page.write_text(re.sub(r"\]\(((?:\.\./)*man/[\w.-]+\.\d)\)", r"](\1.md)", page.read_text()))


def manual(page, names):
    """A page of man/ as HTML, with links among themselves only."""
    done = subprocess.run(["mandoc", "-Thtml", "-Ofragment,man=%N.%S.html", page], check=True, capture_output=True,
                          text=True)

    def link(found):
        return found[0] if found[1] in names else found[2]
    return re.sub(r'<a class="Xr" href="([^"]*)\.html">(.*?)</a>', link, done.stdout)


def write_manuals(place):
    """The names of the pages."""
    pages = sorted(TREE.glob("man/*.[0-9]"))
    names = {page.name for page in pages}
    (place / "man").mkdir()
    for page in pages:
        title = f"{page.stem}({page.suffix[1:]})"
        (place / "man" / f"{page.name}.md").write_text(f"# {title}\n\n```{{raw}} html\n{manual(page, names)}\n```\n")
    return [page.name for page in pages]


def add_player(place):
    """The recording plays in its own page, which may fetch nothing."""
    _, *events = map(json.loads, (TREE / "docs/recording/story.cast").read_text().splitlines())
    data = json.dumps(events).replace("<", "\\u003c")
    page = place / "docs/recording/README.md"
    head, _, rest = page.read_text().partition("\n\n")
    player = PLAYER.format(data=data, player=(TREE / "docs/recording/player.js").read_text())
    page.write_text(f"{head}\n{player}\n{rest}")


def contents(place):
    """(title, documents) of the parts of the site: the sections of docs/README.md, each page once."""
    seen = {"README"}
    for section in re.split(r"^## ", (place / "docs/README.md").read_text(), flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        names = []
        if title == "Recipes":          # the other pages that it names come in their own sections
            text = "](recipes/README.md)" + (place / "docs/recipes/README.md").read_text().replace("](", "](recipes/")
        for target in re.findall(r"\]\(([\w/.-]+\.md)", text):
            name = (place / "docs" / target).resolve().relative_to(place.resolve()).as_posix()[:-len(".md")]
            if name not in seen:
                seen.add(name)
                names.append(name)
        yield title, names
    rest = sorted(page.relative_to(place).as_posix()[:-len(".md")] for page in (place / "docs").rglob("*.md"))
    yield "More", [name for name in rest if name not in seen]


def tree(names):
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def write_index(place, parts):
    text = (place / "README.md").read_text()
    (place / "index.md").write_text(text + "".join(tree(names) for _, names in parts))
    (place / "README.md").write_text(f"---\norphan: true\n---\n{text}")


def write_sidebar(place, parts):
    """The contents of the site.  Sphinx would make them anew for each page, which takes a third of its time."""
    def item(name):
        title = re.search(r"^# (.*)$", (place / f"{name}.md").read_text(), flags=re.M)[1]
        return f"""<li><a href="{{{{ pathto('{name}') }}}}"{{% if pagename == '{name}' %}} class="current"{{% endif %}}>{title}</a>"""

    def part(title, names):
        is_open = "{% if pagename in " + repr(names) + " or pagename == 'index' %} open{% endif %}"
        return f"<details{is_open}><summary>{title}</summary><ul>" + "".join(map(item, names)) + "</ul></details>\n"
    (place / "_templates").mkdir()
    (place / "_templates/contents.html").write_text("".join(part(*each) for each in parts))


def build(folder):
    place = folder / "source"
    shutil.rmtree(folder, ignore_errors=True)
    (place / "_static").mkdir(parents=True)
    (place / "_static/site.css").write_text(CSS)
    (place / "conf.py").write_text(CONF.format(version=version()))
    copy_documents(place)
    add_player(place)
    manuals = [f"man/{name}" for name in write_manuals(place)]
    parts = [each for each in contents(place) if each[1]] + [("Manual pages", manuals)]
    write_index(place, parts)
    write_sidebar(place, parts)
    return subprocess.run(["sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "-d", folder / "doctrees", place,
                           folder / "html"], check=False).returncode


def main():
    folder = Path(sys.argv[1]).resolve()
    status = build(folder)
    if status == 0:
        status = subprocess.run([TOOLS / "check_links.py", folder / "html"], check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
