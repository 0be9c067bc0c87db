"""What every page has: title, places to go, the place for what is said, and how troubles are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from nicegui import app, ui

from dojo.content.catalog import Trouble, UnknownKata
from dojo.verdict.page import html
from dojo.web.controls import text

PLACES = {
    "/": "Katas",
    "/paths": "Orders",
    "/plan": "Plan",
    "/interviews": "Interviews",
    "/report": "Report",
    "/rules": "House rules",
}
STYLE = Path(__file__).with_name("style.css")
# Nothing may be typed where nothing keeps it; an editor must know when the system turns dark, and who hears the page
# what it is; and the keys that grade mean the same wherever the focus is.
SCRIPT = """<script>
addEventListener("DOMContentLoaded", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => emitEvent("scheme", dark.matches));
  setTimeout(() => emitEvent("scheme", dark.matches), 100);
  addEventListener("keydown", event => {
    if ((event.ctrlKey || event.metaKey) && ["Enter", "s"].includes(event.key) && !event.defaultPrevented) {
      event.preventDefault();
      emitEvent("grade");
    }
  });
  new MutationObserver(() => {
    for (const editor of document.querySelectorAll("[data-label] .cm-content:not([aria-label])")) {
      editor.ariaLabel = editor.closest("[data-label]").dataset.label;
      editor.tabIndex = 0;
    }
    const away = document.querySelector("#popup")?.ariaHidden === "false";
    if (document.body.inert !== away) { document.activeElement?.blur(); document.body.inert = away; }
  }).observe(document.body, {subtree: true, childList: true, attributes: true, attributeFilter: ["aria-hidden"]});
});
</script>"""


def install() -> None:
    """Add style and script to all pages."""
    app.config.quasar_config["loadingBar"] = {"skipHijack": True}  # it is no landmark, and has no name
    app.add_static_file(local_file=STYLE, url_path="/style.css")
    ui.add_head_html(f'<link rel="stylesheet" href="/style.css?{int(STYLE.stat().st_mtime)}">{SCRIPT}', shared=True)


def paged() -> None:
    """Add to this page the style of pages that stand alone, for what holds parts of them: an element of class paged."""
    ui.add_css(f".paged {{{html.render('verdict/page/page.css')}}}")


@contextmanager
def frame(title: str, here: str = "") -> Iterator[None]:
    """A page of this title, of one of the places; what is made within stands below the heading line."""
    ui.page_title(f"{title} · dojo" if title != "dojo" else title)
    with ui.element("div").classes("skip"):
        ui.link("Skip to the content", "#content")
    with ui.element("header").classes("top"), ui.element("nav").props('aria-label="Places"'):
        for path, name in PLACES.items():
            link = ui.link(name, path)
            if path == here:
                link.props("aria-current=page")
    with ui.element("div").classes("content").props("id=content tabindex=-1"):
        yield


def told(page: Callable[..., Any]) -> Callable[..., Any]:
    """A page of which a Trouble is told in a sentence, with the way back."""

    @wraps(page)
    async def telling(*args: Any, **kwargs: Any) -> None:
        try:
            made = page(*args, **kwargs)
            if made is not None:
                await made
        except Trouble as trouble:
            with frame("Not here" if isinstance(trouble, UnknownKata) else "Trouble"):
                heading("This cannot be shown")
                ui.label(str(trouble))
                ui.link("All katas", "/")

    return telling


def heading(words: str, level: int = 1) -> ui.element:
    """A heading, as text."""
    return text(f"h{level}", words)


@contextmanager
def fold(title: str, opened: bool = False) -> Iterator[ui.element]:
    """What is made within can be folded out below this title."""
    with ui.element("details").props("open" if opened else "") as made:
        text("summary", title)
        yield made


def say(words: str, kind: Literal["info", "bad"] = "info") -> None:
    """Tell the user something in passing; screen readers say it too."""
    ui.notify(words, type="negative" if kind == "bad" else kind, timeout=6000, multi_line=True)
