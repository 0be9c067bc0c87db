"""Makes the site: Sphinx with MyST and Furo over the pages in Markdown, as strict as they come.

Nothing is asked of another host: formulas are MathML, fonts are the reader's own, and the search runs in the browser.
"""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dojo.content import catalog
from dojo.content.catalog import ROOT, Trouble
from dojo.content.site import pages

NEEDS = ("furo", "latex2mathml", "myst_parser", "sphinx")
MADE = ".buildinfo"  # Sphinx leaves it in what it makes
STYLE = Path(__file__).with_name("site.css")
SETTINGS: dict[str, Any] = {
    "project": "dojo",
    "extensions": ["myst_parser", "sphinx.ext.githubpages"],  # the latter tells Pages that this is no Jekyll
    "language": "en",
    "html_theme": "furo",
    "html_title": "dojo",
    "html_static_path": ["_static"],
    "html_css_files": [STYLE.name],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_use_index": False,
    "html_show_copyright": False,
    "html_last_updated_fmt": None,
    "myst_heading_anchors": 6,  # as GitHub has them
    "suppress_warnings": ["misc.highlighting_failure"],  # a notebook's cell with `!git` is Python enough
}
MENDED = {  # what axe finds in pages of Sphinx and Furo: by what is to be replaced
    r'<(pre|div class="table-wrapper[^"]*")>': r'<\1 tabindex="0">',  # what scrolls can be reached by the keyboard
    r'<p class="caption" role="heading">': r'<p class="caption" role="heading" aria-level="2">',
    r'<aside class="sidebar-drawer">': r'<aside class="sidebar-drawer" aria-label="Pages">',
    r'<aside class="toc-drawer">': r'<aside class="toc-drawer" aria-label="On this page">',
    r'<div id="search-results">': r'<h1>Search</h1><div id="search-results">',
}


def site(folder: Path, root: Path = ROOT) -> str:
    """Make the site in a folder, and say in a line what was made.

    Raises Trouble where Sphinx or what it needs is missing, a page has a fault, or the folder holds something else.
    """
    if folder.exists() and not (folder / MADE).exists():
        raise Trouble(f"{folder} is not a site that was made here: move it away, then make the site again")
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        raise Trouble(
            f"the site needs {', '.join(missing)}, not installed here: `python -m pip install -e '.[site]'` in your "
            "clone brings it"
        )
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    begun, katas = time.monotonic(), catalog.katas(root)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".site-") as made:
        source, target = Path(made, "pages"), Path(made, "site")
        found = list(pages.pages(root, katas))
        for page in found:
            path = source / page.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page.text, "utf-8")
        (source / "_static").mkdir()
        shutil.copy(STYLE, source / "_static")
        warnings = io.StringIO()
        with patch_docutils(), docutils_namespace():
            Sphinx(
                srcdir=source,
                confdir=None,
                outdir=target,
                doctreedir=Path(made, "doctrees"),
                buildername="html",
                confoverrides=SETTINGS,
                status=sys.stdout if sys.stdout.isatty() else None,
                warning=warnings,
                freshenv=True,
            ).build()
        if said := re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).replace(f"{source}/", "").strip():
            raise Trouble(f"the site was not made, for pages have faults:\n{said}")
        _mend(target)
        if folder.exists():
            shutil.rmtree(folder)
        target.rename(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    seconds = time.monotonic() - begun
    return f"{len(found)} pages, {len(katas)} of them katas, {size:.0f} MB in {seconds:.0f} s: {folder / 'index.html'}"


def _mend(target: Path) -> None:
    """Mend in all pages what the theme leaves to be mended."""
    for page in target.rglob("*.html"):
        text = page.read_text("utf-8")
        for wrong, right in MENDED.items():
            text = re.sub(wrong, right, text)
        page.write_text(text, "utf-8")
