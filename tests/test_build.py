"""Masters become stubs and notebooks, and nobody's work is overwritten."""

import ast
import json
import re
import subprocess
import sys

import nbformat
import pytest

from dojo.content import build, catalog, lessons, master
from dojo.content.catalog import ROOT, BrokenMaster, katas

MASTER = '''\
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   dojo:
#     title: Double
#     level: 1
#     minutes: 5
#     builds_on: []
#     sources:
#       - "A book: with a colon"
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Double
#
# **Write** `double(x)` and `Twice`.

# %% tags=["active-ipynb", "example"]
# double(3)

# %% [markdown] tags=["hint"]
# Add.

# %% [markdown] tags=["hint"]
# Add `x` to
#
# itself.

# %%
import math

### BEGIN SOLUTION
import operator
### END SOLUTION


# %%
### BEGIN SOLUTION
def helper(x):
    return operator.add(x, x)


### END SOLUTION
# %%
def double(x):
    """Twice `x`."""
    ### BEGIN SOLUTION
    return helper(x)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# It is a sum.


# %%
class Twice:
    """Doubles."""

    ### BEGIN SOLUTION
    def _secret(self, x):
        return double(x)

    ### END SOLUTION
    def __call__(self, x):
        ### BEGIN SOLUTION
        return self._secret(x)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# And a class.
'''
OLD_HEADER = """\
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

"""  # as stubs had it
STUB = '''\
# %% [markdown]
# # Double
#
# **Write** `double(x)` and `Twice`.
#
# **Sources:** A book: with a colon.
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# double(3)

# %%
import math


# %%
def double(x):
    """Twice `x`."""
    raise NotImplementedError


# %%
class Twice:
    """Doubles."""

    def __call__(self, x):
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("double")
'''


@pytest.fixture
def kata(tmp_path):
    return make(tmp_path)


def make(root):
    (root / "solutions" / "basics").mkdir(parents=True)
    (root / "solutions" / "basics" / "double.py").write_text(MASTER)
    return katas(root)["double"]


def change_master(kata, old="Twice `x`.", new="Two times `x`."):
    kata.master.write_text(kata.master.read_text().replace(old, new))


def test_the_stub_is_the_master_without_its_answer(kata):
    assert master.stub_text(kata) == STUB


def in_two_parts(kata, contract):
    """The master with a contract of these lines."""
    cell = "\n".join(['# %% [markdown] tags=["contract"]', *(f"# {line}" for line in contract)])
    change_master(kata, '# %% tags=["active-ipynb", "example"]', f'{cell}\n\n# %% tags=["active-ipynb", "example"]')


def test_a_contract_is_folded_below_its_topics_in_stub_and_notebook(kata):
    assert (master.contract(kata), master.statement_faults(kata)) == ({}, [])
    in_two_parts(kata, ["- **Odd numbers.** They become", "  even.", "- **Errors.** None."])
    build.build(root=kata.root)
    assert master.contract(kata) == {
        "Odd numbers": "**Odd numbers.** They become\n  even.",
        "Errors": "**Errors.** None.",
    }
    assert "Odd numbers" not in master.ask(kata)
    assert master.statement(kata).endswith("- **Errors.** None.")
    assert master.statement_faults(kata) == []
    folded = "<details><summary>Contract: Odd numbers, Errors</summary>\n\n- **Odd numbers.** They become\n  even.\n"
    cell = nbformat.read(kata.notebook, 4).cells[1]
    assert cell.source.startswith(folded)
    assert cell.source.endswith("\n\n</details>")
    assert cell.metadata["tags"] == ["contract"]
    assert "# - **Errors.** None.\n#\n# </details>\n" in kata.stub.read_text()
    assert build.build(check=True, root=kata.root) == (True, [])


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        (["- **One.** a", "- two"], "“two” opens with no topic"),
        (["- **One topic of four words.** a"], "opens with no topic"),
        (["Some words before.", "", "- **One.** a"], "“Some words before.” opens with no topic"),
        (["- **One.** a", "- **One.** b"], "the topic 'One' has 2 bullets"),
        ([f"- **Topic {n}.** a" for n in range(9)], "9 bullets in the contract, more than 8"),
        (["- **One.** " + 200 * "a "], "201 words in the contract, more than 200"),
    ],
)
def test_a_statement_in_two_parts_is_held_to_its_form(kata, contract, said):
    in_two_parts(kata, contract)
    (fault,) = master.statement_faults(kata)
    assert said in fault
    assert fault.startswith("solutions/basics/double.py: ")


def test_of_an_ask_its_title_formulas_and_example_are_no_words(kata):
    in_two_parts(kata, ["- **One.** a"])
    change_master(
        kata,
        "# **Write** `double(x)`",
        f"# $$ a + b $$\n#\n# {119 * 'a '}$x + y$ \n#\n# **Example.** One two.\n#\n# `b`",
    )
    assert master.statement_faults(kata) == ["solutions/basics/double.py: 122 words in the ask, more than 120"]


def test_hints_explanation_and_code_come_from_the_master(kata):
    assert master.hints(kata) == ["Add.", "Add `x` to\n\nitself."]
    assert master.explanation(kata) == "It is a sum.\n\nAnd a class."
    code = master.solution_code(master.read_text(kata.master))
    assert "return self._secret(x)" in code
    assert "SOLUTION" not in code
    assert "double(3)" not in code
    ast.parse(code)


@pytest.mark.parametrize("marker", [master.BEGIN, master.END])
def test_a_marker_without_its_partner_names_the_line(kata, marker):
    kata.master.write_text(MASTER.replace(f"    {marker}\n    return helper", "    return helper", 1))
    if marker == master.END:
        kata.master.write_text(MASTER.replace(f"helper(x)\n    {marker}\n", "helper(x)\n"))
    with pytest.raises(BrokenMaster, match=r"double\.py, line \d+: `### .* SOLUTION` without its partner"):
        master.stub_text(kata)


def test_a_stub_that_is_not_python_is_refused(kata):
    change_master(kata, '    """Doubles."""\n', "")
    change_master(kata, "    def __call__", "    ### BEGIN SOLUTION\n    def __call__")
    change_master(kata, "(x)\n        ### END SOLUTION\n", "(x)\n        ### END SOLUTION\n")
    with pytest.raises(BrokenMaster):
        master.stub_text(kata)


@pytest.mark.parametrize(
    ("edit", "untouched"),
    [
        (lambda s: s, True),
        (lambda s: s.replace("\n", "\r\n"), True),
        (lambda s: s.replace('`x`."""\n', '`x`."""\n    # my plan\n\n'), True),
        (lambda s: s.replace("import math", "import math, cmath"), True),  # an import answers nothing
        (lambda s: s.replace("    raise NotImplementedError", "    return x", 1), False),
        (lambda s: s + "\ndef (", False),
        (lambda s: s + "\0", False),
        (lambda s: "", False),
    ],
)
def test_only_what_python_sees_makes_a_stub_touched(kata, edit, untouched):
    assert master.is_untouched(kata, edit(STUB)) is untouched


def test_asking_whether_a_stub_is_untouched_needs_no_jupytext():
    code = (
        "import sys; from dojo.content import catalog, master; k = next(iter(catalog.katas().values()))\n"
        "master.is_untouched(k, master.stub_text(k) + '#'); print({'torch', 'jupytext', 'nbformat'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_build_writes_both_files_and_then_has_nothing_to_do(kata):
    assert build.build(root=kata.root) == (True, ["wrote katas/basics/double.py and notebooks/basics/double.ipynb"])
    assert kata.stub.read_text() == STUB
    assert build.build(root=kata.root) == (True, [])
    assert build.build(check=True, root=kata.root) == (True, [])


def test_a_rebuild_gives_the_same_bytes(kata):
    build.build(root=kata.root)
    first = kata.notebook.read_bytes()
    kata.notebook.unlink()
    build.build(root=kata.root)
    assert kata.notebook.read_bytes() == first


def test_check_says_what_is_stale_and_writes_nothing(kata):
    build.build(root=kata.root)
    change_master(kata)
    clean, said = build.build(check=True, root=kata.root)
    assert not clean
    both = "katas/basics/double.py and notebooks/basics/double.ipynb"
    assert said == [f"{both}: not what solutions/basics/double.py gives. Run `nox -s build`."]
    assert kata.stub.read_text() == STUB


def test_a_stub_nobody_worked_in_follows_its_master(kata):
    build.build(root=kata.root)
    change_master(kata)
    assert build.build(root=kata.root)[1] == ["wrote katas/basics/double.py and notebooks/basics/double.ipynb"]
    assert "Two times" in kata.stub.read_text()
    assert build.build(check=True, root=kata.root) == (True, [])


@pytest.mark.parametrize("edit", ["return x", "raise NotImplementedError  # a note"])
@pytest.mark.parametrize("newer", [False, True])
def test_a_stub_worked_in_is_never_overwritten(kata, edit, newer):
    build.build(root=kata.root)
    book = kata.notebook.read_bytes()
    worked = STUB.replace("raise NotImplementedError", edit)
    kata.stub.write_text(worked)
    if newer:
        change_master(kata)
    for check in (True, False):
        clean, said = build.build(check=check, root=kata.root)
        assert clean
        assert "worked in: left as it is. `nox -s reset -- double`" in said[0]
    assert (kata.stub.read_text(), kata.notebook.read_bytes()) == (worked, book)


@pytest.mark.parametrize("trace", ["source", "outputs", "broken", "no marks"])
def test_a_notebook_worked_in_is_never_overwritten(kata, trace):
    build.build(root=kata.root)
    change_master(kata)
    node = json.loads(kata.notebook.read_text())
    if trace == "source":
        node["cells"][-1]["source"].append("\n# mine")
    elif trace == "outputs":
        node["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "8"}]
    elif trace == "no marks":
        del node["metadata"]["dojo"]
    kata.notebook.write_text("{" if trace == "broken" else json.dumps(node))
    before = kata.notebook.read_bytes()
    why = "is no notebook: it is no JSON" if trace == "broken" else "worked in"
    assert why in build.build(root=kata.root)[1][0]
    assert (kata.stub.read_text(), kata.notebook.read_bytes()) == (STUB, before)


def test_a_header_such_as_jupytext_writes_is_nobodys_work(kata):
    build.build(root=kata.root)
    kata.stub.write_text(OLD_HEADER + STUB)
    assert build.build(check=True, root=kata.root) == (True, [])
    change_master(kata)
    assert build.build(root=kata.root)[1] == ["wrote katas/basics/double.py and notebooks/basics/double.ipynb"]


@pytest.mark.parametrize("name", list(katas()))
def test_every_notebook_validates_and_carries_no_outputs_but_its_figure(name):
    kata = katas()[name]
    node = build.fresh_notebook(kata)
    figures = [cell.id for cell in node.cells if cell.source.endswith(f'figure("{name}")')]
    assert len(figures) == bool(lessons.of(kata))
    nbformat.validate(node)
    assert len({cell.id for cell in node.cells}) == len(node.cells)
    assert [cell.id for cell in node.cells if cell.get("outputs")] == figures
    assert "NotImplementedError" in master.stub_text(kata) or kata.opens_with
    if all(build.as_built(kata)):
        written = nbformat.read(kata.notebook, as_version=4)
        nbformat.validate(written)
        assert [cell.id for cell in written.cells if cell.get("outputs")] == figures, f"run `nox -s reset -- {name}`"
        assert kata.notebook.stat().st_size < 300_000


def test_stubs_and_notebooks_are_up_to_date():
    clean, said = build.build(check=True)
    assert clean, said


@pytest.mark.parametrize("name", list(katas()))
def test_each_explanation_names_its_cost_in_time_and_in_bytes(name):
    told = master.explanation(katas()[name]).partition("**What it costs.** ")[2].partition("\n\n")[0]
    assert re.search(r"FLOPs?\b|[mµ]s\b|\$O\(", told)
    assert re.search(r"\b[kMG]?B\b|\bbytes?\b", told)


@pytest.mark.parametrize("name", list(katas()))
def test_the_notebook_gives_its_stub_back(name):
    from dojo.content import sync

    kata = catalog.katas()[name]
    stub = master.stub_text(kata)
    assert sync.script_text(build.fresh_notebook(kata), stub.encode()) == stub
