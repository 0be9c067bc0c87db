"""What a class hands in is read however it lies; what cannot be graded is told by name, and harms nobody."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import unicodedata
import zipfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
import pytest

from dojo.cohort.records import Problem, Submitted
from dojo.cohort.submissions import collect
from dojo.cohort.submissions.names import shown
from dojo.content import build, catalog, master
from dojo.content.catalog import Trouble
from dojo.grading.options import SOURCE_LIMIT

KATAS = catalog.katas()
TREE = {"ada/gqa.py": "a = 1\n", "ada/rope.py": "a = 2\n", "bob/attention/gqa.py": "b = 1\n"}
METADATA = """\
submission_11:
  :submitters:
  - :name: Ada Lovelace
    :sid: '1815'
    :email: ada@example.org
  :created_at: 2026-05-01 10:00:00.000000000 Z
  :score: 0.0
submission_12:
  :submitters:
  - :name: Alan Turing
    :sid: '1912'
  - :name: Grace Hopper
    :email: grace@example.org
"""


def lay(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def zipped(files: dict[str, str | bytes], path: Path | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    if path:
        path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def notebook(*cells: str) -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]))


def told(submitted: Iterable[Submitted]) -> list[str]:
    return [f"{each.student} {each.kata} {each.source.strip()}" for each in submitted]


def read(where: Path, *katas: str) -> tuple[list[str], list[str]]:
    submitted, problems = collect(where, {name: KATAS[name] for name in katas} if katas else KATAS)
    return told(submitted), [f"{each.student}| {each.path}| {each.why}" for each in problems]


CLASS = ["ada gqa a = 1", "ada rope a = 2", "bob gqa b = 1"]


class TestLayouts:
    def test_a_folder_of_folders(self, tmp_path: Path) -> None:
        assert read(lay(tmp_path, TREE)) == (CLASS, [])

    def test_paths_are_as_a_teacher_finds_them(self, tmp_path: Path) -> None:
        submitted, _ = collect(lay(tmp_path, TREE), KATAS)
        assert [each.path for each in submitted] == list(TREE)

    @pytest.mark.parametrize("above", ["", "class/"])
    def test_a_zip_of_that(self, tmp_path: Path, above: str) -> None:
        zipped({f"{above}{name}": content for name, content in TREE.items()}, tmp_path / "class.zip")
        submitted, problems = collect(tmp_path / "class.zip", KATAS)
        assert (told(submitted), problems) == (CLASS, [])
        assert submitted[0].path == f"class.zip: {above}ada/gqa.py"

    def test_a_zip_from_each_student(self, tmp_path: Path) -> None:
        lay(tmp_path, {"ada.zip": zipped({"my homework/gqa.py": "a = 1"}), "bob/all.zip": zipped({"gqa.py": "b = 1"})})
        assert read(tmp_path) == (["ada gqa a = 1", "bob gqa b = 1"], [])

    def test_notebooks_are_read_as_scripts(self, tmp_path: Path) -> None:
        lay(tmp_path, {"ada/gqa.ipynb": notebook("import torch", "x = 1")})
        (submitted,), problems = collect(tmp_path, KATAS)
        assert "import torch" in submitted.source
        assert "x = 1" in submitted.source
        assert "{" not in submitted.source
        assert problems == []

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("all.csv", "student,kata,path\nada,gqa,files/1.py\nada,,files/rope.py\nbob,GQA,files/2.py\n"),
            (
                "all.csv",
                "\ufeffPath;Student;Kata;Mark\r\nfiles\\1.py;ada;gqa;\r\nfiles/rope.py;ada;;\r\nfiles/2.py;bob;gqa;\r\n",
            ),
            ("all.tsv", "student\tkata\tpath\nada\tgqa\t./files/1.py\nada\t\tfiles/rope.py\nbob\tgqa\tfiles/2.py\n"),
            (
                "all.jsonl",
                '{"student": "ada", "kata": "gqa", "path": "files/1.py"}\n\n{"student": "ada", "path": "files/rope.py"}'
                '\n{"student": "bob", "kata": "gqa", "path": "files/2.py"}\n',
            ),
        ],
    )
    @pytest.mark.parametrize("way", ["table", "zip", "zip of a folder"])
    def test_a_table(self, tmp_path: Path, name: str, content: str, way: str) -> None:
        files = {name: content, "files/1.py": "a = 1", "files/rope.py": "a = 2", "files/2.py": "b = 1"}
        if way == "table":
            where = lay(tmp_path, files) / name
        else:
            zipped(
                {f"{'x/' * (way != 'zip')}{each}": text for each, text in files.items()}, where := tmp_path / "t.zip"
            )
        assert read(where) == (CLASS, [])

    @pytest.mark.parametrize("end", ["", "_"])
    def test_moodle_in_folders(self, tmp_path: Path, end: str) -> None:
        files = {
            f"Ada Lovelace_4711_assignsubmission_file{end}/gqa.py": "a = 1",
            "Ada Lovelace_4711_assignsubmission_onlinetext/onlinetext.html": "<p>done",
            f"Élodie d'Arc_4712_assignsubmission_file{end}/work/gqa.py": "b = 1",
            f"Group A_assignsubmission_file{end}/gqa.zip": zipped({"gqa.py": "c = 1"}),
            f"Bo_4713_assignsubmission_file{end}/answer.docx": "PK",
        }
        said = ["Ada Lovelace gqa a = 1", "Group A gqa c = 1", "Élodie d'Arc gqa b = 1"]
        for where in (lay(tmp_path / "m", files), tmp_path / "CS336-Attention-99.zip"):
            zipped(files, tmp_path / "CS336-Attention-99.zip")
            attempts, (problem,) = read(where)
            assert attempts == said
            assert problem.startswith("Bo| ")
            assert "no Python file or notebook that is called as a kata is; there is answer.docx" in problem

    def test_moodle_without_folders(self, tmp_path: Path) -> None:
        lay(tmp_path, {"Ada Lovelace_4711_assignsubmission_file_gqa.py": "a = 1"})
        lay(tmp_path, {"Bob_4712_assignsubmission_file_Eve_1_assignsubmission_file_gqa.py": "b = 1"})
        attempts, (problem,) = read(tmp_path)
        assert attempts == ["Ada Lovelace gqa a = 1"]
        assert problem.startswith("Bob| ")

    def test_two_of_one_name_are_two(self, tmp_path: Path) -> None:
        lay(tmp_path, {f"Participant_{n}_assignsubmission_file/gqa.py": f"a = {n}" for n in (1, 2)})
        assert read(tmp_path) == (["Participant (1) gqa a = 1", "Participant (2) gqa a = 2"], [])

    def test_canvas(self, tmp_path: Path) -> None:
        files = {
            "lovelaceada_12_345_gqa.py": "a = 1",
            "turingalan_LATE_13_346_gqa-1.py": "b = 1",
            "turingalan_LATE_13_347_rope (2).ipynb": notebook("b = 2"),
            "hoppergrace_14_348_homework.zip": zipped({"gqa.py": "c = 1"}),
            "noether_15_text.html": "<p>see the mail",
            "anon_x7Yz2_350_gqa.py": "d = 1",
        }
        for where in (lay(tmp_path / "canvas", files), tmp_path / "submissions.zip"):
            zipped(files, tmp_path / "submissions.zip")
            attempts, problems = read(where, "gqa")
            assert attempts == [
                "anon_x7Yz2 gqa d = 1",
                "hoppergrace gqa c = 1",
                "lovelaceada gqa a = 1",
                "turingalan gqa b = 1",
            ]
            assert [problem.split("|")[0] for problem in problems] == ["noether"]

    def test_of_canvas_uploads_the_last_counts(self, tmp_path: Path) -> None:
        lay(tmp_path, {"ada_12_99_gqa.py": "old = 1", "ada_12_345_gqa-1.py": "new = 1"})
        attempts, (problem,) = read(tmp_path)
        assert attempts == ["ada gqa new = 1"]
        assert problem == "ada| ada_12_99_gqa.py| ada_12_345_gqa-1.py was uploaded after it, and counts"

    @pytest.mark.parametrize("way", ["folder", "folder above", "zip"])
    def test_gradescope(self, tmp_path: Path, way: str) -> None:
        files = {
            "assignment_7_export/submission_metadata.yml": METADATA,
            "assignment_7_export/submission_11/gqa.py": "a = 1",
            "assignment_7_export/submission_12/attention/gqa.py": "b = 1",
            "assignment_7_export/submission_13/gqa.py": "c = 1",
        }
        zipped(files, tmp_path / "export.zip")
        where = lay(tmp_path / "in", files)
        where = {"folder": where / "assignment_7_export", "folder above": where, "zip": tmp_path / "export.zip"}[way]
        said = ["Ada Lovelace gqa a = 1", "Alan Turing & Grace Hopper gqa b = 1", "submission_13 gqa c = 1"]
        assert read(where) == (said, [])

    @pytest.mark.parametrize("content", ["[", "a: b", "submission_11: {}", b"\xff"])
    def test_gradescopes_broken_metadata_cost_names_alone(self, tmp_path: Path, content: str) -> None:
        lay(tmp_path, {"submission_metadata.yml": content, "submission_11/gqa.py": "a = 1"})
        attempts, (problem,) = read(tmp_path)
        assert attempts == ["submission_11 gqa a = 1"]
        assert problem.startswith("| submission_metadata.yml| it is not as Gradescope writes it")

    def test_an_export_for_each_assignment(self, tmp_path: Path) -> None:
        first = {"Ada_4711_assignsubmission_file/gqa.py": "a = 1", "Bob_4712_assignsubmission_file/gqa.py": "b = 1"}
        lay(tmp_path, {"CS336-1.zip": zipped(first), "CS336-2/Ada_9_assignsubmission_file/rope.py": "a = 2"})
        lay(tmp_path, {"grades.csv": "a,b\n1,2\n"})
        assert read(tmp_path) == (["Ada gqa a = 1", "Ada rope a = 2", "Bob gqa b = 1"], [])

    def test_a_clone_of_this_project_is_what_its_student_works_in(self, tmp_path: Path) -> None:
        lay(tmp_path, {f"ada/dojo-main/{name}": "a = 1" for name in ("katas/attention/gqa.py", "noxfile.py")})
        lay(tmp_path, {f"ada/dojo-main/{name}/attention/gqa.py": "cheat" for name in ("solutions", "graders", "tests")})
        lay(tmp_path, {"ada/dojo-main/.git/gqa.py": "x", "ada/dojo-main/__pycache__/gqa.py": "x"})
        assert read(tmp_path) == (["ada gqa a = 1"], [])

    @pytest.mark.parametrize("name", ["there/is/none", "gqa.py", "class.rar"])
    def test_anything_else_is_refused_with_what_there_can_be(self, tmp_path: Path, name: str) -> None:
        lay(tmp_path, {"gqa.py": "a = 1", "class.rar": "Rar!"})
        with pytest.raises(Trouble, match="a folder of folders, a CSV or JSON Lines of paths, a zip, or an export"):
            read(tmp_path / name)


class TestProblems:
    @pytest.mark.parametrize(
        ("name", "content", "why"),
        [
            ("gqa.py", "# naïve\n".encode("latin-1"), "it is not UTF-8 text (byte 4): save it as UTF-8"),
            ("gqa.py", "a = 1".encode("utf-16"), "it is not UTF-8 text (byte 0)"),
            ("gqa.py", "a = 1".encode("utf-16-le"), "it has zero bytes in it: save it as UTF-8"),
            ("gqa.py", " \n", "it is empty"),
            ("gqa.ipynb", "not json", "it is no notebook: it is no JSON"),
            ("gqa.ipynb", "[" * 100_000, "it is no notebook: it is "),
            ("gqa.ipynb", "{}", "it is no notebook: it is JSON without cells"),
            ("gqa.ipynb", notebook("x = 1").replace("cell_type", "kind"), "it is no notebook: it is JSON, but no"),
            ("gqa.ipynb", notebook("x = 1").replace("x = 1", "\\ud800"), "it has characters that UTF-8 does not know"),
            ("gqa.py", b"#" * (SOURCE_LIMIT + 1), f"it has more than {SOURCE_LIMIT} bytes"),
            ("gqua.py", "a", "no kata is called 'gqua': did you mean gqa?"),
            ("my_gqa_final.py", "a", "no kata is called 'my_gqa_final': did you mean gqa?"),
            ("hw1.py", "a", "no kata is called 'hw1': call it as the kata is, or tell which it is in a table"),
            ("gqa.pdf", "%PDF", "it is no Python file or notebook: hand in gqa.py or gqa.ipynb"),
            ("gqa.py.txt", "a", "it is no Python file or notebook: hand in gqa.py or gqa.ipynb"),
            ("work.zip", "PK", "it is no zip that can be opened"),
            ("work.zip", zipped({"more.zip": zipped({"gqa.py": "a"})}), "it is a zip in a zip: zip it once"),
            ("notes.txt", "a", "it holds no Python file or notebook that is called as a kata is; there is notes.txt"),
        ],
    )
    def test_is_told_by_name_and_stops_nothing(self, tmp_path: Path, name: str, content: str | bytes, why: str) -> None:
        lay(tmp_path, {**TREE, f"zoe/{name}": content})
        submitted, (problem,) = collect(tmp_path, KATAS)
        assert told(submitted) == CLASS
        assert problem.student == "zoe"
        assert problem.path.startswith("zoe")
        assert problem.why.startswith(why)

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        (tmp_path / "zoe").mkdir()
        assert read(tmp_path) == (
            [],
            ["zoe| zoe| it holds no Python file or notebook that is called as a kata is, for it is empty"],
        )

    def test_a_kata_that_is_not_asked_for_is_none(self, tmp_path: Path) -> None:
        assert read(lay(tmp_path, TREE), "rope") == (["ada rope a = 2"], [])

    def test_what_lies_in_nobodys_folder(self, tmp_path: Path) -> None:
        attempts, problems = read(lay(tmp_path, {**TREE, "gqa.py": "x", "attention/gqa.py": "x", "README.md": "x"}))
        assert attempts == CLASS
        assert [problem.split("|")[:2] for problem in problems] == [["", " attention"], ["", " gqa.py"]]

    def test_many_are_summed_up(self, tmp_path: Path) -> None:
        lay(tmp_path, {f"zoe/part{n}.py": "x" for n in range(50)})
        _, problems = read(tmp_path)
        assert len(problems) == 11
        assert any("there are 40 more files here that cannot be graded" in problem for problem in problems)


class TestSeveralFilesForAKata:
    def test_of_one_program_are_one(self, tmp_path: Path) -> None:
        lay(
            tmp_path,
            {"ada/gqa.py": "# %%\nimport torch\n\nx = 1\n", "ada/gqa.ipynb": notebook("import torch", "x = 1")},
        )
        submitted, problems = collect(tmp_path, KATAS)
        assert [each.path for each in submitted] == ["ada/gqa.ipynb"]
        assert problems == []

    def test_the_one_that_was_worked_in_counts(self, tmp_path: Path) -> None:
        stub = master.stub_text(KATAS["gqa"])
        untouched = build.notebook_text(build.notebook(stub))
        lay(tmp_path, {"ada/katas/gqa.py": "a = 1", "ada/notebooks/gqa.ipynb": untouched})
        lay(tmp_path, {"bob/katas/gqa.py": stub, "bob/notebooks/gqa.ipynb": notebook("b = 1")})
        lay(tmp_path, {"eve/katas/gqa.py": stub, "eve/notebooks/gqa.ipynb": untouched})
        submitted, problems = collect(tmp_path, KATAS)
        assert [each.path for each in submitted] == ["ada/katas/gqa.py", "bob/notebooks/gqa.ipynb", "eve/katas/gqa.py"]
        assert problems == []

    def test_else_are_told_and_none_is_chosen(self, tmp_path: Path) -> None:
        attempts, problems = read(
            lay(tmp_path, {"ada/gqa.py": "a = 1", "ada/old/GQA.py": "a = 0", "ada/rope.py": "x = 1"})
        )
        assert attempts == ["ada rope x = 1"]
        why = "there are several files for gqa: keep the one that counts of ada/gqa.py and ada/old/GQA.py"
        assert problems == [f"ada| ada/gqa.py| {why}"]

    def test_in_a_table(self, tmp_path: Path) -> None:
        lay(tmp_path, {"t.csv": "student,path\nada,1/gqa.py\nada,2/gqa.py\n", "1/gqa.py": "a = 1", "2/gqa.py": "a = 2"})
        attempts, (problem,) = read(tmp_path / "t.csv")
        assert attempts == []
        assert "several files for gqa" in problem

    def test_in_a_zip_under_one_path(self, tmp_path: Path) -> None:
        content = zipped({"ada/gqa.py": "a = 1", "ada/gqb.py": "a = 2", "bob/gqa.py": "b = 1"})
        (tmp_path / "c.zip").write_bytes(content.replace(b"gqb", b"gqa"))
        attempts, (problem,) = read(tmp_path / "c.zip")
        assert attempts == ["bob gqa b = 1"]
        assert "several files for gqa" in problem


class TestAdversaries:
    def test_a_hundred_thousand_lines_are_an_attempt(self, tmp_path: Path) -> None:
        lay(tmp_path, {**TREE, "zoe/gqa.py": "x = 1\n" * 100_000})
        submitted, problems = collect(tmp_path, KATAS)
        assert [each.student for each in submitted] == ["ada", "ada", "bob", "zoe"]
        assert problems == []

    def test_ten_thousand_files_cost_their_student_alone(self, tmp_path: Path) -> None:
        lay(tmp_path, TREE)
        (tmp_path / "zoe").mkdir()
        for number in range(10_000):
            (tmp_path / "zoe" / f"f{number}.py").touch()
        attempts, problems = read(tmp_path)
        assert attempts == CLASS
        assert problems == ["zoe| zoe| it has more than 1000 files: hand in the katas' files alone"]

    def test_ten_thousand_members_cost_their_student_alone(self, tmp_path: Path) -> None:
        lay(tmp_path, {**TREE, "zoe/all.zip": zipped({f"f{number}.py": "" for number in range(10_000)})})
        attempts, problems = read(tmp_path)
        assert attempts == CLASS
        assert problems == ["zoe| zoe| it has more than 1000 files: hand in the katas' files alone"]

    def test_a_table_of_contents_without_end_is_not_read(self, tmp_path: Path) -> None:
        content = zipped({"gqa.py": "a = 1"})
        size = 9 << 20
        content = content[:-22] + bytes(size) + content[-22:-10] + struct.pack("<I", size) + content[-6:]
        lay(tmp_path, {**TREE, "zoe/all.zip": content})
        attempts, (problem,) = read(tmp_path)
        assert attempts == CLASS
        assert problem == "zoe| zoe/all.zip| it has too many members: zip the katas' files alone"

    def test_folders_in_folders_without_end(self, tmp_path: Path) -> None:
        (deep := tmp_path.joinpath("zoe", *"d" * 200)).mkdir(parents=True)
        lay(deep, {"gqa.py": "z = 1"})
        lay(tmp_path, {**TREE, "yan/all.zip": zipped({f"{'d/' * 5000}gqa.py": "y = 1"})})
        attempts, problems = read(tmp_path)
        assert attempts == CLASS
        assert [problem.split("|")[0] for problem in problems] == ["yan", "zoe"]
        assert "more than 20 folders in each other" in problems[1]

    def test_a_bomb_is_not_unpacked(self, tmp_path: Path) -> None:
        bomb = zipped({f"{name}.py": bytes(64 << 20) for name in ("gqa", "rope")})
        assert len(bomb) < 1 << 18
        lay(tmp_path, {**TREE, "zoe/bomb.zip": bomb})
        tracemalloc.start()
        attempts, problems = read(tmp_path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert attempts == CLASS
        assert [problem.split("| ")[2] for problem in problems] == [f"it has more than {SOURCE_LIMIT} bytes"] * 2
        assert most < 16 << 20

    def test_a_bomb_that_lies_about_its_size_is_not_unpacked(self, tmp_path: Path) -> None:
        content = zipped({"gqa.py": bytes(64 << 20)})
        content = content.replace(struct.pack("<I", 64 << 20), struct.pack("<I", 5))
        attempts, (problem,) = read(lay(tmp_path, {**TREE, "zoe/bomb.zip": content}))
        assert attempts == CLASS
        assert "its zip is broken" in problem

    def test_many_large_attempts_of_one_student_are_not_all_kept(self, tmp_path: Path) -> None:
        large = "x = 1\n" * (SOURCE_LIMIT // 6)
        lay(tmp_path, {**TREE, **{f"zoe/{name}.py": large for name in list(KATAS)[:8]}})
        submitted, problems = collect(tmp_path, KATAS)
        assert sum(len(each.source) for each in submitted if each.student == "zoe") <= 4 * SOURCE_LIMIT
        assert "more than 16777216 characters together" in problems[0].why

    def test_zips_with_a_wrong_byte_stop_nothing(self, tmp_path: Path) -> None:
        lay(tmp_path, TREE)
        content = zipped({"gqa.py": "z = 1", "notes/x.txt": "x", "nameless": "y"}).replace(b"nameless", b"\0ameless")
        for at in range(len(content)):
            lay(tmp_path, {f"z{at}.zip": content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]})
        submitted, problems = collect(tmp_path, KATAS)
        assert told(submitted)[:3] == CLASS
        assert {each.student for each in [*submitted[3:], *problems]} >= {f"z{at}" for at in range(len(content))}

    def test_other_packings_and_passwords_are_refused(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
            archive.writestr("ada/gqa.py", "a = 1", zipfile.ZIP_STORED)
            archive.writestr("bob/gqa.py", "b = 1", zipfile.ZIP_LZMA)
            archive.writestr("eve/gqa.py", "e = 1")
        content = bytearray((tmp_path / "c.zip").read_bytes())
        last = content.rindex(b"PK\x01\x02")
        content[last + 8] |= 1  # encrypted
        (tmp_path / "c.zip").write_bytes(content)
        attempts, problems = read(tmp_path / "c.zip")
        assert attempts == ["ada gqa a = 1"]
        assert ["unusual way" in problems[0], "password" in problems[1]] == [True, True]

    @pytest.mark.parametrize(
        "name", ["../eve/gqa.py", "/etc/gqa.py", "C:\\gqa.py", "bob\\..\\..\\gqa.py", "a/../../gqa.py"]
    )
    def test_paths_that_climb_out_are_told(self, tmp_path: Path, name: str) -> None:
        lay(tmp_path, {"gqa.py": "outside", "in/c.zip": zipped({**TREE, name: "x"})})
        attempts, (problem,) = read(tmp_path / "in" / "c.zip")
        assert attempts == CLASS
        assert "leads out of the zip" in problem
        lay(tmp_path / "t", {"t.csv": f"student,kata,path\neve,gqa,{name}\nada,gqa,1.py\n", "1.py": "a = 1"})
        attempts, (problem,) = read(tmp_path / "t" / "t.csv")
        assert attempts == ["ada gqa a = 1"]
        assert "its path leads out of the table's folder" in problem

    def test_links_are_not_followed(self, tmp_path: Path) -> None:
        outside = lay(tmp_path / "secret", {"gqa.py": "secret", "deep/rope.py": "secret"})
        where = lay(tmp_path / "in", {**TREE, "t.jsonl": '{"student": "eve", "path": "eve/gqa.py"}'})
        (where / "eve").mkdir()
        (where / "eve" / "gqa.py").symlink_to(outside / "gqa.py")
        (where / "eve" / "attention").symlink_to(outside / "deep")
        (where / "eve" / "all.zip").symlink_to(outside / "gqa.py")
        (where / "zoe").symlink_to(outside)
        attempts, problems = read(where / "t.jsonl")
        assert (attempts, problems) == ([], ["eve| eve/gqa.py| it is a link: hand in the file itself"])
        (where / "t.jsonl").unlink()
        attempts, problems = read(where)
        assert attempts == CLASS
        assert len(problems) == 4
        assert all("it is a link: hand in the file itself" in problem for problem in problems)

    def test_links_in_a_zip_are_not_followed(self, tmp_path: Path) -> None:
        link = zipfile.ZipInfo("eve/gqa.py")
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
            archive.writestr(link, "/etc/passwd")
            archive.writestr("ada/gqa.py", "a = 1")
        assert read(tmp_path / "c.zip") == (
            ["ada gqa a = 1"],
            ["eve| c.zip: eve/gqa.py| it is a link: hand in the file itself"],
        )

    def test_a_hard_link_to_the_solution_is_the_solution(self, tmp_path: Path) -> None:
        project = lay(tmp_path / "project", {"solutions/attention/gqa.py": KATAS["gqa"].master.read_bytes()})
        katas = catalog.katas(project)
        lay(tmp_path / "in", {"ada/rope.txt": "x"})
        os.link(katas["gqa"].master, tmp_path / "in" / "ada" / "gqa.py")
        submitted, (problem,) = collect(tmp_path / "in", katas)
        assert submitted == []
        assert problem.why == "it is solutions/attention/gqa.py by another name: there is nothing to grade"

    def test_pipes_and_devices_are_not_opened(self, tmp_path: Path) -> None:
        lay(tmp_path, TREE)
        (tmp_path / "zoe").mkdir()
        os.mkfifo(tmp_path / "zoe" / "gqa.py")
        attempts, problems = read(tmp_path)
        assert (attempts, problems) == (CLASS, ["zoe| zoe/gqa.py| it is no regular file"])

    def test_nothing_is_written_or_changed(self, tmp_path: Path) -> None:
        where = lay(tmp_path, {**TREE, "zoe.zip": zipped({"../../out/gqa.py": "x", "gqa.py": "z = 1"})})
        before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in where.rglob("*")}
        collect(where, KATAS)
        assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in where.rglob("*")} == before

    def test_a_student_cannot_hand_in_for_another(self, tmp_path: Path) -> None:
        lay(tmp_path, {**TREE, "eve/bob_12_34_gqa.py": "bad", "eve/bob/gqa.py": "e = 1"})
        lay(tmp_path, {"eve/submission_metadata.yml": METADATA, "eve/t.csv": "student,path\nbob,bob/gqa.py\n"})
        attempts, (problem,) = read(tmp_path)
        assert attempts == [*CLASS, "eve gqa e = 1"]
        assert problem.startswith("eve| eve/bob_12_34_gqa.py| no kata is called")
        canvas = {
            "bob_1_2_gqa.py": "b = 1",
            "eve_3_4_all.csv": "student,kata,path\nbob,gqa,eve_3_5_x.py",
            "eve_3_5_x.py": "bad",
        }
        attempts, _ = read(lay(tmp_path / "canvas", canvas))
        assert attempts == ["bob gqa b = 1"]


class TestNames:
    @pytest.mark.parametrize(
        "name", ["Ωραία", "Ада", "莉", "עדה", "नीलम", "علی\u200cرضا", "👩\u200d🔬", "Ada O'Neill-López, Jr."]
    )
    @pytest.mark.parametrize("way", ["folder", "zip"])
    def test_of_every_script_are_kept(self, tmp_path: Path, name: str, way: str) -> None:
        files = {f"{name}/gqa.py": "a = 1", "bob/gqa.py": "b = 1"}
        zipped(files, tmp_path / "c.zip")
        where = lay(tmp_path / "in", files) if way == "folder" else tmp_path / "c.zip"
        attempts, problems = read(where)
        assert sorted(attempts) == sorted([f"{name} gqa a = 1", "bob gqa b = 1"])
        assert problems == []

    def test_with_a_dot_before_them_are_told_and_join_nobody(self, tmp_path: Path) -> None:
        lay(tmp_path, {**TREE, "..ada/gqa.py": "x = 1", ".git/gqa.py": "y = 1", "bob/..old/gqa.py": "z = 1"})
        attempts, problems = read(tmp_path)
        assert attempts == CLASS
        why = "its name begins with a dot, so it is not read: rename it if it is somebody's work"
        assert problems == [f"| ..ada| {why}", f"bob| bob/..old| {why}"]

    def test_in_two_spellings_are_one(self, tmp_path: Path) -> None:
        both = [unicodedata.normalize(form, "José") for form in ("NFC", "NFD")]
        assert both[0] != both[1]
        attempts, problems = read(lay(tmp_path, {f"{both[0]}/gqa.py": "j = 1", f"{both[1]}/rope.py": "j = 2"}))
        assert attempts == ["José gqa j = 1", "José rope j = 2"]
        (problem,) = problems
        assert problem == "| José| 'José' is spelled in several ways that look the same: taken for one student"
        lay(tmp_path / "t", {"t.csv": f"student,path\nada,{both[0]}/gqa.py\n", f"{both[1]}/gqa.py": "a = 1"})
        assert read(tmp_path / "t" / "t.csv") == (["ada gqa a = 1"], [])

    def test_that_differ_in_capitals_are_two_and_told(self, tmp_path: Path) -> None:
        attempts, (problem,) = read(lay(tmp_path, {"ada/gqa.py": "a = 1", "Ada/gqa.py": "b = 1"}))
        assert attempts == ["Ada gqa b = 1", "ada gqa a = 1"]
        assert problem == "ada| ada| 'ada' and 'Ada' are two students here; rename one if they are not"

    @pytest.mark.parametrize(
        ("name", "harmless"),
        [
            ("ada\u202egnp", "ada\\u202egnp"),
            ("\u200fada", "\\u200fada"),
            ("a\x1b[31mda", "a\\x1b[31mda"),
            ("a\nda\r", "a\\nda\\r"),
            ("ad\u200da", "ad\\u200da"),
            ("ada\udcff", "ada\\udcff"),
            ("a\u2028b", "a\\u2028b"),
        ],
    )
    def test_are_shown_harmlessly(self, tmp_path: Path, name: str, harmless: str) -> None:
        assert shown(name) == harmless
        (tmp_path / name).mkdir()
        lay(tmp_path / name, {"gqa.py": "a = 1", f"{name}.py": "x"})
        (submitted,), (problem,) = collect(tmp_path, KATAS)
        assert (submitted.student, submitted.path) == (harmless, f"{harmless}/gqa.py")
        assert problem.why.startswith(f"no kata is called '{harmless}'")
        assert problem.path == f"{harmless}/{harmless}.py"

    @pytest.mark.parametrize(
        "name", ["GQA.py", "gqa (1).py", "gqa-2.PY", "Copy of gqa.py", "gqa - Copy.py", "ｇｑａ.py"]
    )
    def test_of_katas_may_be_counted_or_in_capitals(self, tmp_path: Path, name: str) -> None:
        assert read(lay(tmp_path, {f"ada/{name}": "a = 1"})) == (["ada gqa a = 1"], [])

    def test_that_macos_zips_without_saying_how(self, tmp_path: Path) -> None:
        content = zipped(
            {"José/gqa.py": "j = 1", "__MACOSX/José/._gqa.py": "x", "bob/.DS_Store": "x", "bob/gqa.py": "b = 1"}
        )
        for at in range(len(content)):
            if content[at : at + 4] == b"PK\x01\x02":
                content = content[: at + 8] + b"\0\0" + content[at + 10 :]
        content = content.replace(b"\x00\x08\x08\x00", b"\x00\x00\x08\x00")
        (tmp_path / "c.zip").write_bytes(content)
        assert read(tmp_path / "c.zip") == (["José gqa j = 1", "bob gqa b = 1"], [])

    def test_that_are_too_long(self, tmp_path: Path) -> None:
        rows = [{"student": "a" * 10_000, "path": "gqa.py"}, {"student": "", "path": "gqa.py"}, {"path": 3}]
        lay(tmp_path, {"t.jsonl": "\n".join(map(json.dumps, rows)), "gqa.py": "a = 1"})
        attempts, problems = read(tmp_path / "t.jsonl")
        assert attempts == []
        assert ["names no student" in problem for problem in problems] == [True, True, False]
        assert "more than 200 characters" in problems[2]


class TestTables:
    @pytest.mark.parametrize(
        ("name", "content", "why"),
        [
            ("t.csv", "name,file\nada,gqa.py\n", "it has no column 'student', but name, file"),
            ("t.csv", "student,path\n", "it has no rows"),
            ("t.csv", "student,path\nÉva,gqa.py\n".encode("latin-1"), "it is not UTF-8 text (byte 13)"),
            ("t.csv", "student,path\n" + "x" * 200_000, "it is no CSV that can be read"),
            ("t.jsonl", "{", "its line 1 is no JSON"),
            ("t.jsonl", "[1]", "its line 1 is no JSON object"),
        ],
    )
    def test_that_cannot_be_read_are_told(self, tmp_path: Path, name: str, content: str | bytes, why: str) -> None:
        with pytest.raises(Trouble) as trouble:
            read(lay(tmp_path, {name: content}) / name)
        assert str(trouble.value).startswith(f"{tmp_path / name}: {why}")

    def test_rows_that_say_nothing_are_told(self, tmp_path: Path) -> None:
        table = "student,kata,path\nada,gqa,1.py\nbob,gqa,2.py\neve,gqua,1.py\nzoe,,1.py\nyan,gqa,.\nkim,gqa,a\0b.py\n"
        attempts, problems = read(lay(tmp_path, {"t.csv": table, "1.py": "a = 1"}) / "t.csv")
        assert attempts == ["ada gqa a = 1"]
        assert [problem.split("| ")[::2] for problem in problems] == [
            ["bob", "there is no such file"],
            ["eve", "no kata is called 'gqua': did you mean gqa?"],
            ["kim", "there is no such file"],
            ["yan", "it is a folder: name a file"],
            [
                "zoe",
                "no kata is called '1': call it as the kata is, or tell which it is in a table (student,kata,path)",
            ],
        ]


def test_three_hundred_students_are_read_in_seconds(tmp_path: Path) -> None:
    files = {f"s{n:03}/{kata}.py": f"x = {n}\n" for n in range(300) for kata in ("gqa", "rope", "mha")}
    submitted, problems = collect(lay(tmp_path, files), KATAS)
    assert (len(submitted), problems) == (900, [])
    assert isinstance(submitted[0], Submitted)
    assert all(isinstance(each, Problem) for each in problems)
