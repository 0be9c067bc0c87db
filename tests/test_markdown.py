"""What Markdown looks like on a terminal and in a pipe."""

import io
import re
import subprocess
import sys

import pytest

from dojo.cli.katas import show_statement
from dojo.content import master
from dojo.content.catalog import ROOT, katas
from dojo.verdict.screen.formulas import in_unicode
from dojo.verdict.screen.markdown import plain
from dojo.verdict.screen.terminal import Screen
from tests import terminal
from tests.test_screen import Terminal

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LINK = re.compile(r"\x1b\]8;([^\x1b]*)\x1b\\")


def prose(kata):
    """All that is shown of a kata as Markdown."""
    return "\n\n".join([master.statement(kata), *master.hints(kata), master.explanation(kata), master.follow_ups(kata)])


def page(text, columns=100):
    """What a terminal gets of a text."""
    screen = Terminal(columns)
    Screen(screen.stream).markdown(text)
    shown = screen.read()
    screen.close()
    return shown


def words(shown):
    return LINK.sub("", COLOUR.sub("", shown))


@pytest.mark.parametrize("kata", katas().values(), ids=lambda kata: kata.name)
def test_no_latex_is_left_of_any_formula(kata):
    text = re.sub(r"```.*?```|`[^`]*`", "", plain(prose(kata)), flags=re.S)
    assert not re.search(r"[$\\{}]", text)
    assert not re.search(r"[$\\{}]", words(page(re.sub(r"```.*?```|`[^`]*`", "", prose(kata), flags=re.S))))


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}", "softmax(x)ᵢ = e^(xᵢ)/(∑ⱼ e^(xⱼ))"),
        (r"\frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}} \cdot w_i", "(xᵢ - μ)/√(σ² + ε) · wᵢ"),
        (r"\mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}}\right) V_h", "softmax(Qₕ Kₕᵀ / √d) Vₕ"),
        (r"\tfrac12 \Big(1 + \mathrm{erf}\big(x / \sqrt 2\big)\Big)", "½ (1 + erf(x / √2))"),
        (r"\bar x = \textstyle\sum_i \lVert x_i \rVert, \tilde y", "x\u0304 = ∑ᵢ ‖xᵢ‖, y\u0303"),
        (r"\tfrac{8}{3} d_{\mathrm{model}} \le 10^{-5}", "(8/3) d_model ≤ 10⁻⁵"),
        (r"\varphi = p \cdot \theta^{-2i/\text{head\_dim}}", "φ = p · θ^(-2i/head_dim)"),
        (r"M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}", "Mᵢⱼ = 0 for j ≤ i, -∞ for j > i"),
        (r"\begin{pmatrix} \cos\varphi & -1 \\ 0 & x^{(l+1)} \end{pmatrix}", "[cos φ, -1; 0, x⁽ˡ⁺¹⁾]"),
        (r"\left\lfloor \frac{h}{H / G} \right\rfloor K_{g(h)}^\top", "⌊h/(H / G)⌋ K[g(h)]ᵀ"),
        (r"\mathrm{norm}_a(x) + |\,p_i - j\,| + \ln \sum_j x_j", "norm_a(x) + |pᵢ - j| + ln ∑ⱼ xⱼ"),
        (r"\unheardof{x}", r"\unheardof{x}"),
    ],
)
def test_a_formula_in_unicode_means_the_same(latex, shown):
    assert in_unicode(latex) == shown


def test_what_is_in_a_formula_is_no_markdown_and_what_is_in_code_no_formula():
    shown = words(page(r"At $[a]_i * [b]_i$ and $x*y*z$, `$HOME`, ``a`$b$``:" "\n\n```\ncost $1 or $2\n```"))
    assert shown == "At [a]ᵢ * [b]ᵢ and x*y*z, $HOME, a`$b$:\n\n    cost $1 or $2\n"


def test_each_formula_of_a_display_has_a_line_of_its_own():
    text = "Is\n\n$$a = b_1, \\qquad\nc = \\frac12$$\n\nso."
    assert words(page(text)) == "Is\n\n    a = b₁\n    c = ½\n\nso.\n"
    assert plain(text) == "Is\n\n    a = b₁\n    c = ½\n\nso."


def test_colours_are_the_terminals_own_and_nothing_has_a_background():
    text = "# Title\n\n- **Bold** `code` [link](https://a.org)\n\n```python\ndef f():\n    return 'text'  # why\n```"
    codes = {code for codes in COLOUR.findall(page(text)) for code in codes[2:-1].split(";")}
    assert codes <= {"0", "1", "3", "4", "35"}  # bold, italic, underlined, magenta


def test_without_colours_code_is_still_told_from_prose(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert page("see `x` here") == "see \x1b[3mx\x1b[0m here\n"


def test_arxiv_ids_are_links_but_not_in_code():
    shown = page(
        "See arXiv:1706.03762v7, arXiv:cs/0112017, [arXiv:1805.02867](https://arxiv.org/abs/1805.02867) `arXiv:1`."
    )
    links = [link.partition(";")[2] for link in LINK.findall(shown)]
    found = ["1706.03762v7", "cs/0112017", "1805.02867"]
    assert [link for link in links if link] == [f"https://arxiv.org/abs/{each}" for each in found]
    assert words(shown) == "See arXiv:1706.03762v7, arXiv:cs/0112017, arXiv:1805.02867 arXiv:1.\n"
    assert all(f"[arXiv:{each}](https://arxiv.org/abs/{each})" in master.linked(f"(arXiv:{each})") for each in found)


def test_a_pipe_that_knows_no_unicode_gets_the_latex():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Screen(stream).markdown(r"It is $\lambda$, and $x = 1$.")
    assert stream.buffer.getvalue() == b"It is $\\lambda$, and x = 1.\n"


def test_show_is_plain_text_in_a_pipe():
    done = subprocess.run([sys.executable, "-m", "dojo", "show", "softmax"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# ")
    assert "\n    softmax(x)ᵢ = e^(xᵢ)/(∑ⱼ e^(xⱼ))\n" in done.stdout
    assert "Write it in `katas/basics/softmax.py`. `python -m dojo grade softmax` grades it" in done.stdout
    assert "\x1b" not in done.stdout


def test_show_gives_the_ask_and_the_contract_when_it_is_asked_for():
    def shown(*words):
        command = [sys.executable, "-m", "dojo", "show", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    asked, held = shown("softmax"), shown("softmax", "--contract")
    assert "insist on: Extremes, Small weights, Empty rows, Half precision." in asked
    assert "Do not hide it." not in asked
    assert held.startswith("# Stable softmax: the contract\n\n- **Extremes.** Any finite input")
    assert "Do not hide it." in held
    assert shown("debug_lm", "--contract").startswith("# A small GPT with four bugs, and its test: the contract\n")


def test_a_statement_in_one_part_has_no_contract_to_show(monkeypatch, capsys):
    monkeypatch.setattr(master, "contract", lambda kata: {})
    assert show_statement(katas()["dpo"], contract=True) == 0
    assert capsys.readouterr().out.startswith("The statement of dpo is in one part: ")


@pytest.mark.parametrize(("rows", "paged"), [(24, True), (300, False)])
def test_show_uses_the_pager_only_when_the_page_is_longer_than_the_screen(rows, paged, monkeypatch):
    monkeypatch.setenv("PAGER", "sed 's/^/paged /'")
    shown, status = terminal.run(["show", "mha"], [], ROOT, rows=rows)
    assert status == 0
    assert ("paged " in shown) is paged
    assert "out = [head₀, …, head[H-1]] W_Oᵀ" in shown
