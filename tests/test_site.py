"""The site: a page for each kata and paper, nothing of an answer, no dead link, nothing from another host."""

from __future__ import annotations

import functools
import http.server
import re
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from dojo.content import catalog, master, proofs, stages
from dojo.content.catalog import ROOT, BrokenMaster, Kata, Trouble
from dojo.content.cells import read_text, split
from dojo.content.site import make, pages
from tests.conftest import chromium, in_browser

pytest.importorskip("latex2mathml", reason="latex2mathml is part of the test extra")
pytestmark = pytest.mark.filterwarnings("ignore:'myst_parser")

KATAS = catalog.katas()
PHONE, DESKTOP = 390, 1280
TELLING = 30  # characters that a line needs, to be no other's by chance
SEEN = ["index.html", "katas/attention/gqa.html", "katas/interviews/gpt_screen.html", "docs/house_rules.html",
        "README.html", "search.html?q=heads"]  # fmt: skip

each_kata = pytest.mark.parametrize("kata", KATAS.values(), ids=lambda kata: kata.name)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """The pages in Markdown, by path."""
    return {page.path: page.text for page in pages.pages(ROOT, KATAS)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, as it is made."""
    pytest.importorskip("sphinx", reason="sphinx is part of the test extra")
    folder = tmp_path_factory.mktemp("web") / "dojo"  # under the name of a project, as Pages has it
    make.site(folder)
    return folder


class Read(HTMLParser):
    """What a page says, the anchors that it has, where it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.words: list[str] = []
        self.anchors, self.links, self.loaded = set[str](), set[str](), set[str]()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a":
            self.links |= {found["href"]} if "href" in found else set()
        else:
            loads = ("src", "href", "srcset", "data", "poster", "action")
            self.loaded |= {found[name] for name in loads if name in found}
        self.loaded |= set(re.findall(r"url\(['\"]?([^'\")]*)", found.get("style", "")))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return plain("".join(self.words))


def plain(text: str) -> str:
    """A text without the signs of Markdown and the spaces: as it is told, in whatever form."""
    return re.sub(r"[\s*_`#>|\\-]", "", text)


def telling(texts: list[str], public: str) -> set[str]:
    """The lines that nobody knows but who has read the answer."""
    lines = {plain(line) for text in texts for line in text.splitlines()}
    return {line for line in lines if len(line) >= TELLING and line not in public}


# what all stubs and stages say: a larger kata has the signatures of smaller ones in its answer
PUBLIC = plain(
    "\n".join(
        text
        for kata in KATAS.values()
        for text in (master.stub_text(kata), *(f"{s.prompt}\n{s.contract}\n{s.signatures}" for s in stages.of(kata)))
    )
)


def secrets(kata: Kata) -> set[str]:
    """What is told of a kata only to those who ask for it: solution, hints, explanation and questions."""
    source = master.without_handed_out(read_text(kata.master))
    answers = re.findall(rf"{master.BEGIN}\n(.*?){master.END}", source, re.DOTALL)
    answers += [cell.prose for cell in split(source)[1] if {"hint", "solution", "signals"} & set(cell.tags)]
    return telling(answers, PUBLIC)


def bugs(kata: Kata) -> set[str]:
    """The names of a kata's known bugs."""
    known = proofs.bugs(kata)
    return telling([bug.name for bug in known], PUBLIC)


@each_kata
def test_a_page_has_all_that_the_kata_asks_for(written: dict[str, str], kata: Kata) -> None:
    text = written[pages.path_of(kata)]
    assert text.startswith(f"# {kata.title}\n")
    assert f"level {kata.level} of 5 · {kata.minutes} minutes" in text
    assert f"nox -s grade -- {kata.name} " in text
    topics = {topic for stage in stages.of(kata) for topic in master.topics_of(stage.contract)}
    for topic in topics or master.contract(kata):
        assert f"- **{topic}.**" in text
    for stage in stages.of(kata):
        assert stage.prompt.partition("\n")[0] in text
    for name in master.names(kata):
        assert name in text
    for source in kata.sources:
        assert master.linked(source) in text
    assert "$" not in re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def test_no_page_tells_an_answer(written: dict[str, str]) -> None:
    told = {path: plain(text) for path, text in written.items()}
    for kata in KATAS.values():
        hidden = secrets(kata)
        assert hidden, f"{kata.name} has no line to look for"
        for path, text in told.items():
            found = [line for line in hidden if line in text]
            assert not found, f"{path} tells of {kata.name}: {found[0]}"


def test_no_page_of_a_kata_tells_a_known_bug(written: dict[str, str]) -> None:
    told = {path: plain(text) for path, text in written.items() if path.startswith("katas/")}
    for kata in KATAS.values():
        for bug in bugs(kata):
            assert not [path for path, text in told.items() if bug in text], bug


def test_a_program_to_be_mended_is_not_on_its_page(written: dict[str, str]) -> None:
    for kata in KATAS.values():
        if kata.track == "debug" or kata.opens_with:
            assert "scores = q @ k.mT" not in written[pages.path_of(kata)]
            assert "The program to mend" in written[pages.path_of(kata)]


def test_every_paper_is_a_page_but_those_that_quote_answers(written: dict[str, str]) -> None:
    papers = {path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
    assert set(pages.QUOTE_ANSWERS) <= papers
    assert papers - set(pages.QUOTE_ANSWERS) <= set(written)
    contents = written["index.md"]
    assert all(f"\n{path.removesuffix('.md')}\n" in contents.replace("README <README>", "README")
               for path in papers - set(pages.QUOTE_ANSWERS))  # fmt: skip


def test_links_to_what_is_no_page_lead_to_the_repository(written: dict[str, str]) -> None:
    home = pages.repository(ROOT)
    found = [link for text in written.values() for link in re.findall(rf"{home}/(?:blob|tree)/main/([^)#]+)", text)]
    assert "docs/mutants.md" in found
    assert all((ROOT / path).exists() for path in found)
    assert "](docs/architecture.md)" in written["README.md"]


def test_a_formula_that_cannot_be_read_is_told_with_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "scenario", lambda kata: r"# Title" "\n\nIs $\\unheardof{x}$.")
    with pytest.raises(BrokenMaster, match=r"solutions/attention/gqa\.py: the formula .*unheardof"):
        pages._of_kata(KATAS["gqa"], KATAS)


def test_the_rows_of_wrong_answers_are_not_in_the_paper_that_explains_them(written: dict[str, str]) -> None:
    text = written["CONTRIBUTING.md"]
    assert "no shift by the maximum" not in text
    assert "These rows quote a solution" in text
    assert "A row is three lines or more" in text


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Trouble, match="not a site that was made here: move it away"):
        make.site(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(("text", "fault"), [("[a](gone.md)", "gone.md"), ("# A\n\n[a](#gone)", "gone")])
def test_a_dead_link_is_told_and_leaves_the_site_as_it_was(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sphinx", reason="sphinx is part of the test extra")
    (tmp_path / make.MADE).write_text("")
    (tmp_path / "index.html").write_text("the one before")
    monkeypatch.setattr(pages, "pages", lambda root, katas: [pages.Page("index.md", f"# Title\n\n{text}\n")])
    with pytest.raises(Trouble, match=rf"pages have faults:\nindex.md:\d+: WARNING: .*{fault}"):
        make.site(tmp_path)
    assert (tmp_path / "index.html").read_text() == "the one before"


def test_without_sphinx_it_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sphinx", None)
    with pytest.raises(Trouble, match=r"the site needs .*sphinx, not installed here: `python -m pip install"):
        make.site(tmp_path / "site")


def test_the_workflow_makes_the_site_as_a_contributor_does() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text("utf-8"))
    assert workflow[True]["push"] == {"branches": ["main"]}  # YAML 1.1 reads `on` as a truth value
    assert workflow["permissions"] == {"contents": "read"}
    build, deploy = workflow["jobs"]["build"], workflow["jobs"]["deploy"]
    assert "nox -s site" in [step.get("run") for step in build["steps"]]
    assert {"path": "site"} in [step.get("with") for step in build["steps"]]
    assert deploy["needs"] == "build"
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


@pytest.mark.proof
def test_every_link_and_anchor_of_the_built_site_is_there(built: Path) -> None:
    read = {path: Read(path) for path in built.rglob("*.html")}
    assert len(read) > len(KATAS)
    for path, page in read.items():
        for link in {*page.links, *page.loaded}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not link:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_relative_to(built), f"{path}: {link} leaves the site"
            assert target.exists(), f"{path}: {link} is not there"
            if parts.fragment and target in read:
                assert unquote(parts.fragment) in read[target].anchors, f"{path}: {link} has no such anchor"


@pytest.mark.proof
def test_nothing_is_loaded_from_another_host(built: Path) -> None:
    for path in built.rglob("*.html"):
        for address in Read(path).loaded:
            assert not re.match(r"(\w+:)?//|\w+:(?!image/)", address), f"{path} loads {address}"
        assert "mathjax" not in path.read_text("utf-8").lower()
    for path in built.rglob("*.css"):
        outside = re.findall(r"url\(['\"]?(?:https?:)?//[^)]*|@import[^;]*", path.read_text("utf-8"))
        assert not outside, f"{path} loads {outside}"


@pytest.mark.proof
def test_no_built_page_tells_an_answer(built: Path) -> None:
    told = {path: Read(path).text for path in built.rglob("*.html")}
    told[built / "searchindex.js"] = plain((built / "searchindex.js").read_text("utf-8"))
    assert not list(built.rglob("*.md*"))  # no sources beside the pages
    for kata in KATAS.values():
        hidden = secrets(kata)
        for path, text in told.items():
            assert not [line for line in hidden if line in text], f"{path} tells of {kata.name}"


@pytest.fixture(scope="module")
def served(built: Path) -> Iterator[str]:
    """The address of the site on a server of this machine, below the name of a project."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(built.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{built.name}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1") as started:
        yield started


@pytest.mark.proof
@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_pages_can_be_read_by_everybody_and_ask_no_other_host(browser, served: str, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    view = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    asked, broken = list[str](), list[str]()
    view.on("request", lambda request: asked.append(request.url))
    view.on("pageerror", lambda error: broken.append(str(error)))
    for name in SEEN:
        view.goto(f"{served}{name}", wait_until="networkidle")
        view.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found = Axe().run(view)
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"
    view.close()
    assert not [url for url in asked if not url.startswith((served, "data:"))]
    assert not broken


@pytest.mark.proof
@in_browser
def test_no_page_is_wider_than_a_phone(browser, built: Path, served: str) -> None:
    view = browser.new_page(viewport={"width": PHONE, "height": 844})
    for path in sorted(built.rglob("*.html")):
        view.goto(f"{served}{path.relative_to(built).as_posix()}")
        view.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert view.evaluate("document.documentElement.scrollWidth") <= PHONE, f"{path} is too wide"
        cut = view.evaluate(
            "width => [...document.querySelectorAll('article math')].filter(each => !each.closest('.formula') && "
            "each.getBoundingClientRect().right > width).map(each => each.textContent)",
            PHONE,
        )
        assert not cut, f"{path}: these formulas do not fit, and do not scroll: {cut}"
    view.close()


@pytest.mark.proof
@in_browser
def test_the_search_finds_a_kata_by_what_it_asks_for(browser, served: str) -> None:
    view = browser.new_page()
    view.goto(served)
    view.get_by_placeholder("Search").fill("grouped")
    view.keyboard.press("Enter")
    view.get_by_role("link", name="Grouped-query attention").last.click()
    assert view.get_by_role("heading", level=1).inner_text() == "Grouped-query attention"
    formula = view.locator("math[display=block]").first.bounding_box()
    assert formula is not None
    assert formula["height"] > 25  # a fraction, set as one
    view.close()
