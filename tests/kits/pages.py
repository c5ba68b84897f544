"""Reads the pages of the documentation: their tables, code blocks, links and headings."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

with_pages = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not here")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def code_blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return [text for found, text in _BLOCK.findall(path.read_text()) if found == language]


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return _BLOCK.sub("", path.read_text())


def links(path: Path) -> list[str]:
    """The targets of a page's links, outside code."""
    return _LINK.findall(prose(path))


def anchors(path: Path) -> set[str]:
    """What the headings of a page can be linked to by."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(prose(path))
    }


def tables(path: Path, section: str | None = None) -> list[list[list[str]]]:
    """The tables of a page, or of what stands below a heading (with its `#`): rows of cells, no line of dashes."""
    text = prose(path)
    if section is not None:
        _, _, text = text.partition(f"\n{section}\n")
        text = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
            inside = True
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not all(re.fullmatch(r"-+", cell) for cell in cells):
            found[-1].append(cells)
    return found
