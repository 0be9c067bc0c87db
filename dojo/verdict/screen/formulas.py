"""Writes formulas in Unicode: `\\frac{x_i - \\mu}{\\sqrt{\\sigma^2 + \\varepsilon}}` is `(xᵢ - μ)/√(σ² + ε)`.

pylatexenc reads the LaTeX and knows the symbols; what stands above, below or beside what is put in one line here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pylatexenc import latex2text, latexwalker, macrospec
from pylatexenc.latexwalker import LatexCharsNode, LatexEnvironmentNode, LatexGroupNode, LatexMacroNode

SUBSCRIPTS = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
SUPERSCRIPTS = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW⊤",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵀ",
        strict=True,
    )
)
UPRIGHT = {"text", "mathrm", "operatorname", "mathcal", "mathbf", "mathit"}
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}  # combining: they follow the letter
SPACES = {",", ":", ";", " ", "quad", "qquad"}
SIZES = {"!", "left", "right", "textstyle", "displaystyle"}
SIZES |= {size + side for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r")}
BETWEEN = {"cdot", "times", "odot", "le", "leq", "ge", "geq", "ne", "neq", "to", "sim", "approx", "in", "mid"}
OPENING, CLOSING = {"lVert", "langle", "lfloor", "lceil"}, {"rVert", "rangle", "rfloor", "rceil"}
PREFIX = OPENING | {"partial", "pm", "nabla"}  # the space that ends their name is no space of the formula
APPLIED = "\u2061"  # Unicode's own sign between a function's name and what it is applied to
SINGLE = re.compile(rf"[\d.]+|[^\W\d][{''.join(SUBSCRIPTS.values())}]*|[^\W\d]\w*_\w+")


def in_unicode(latex: str) -> str:
    """A formula without its dollar signs, on one line; one with a macro that is not known stays as it is."""
    walker = latexwalker.LatexWalker(latex, latex_context=_macros())
    try:
        return _tidy(_text(walker.get_latex_nodes()[0]))
    except _UnknownMacro:
        return latex


class _UnknownMacro(Exception):
    pass


@cache
def _macros() -> macrospec.LatexContextDb:
    known = latexwalker.get_default_latex_context_db()
    arguments = {"tfrac": "{{", "dfrac": "{{", "operatorname": "{"}
    argument = macrospec.MacroStandardArgsParser("{")
    known.add_context_category(
        "formulas",
        macros=[macrospec.MacroSpec(name, takes) for name, takes in arguments.items()],
        specials=[*(macrospec.SpecialsSpec(mark, argument) for mark in "^_"), macrospec.SpecialsSpec("&")],
        prepend=True,
    )
    return known


@cache
def _symbol(name: str) -> str | None:
    """What a macro without arguments stands for."""
    if not name.isalpha():
        return name
    found = latex2text.get_default_latex_context_db().get_macro_spec(name)
    symbol = found and found.simplify_repl
    return symbol if isinstance(symbol, str) and "%" not in symbol else None


def _text(nodes: list[Any]) -> str:
    out = ""
    for place, node in enumerate(nodes):
        rest = nodes[place + 1 :]
        if isinstance(node, LatexCharsNode):
            out += node.chars
        elif isinstance(node, LatexGroupNode):
            out += _text(node.nodelist)
        elif isinstance(node, LatexEnvironmentNode):
            out += _table(node)
        elif isinstance(node, LatexMacroNode):
            out = _macro(out, node, rest)
        elif node.specials_chars in "^_":
            out += _script(node, nodes[place - 1] if place else None)
        else:
            out += node.specials_chars
    return out


def _macro(out: str, node: LatexMacroNode, rest: list[Any]) -> str:
    """What stands before, and the macro."""
    name, arguments = node.macroname, [each for each in node.nodeargd.argnlist if each] if node.nodeargd else []
    after = _text(rest[:1]).lstrip()[:1] if name in SPACES else ""
    if name in SIZES or (name in SPACES and (out.endswith(("(", "[", "|")) or after in {")", "]", "|"})):
        return out
    if name in SPACES:
        return f"{out} "
    if name in UPRIGHT and arguments:
        return out + _text(arguments)
    if name in ACCENTS and arguments:
        return f"{out}{_text(arguments)}{ACCENTS[name]}{node.macro_post_space}"
    if name == "sqrt" and arguments:
        under = _tidy(_text(arguments[-1:]))
        return f"{out}√{under if SINGLE.fullmatch(under) else f'({under})'}{node.macro_post_space}"
    if name in ("frac", "tfrac", "dfrac") and len(arguments) == 2:
        return out + _fraction(arguments[0], arguments[1], _text(rest).lstrip())
    symbol = _symbol(name)
    if symbol is None or arguments:
        raise _UnknownMacro(name)
    if name in BETWEEN:
        return f"{out} {symbol} "
    if name in CLOSING:
        return f"{out.rstrip()}{symbol}{node.macro_post_space}"
    if len(symbol) > 1 and symbol.isascii() and symbol.isalpha():
        return f"{out}{symbol}{APPLIED}"
    return f"{out}{symbol}{'' if name in PREFIX else node.macro_post_space}"


def _fraction(above: Any, below: Any, following: str) -> str:
    over, under = _tidy(_text([above])), _tidy(_text([below]))
    if (over, under) == ("1", "2"):
        return "½ " if following else "½"
    over = f"({over})" if re.search(r" [+-] |/", _outside_brackets(over)) else over
    under = f"({under})" if re.search(r"[ +\-·/]", _outside_brackets(under)) else under
    whole = f"{over} / {under}" if " " in _outside_brackets(over) else f"{over}/{under}"
    return whole if not following or following[0] in ",.;:)]|=+-<>/·×⊙≤≥→∼≈⌋⌉⟩‖&\n" else f"({whole}) "


def _outside_brackets(text: str) -> str:
    while (less := re.sub(r"\([^()]*\)|\[[^][]*\]", "", text)) != text:
        text = less
    return text


def _script(node: Any, base: Any) -> str:
    """An index or an exponent: as small letters where Unicode has them, else as code writes it."""
    (argument,) = node.nodeargd.argnlist
    text, low = _tidy(_text([argument])), node.specials_chars == "_"
    inner = argument.nodelist if isinstance(argument, LatexGroupNode) else [argument]
    space = inner[-1].macro_post_space if inner == [argument] and isinstance(argument, LatexMacroNode) else ""
    small, tight = SUBSCRIPTS if low else SUPERSCRIPTS, text.replace(" ", "")
    # A word's index reads as part of its name: `norm_a`, and `d_model` even where all its letters could be small.
    words = (_is_upright(base) and tight[:1].isalpha()) or any(map(_is_upright, inner))
    if all(each in small for each in tight) and not (low and words):
        return "".join(map(small.__getitem__, tight)) + space
    if low:
        return f"_{text}{space}" if text.isidentifier() else f"[{text}]{space}"
    return f"^{text}{space}" if len(text) == 1 else f"^({text}){space}"


def _is_upright(node: Any) -> bool:
    return isinstance(node, LatexMacroNode) and node.macroname in UPRIGHT


def _table(node: LatexEnvironmentNode) -> str:
    """`cases` as "0 for j ≤ i, 1 for j > i", a matrix as "[a, b; c, d]"."""
    rows: list[list[list[Any]]] = [[[]]]
    for each in node.nodelist:
        if isinstance(each, LatexMacroNode) and each.macroname == "\\":
            rows.append([[]])
        elif getattr(each, "specials_chars", "") == "&":
            rows[-1].append([])
        else:
            rows[-1][-1].append(each)
    cells = [[_tidy(_text(cell)) for cell in row] for row in rows]
    if node.environmentname == "cases":
        return ", ".join(" for ".join(row) for row in cells if any(row))
    return f"[{'; '.join(', '.join(row) for row in cells if any(row))}]"


def _tidy(text: str) -> str:
    text = re.sub(rf"{APPLIED}\s*(?=[\w⟨‖√∑])(?![{''.join(SUBSCRIPTS.values())}])", " ", text).replace(APPLIED, "")
    text = re.sub(r"([(\[]) +| +(?=[)\],])", r"\1", re.sub(r"\s+", " ", text))
    return text.strip()
