"""Check a built site: every internal link and anchor exists, and no page loads anything from the network.

    python docs/check_site.py docs/_build/html

Prints what is wrong, one line each, and ends with status 1 if there is anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it opens a page; a link that people click may lead anywhere.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
NOT_FETCHED = {"canonical", "author", "license", "search", "index", "next", "prev"}  # relations of <link>


class Page(HTMLParser):
    """The links, fetched addresses and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src"):
            if name not in values:
                continue
            fetched = (tag, name) in FETCHED and values.get("rel", "") not in NOT_FETCHED
            (self.fetched if fetched else self.links).append(values[name])


def find_problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the site in a folder."""
    folder = folder.resolve()
    files = (path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts)  # the theme's templates
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    if not pages:
        yield f"{folder} has no pages"
    for path, page in pages.items():
        where = path.relative_to(folder)
        for address in page.fetched:
            if urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc:
                yield f"{where}: loads {address} from the network"
        for address in [*page.links, *page.fetched]:
            if _is_broken(address, path, pages):
                yield f"{where}: {address} leads nowhere"


def _is_broken(address: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return True
    anchor = unquote(parts.fragment)
    return bool(anchor) and target in pages and anchor not in pages[target].anchors


def main() -> int:
    """Check the site that the first argument names."""
    problems = list(find_problems(Path(sys.argv[1])))
    print("\n".join(problems) if problems else "Every internal link works; nothing is loaded from the network.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
