"""Pages lead where they say, and to every page leads one."""

import ast
from pathlib import Path

import pytest

from tests.kits.pages import PAGES, ROOT, anchors, code_blocks, links, prose, with_pages

pytestmark = with_pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in links(page):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in links(index)}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.parent.name != "changes"}

    assert sorted(pages - linked - {index}) == []
    assert {path.resolve() for path in (ROOT / "examples").glob("*.py")} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title_and_no_trailing_space(page: Path) -> None:
    lines = page.read_text().splitlines()
    titles = [line for line in prose(page).splitlines() if line.startswith("# ")]

    assert len(titles) == (0 if page.parent.name == "changes" else 1)
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_is_python(page: Path) -> None:
    """Blocks with prompts run as doctests; the others at least parse."""
    for block in code_blocks(page, "python"):
        if not block.startswith(">>>"):
            ast.parse(block)
