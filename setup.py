"""Puts the katas into the package, for who installs it without a clone, as a notebook on Colab does."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("katas", "solutions", "graders", "notebooks")


class BuildWithKatas(build_py):
    """Copies the folders of a project to where `dojo.content.catalog` looks for one last."""

    def run(self) -> None:
        super().run()
        for name in FOLDERS if not self.editable_mode else ():
            to = Path(self.build_lib) / "dojo" / "project" / name
            shutil.copytree(name, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))


setup(cmdclass={"build_py": BuildWithKatas})
