#!/usr/bin/python3
"""check_links.py - finds dead links in a folder of HTML pages, and whatever they would fetch from elsewhere.

    check_links.py FOLDER

Links to other sites are not followed, but scripts, styles and pictures from there are reported: the pages have to work
offline."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links of a page, its anchors, and what it fetches."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.fetched = [], {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in FETCHED and attrs.get(FETCHED[tag]):
            self.fetched.append(attrs[FETCHED[tag]])


def faults(folder):
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for target in page.links + page.fetched:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                if target in page.fetched:
                    yield path, f"fetches {target}"
                continue
            to = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not to.exists():
                yield path, f"dead link: {target}"
            elif to in pages and unquote(url.fragment) not in pages[to].anchors:
                yield path, f"no such place: {target}"


def main():
    folder = Path(sys.argv[1]).resolve()
    found = list(faults(folder))
    for path, fault in found:
        print(f"{path.relative_to(folder)}: {fault}")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
