"""Which katas there are, and what a wrong name or header says."""

import subprocess
import sys
import time

import pytest

from dojo import catalog
from dojo.catalog import ROOT, BrokenMaster, Trouble, UnknownKata, katas, select

HEADER = """\
# ---
# jupyter:
#   dojo:
#     title: {name}
#     track: {track}
#     level: {level}
#     minutes: 5
#     builds_on: [softmax]
# ---
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "solutions").mkdir()
    for name, track, level in [("lm", "models", 4), ("rope", "positions", 3), ("mha", "attention", 2)]:
        write(tmp_path, name, track, level)
    write(tmp_path, "causal_mask", "attention", 1)
    return tmp_path


def write(root, name, track, level):
    (root / "solutions" / f"{name}.py").write_text(HEADER.format(name=name, track=track, level=level))


def test_katas_come_in_the_order_of_learning(root):
    assert list(katas(root)) == ["rope", "causal_mask", "mha", "lm"]
    assert catalog.tracks(root) == ["positions", "attention", "models"]


def test_a_header_becomes_a_kata(root):
    kata = katas(root)["mha"]
    assert (kata.level, kata.minutes, kata.builds_on, kata.sources) == (2, 5, ("softmax",), ())
    assert kata.say(kata.notebook) == "notebooks/mha.ipynb"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["rope", "causal_mask", "mha", "lm"]),
        (["all"], ["rope", "causal_mask", "mha", "lm"]),
        (["attention"], ["causal_mask", "mha"]),
        (["lm", "mha", "attention"], ["lm", "mha", "causal_mask"]),
        (["katas/rope.py"], ["rope"]),
        (["notebooks/lm.ipynb"], ["lm"]),
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
    write(root, "new", "attenton", 1)
    with pytest.raises(BrokenMaster, match=r"new\.py: track is 'attenton', which is none of basics"):
        katas(root)
    write(root, "new", "attention", 9)
    with pytest.raises(BrokenMaster, match="level is 9"):
        katas(root)
    (root / "solutions" / "new.py").write_text("# ---\n# jupyter:\n#   dojo: {title: x}\n# ---\n")
    with pytest.raises(BrokenMaster, match="has no 'track'"):
        katas(root)
    (root / "solutions" / "new.py").write_text("x = 1\n")
    with pytest.raises(BrokenMaster, match="no `dojo:` block"):
        katas(root)
    (root / "solutions" / "new.py").write_text("# ---\n# a: [\n# ---\n")
    with pytest.raises(BrokenMaster, match="no YAML"):
        katas(root)


def test_without_solutions_it_says_where_it_looked(tmp_path):
    with pytest.raises(Trouble, match=r"there is no folder .*solutions"):
        katas(tmp_path)


def test_the_catalog_needs_neither_torch_nor_jupytext():
    code = (
        "import sys; from dojo.catalog import katas; katas(); print({'torch', 'jupytext', 'nbformat'} & {*sys.modules})"
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
