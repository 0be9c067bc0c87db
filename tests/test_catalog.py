"""Which katas there are, and what a wrong name or header says."""

import subprocess
import sys
import time

import pytest

from dojo.content.catalog import ROOT, BrokenMaster, Trouble, UnknownKata, katas, select

HEADER = """\
# ---
# jupyter:
#   dojo:
#     title: {name}
#     level: {level}
#     minutes: 5
#     builds_on: [softmax]
# ---
"""


@pytest.fixture
def root(tmp_path):
    for name, track, level in [("lm", "models", 4), ("rope", "positions", 3), ("mha", "attention", 2)]:
        write(tmp_path, name, track, level)
    write(tmp_path, "causal_mask", "attention", 1)
    return tmp_path


def write(root, name, track, level):
    path = root / "solutions" / track / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER.format(name=name, level=level))
    return path


def test_katas_come_in_the_order_of_learning(root):
    assert list(katas(root)) == ["rope", "causal_mask", "mha", "lm"]
    tracks = [kata.track for kata in katas(root).values()]
    assert tracks == ["positions", "attention", "attention", "models"]


def test_a_header_becomes_a_kata(root):
    kata = katas(root)["mha"]
    assert (kata.level, kata.minutes, kata.builds_on, kata.sources) == (2, 5, ("softmax",), ())
    assert kata.track == "attention"
    assert [kata.say(path) for path in (kata.master, kata.stub, kata.grader, kata.notebook)] == [
        "solutions/attention/mha.py",
        "katas/attention/mha.py",
        "graders/attention/mha/contract.py",
        "notebooks/attention/mha.ipynb",
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["rope", "causal_mask", "mha", "lm"]),
        (["all"], ["rope", "causal_mask", "mha", "lm"]),
        (["attention"], ["causal_mask", "mha"]),
        (["lm", "mha", "attention"], ["lm", "mha", "causal_mask"]),
        (["katas/positions/rope.py"], ["rope"]),
        (["notebooks/models/lm.ipynb"], ["lm"]),
        (["katas/rope.py"], ["rope"]),
        (["./notebooks/lm.ipynb", "/anywhere/katas/attention/mha.py"], ["lm", "mha"]),
    ],
)
def test_words_select_katas_tracks_or_all_and_none_twice(root, words, names):
    assert [kata.name for kata in select(words, root)] == names


def test_an_unknown_name_lists_the_near_ones(root):
    with pytest.raises(UnknownKata, match=r"no kata or track is called 'rpoe': did you mean rope\?"):
        select(["rpoe"], root)
    with pytest.raises(UnknownKata, match="'zzz': there are rope, causal_mask, mha, lm, positions"):
        select(["zzz"], root)


def test_a_broken_header_names_the_file_and_the_fault(root):
    path = write(root, "new", "attention", 9)
    with pytest.raises(BrokenMaster, match="level is 9"):
        katas(root)
    path.write_text("# ---\n# jupyter:\n#   dojo: {title: x}\n# ---\n")
    with pytest.raises(BrokenMaster, match="has no 'level'"):
        katas(root)
    path.write_text("x = 1\n")
    with pytest.raises(BrokenMaster, match="no `dojo:` block"):
        katas(root)
    path.write_text("# ---\n# a: [\n# ---\n")
    with pytest.raises(BrokenMaster, match="no YAML"):
        katas(root)


def test_a_folder_that_is_no_track_is_named(root):
    write(root, "new", "attenton", 1)
    with pytest.raises(BrokenMaster, match=r"new\.py: its folder 'attenton' is no track: the tracks are basics"):
        katas(root)


def test_two_tracks_cannot_have_a_kata_of_the_same_name(root):
    write(root, "rope", "attention", 1)
    with pytest.raises(BrokenMaster, match=r"positions.rope\.py: attention has a rope too"):
        katas(root)


def test_what_jupyter_leaves_beside_the_masters_is_no_kata(root):
    write(root, "rope-checkpoint", ".ipynb_checkpoints", 1)
    assert list(katas(root)) == ["rope", "causal_mask", "mha", "lm"]


def test_without_solutions_it_says_where_it_looked(tmp_path):
    with pytest.raises(Trouble, match=r"there is no folder .*solutions"):
        katas(tmp_path)


def test_the_catalog_needs_neither_torch_nor_jupytext():
    code = (
        "import sys; from dojo.content.catalog import katas; katas()\n"
        "print({'torch', 'jupytext', 'nbformat'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_reading_every_header_is_quick():
    katas()
    start = time.process_time()
    katas()
    assert time.process_time() - start < 0.05


def test_every_kata_builds_on_others_and_comes_after_those_of_its_track():
    order = list(katas())
    for kata in katas().values():
        assert set(kata.builds_on) <= set(order) - {kata.name}
        same = [name for name in kata.builds_on if katas()[name].track == kata.track]
        assert all(order.index(name) < order.index(kata.name) for name in same)
        assert kata.minutes > 0
        assert kata.sources, f"{kata.name} names no source"
