"""The tables and lists of a page as a reader sees them, of markdown and of HTML alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from tests.github_markdown import GFM

ZWSP = "\u200b"


@dataclass
class Cell:
    """One cell: its text, whether it stands to the right, and its parts that are code."""

    text: str = ""
    right: bool = False
    code: list[str] = field(default_factory=list)


@dataclass
class Shown:
    """What one page shows."""

    tables: list[list[list[Cell]]] = field(default_factory=list)  # rows of cells, the head first
    paragraphs: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)  # of lists, and of descriptions: "name: text"

    def table(self, *head: str) -> list[list[Cell]]:
        """Return the only table with this head."""
        (found,) = [t for t in self.tables if [cell.text for cell in t[0]] == list(head)]
        return found


class _Reader(HTMLParser):
    """Collects tables, paragraphs and lists."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = Shown()
        self.open: list[str] = []
        self.text = ""  # since the last paragraph, cell or item began

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "table":
            self.shown.tables.append([])
        elif tag == "tr":
            self.shown.tables[-1].append([])
        elif tag in ("td", "th"):
            right = ("class", "n") in attrs or ("style", "text-align:right") in attrs
            self.shown.tables[-1][-1].append(Cell(right=right))
        elif tag == "code" and self._cell() is not None:
            self.shown.tables[-1][-1][-1].code.append("")
        if tag in ("td", "th", "p", "li", "dt"):
            self.text = ""

    def handle_data(self, data: str) -> None:
        data = data.replace(ZWSP, "")
        self.text += data
        cell = self._cell()
        if cell is not None:
            cell.text += data
            if "code" in self.open:
                cell.code[-1] += data

    def handle_endtag(self, tag: str) -> None:
        while self.open.pop() != tag:  # an element without an end
            pass
        if tag == "p":
            self.shown.paragraphs.append(self.text.strip())
        elif tag in ("li", "dd"):
            self.shown.items.append(self.text.strip())
        elif tag == "dt":
            self.text += ": "

    def _cell(self) -> Cell | None:
        inside = "td" in self.open or "th" in self.open
        return self.shown.tables[-1][-1][-1] if inside else None


def of_html(page: str) -> Shown:
    """Return what a page shows."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    for table in reader.shown.tables:
        for cell in (cell for row in table for cell in row):
            cell.text = cell.text.strip()
    return reader.shown


def of_markdown(body: str) -> Shown:
    """Return what a body shows where its markdown is rendered."""
    return of_html(GFM.render(body))
