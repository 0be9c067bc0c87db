"""bubblewrap around the process that workers come from: a file system of its own, in which there is nothing to find.

The worker's own layers hold inside it as well. What it adds is a second wall: solutions, graders and the user's files
are not hidden there but absent, and so is every network device, whatever an attempt does to its own process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dojo.content.catalog import ROOT, Trouble
from dojo.judge.worker.isolation import confinement, kernel


def prefix() -> list[str]:
    """The words that run the command after them in a sandbox.

    Raises Trouble where bubblewrap is missing or the system does not let it work.
    """
    found = shutil.which("bwrap")
    if found is None:
        raise Trouble(
            "--sandbox needs bubblewrap, and there is no command bwrap here: install your system's package "
            "`bubblewrap` (Linux only), or grade without --sandbox"
        )
    words = [found, "--die-with-parent", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    words += ["--dev", "/dev", "--ro-bind", "/proc", "/proc", "--tmpfs", "/tmp"]
    for path in _seen():
        words += ["--ro-bind", path, path]
    for device in kernel.DEVICES[1:]:
        words += ["--dev-bind", device, device]
    words += ["--chdir", "/", "--"]
    tried = subprocess.run([*words, sys.executable, "-I", "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise Trouble(f"bubblewrap does not work here: {tried.stderr.strip() or f'exit status {tried.returncode}'}")
    return words


def _seen() -> list[str]:
    """What exists in the sandbox: Python, its libraries, the judge's own modules and the stubs."""
    interpreters = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    wanted = {str(Path(prefix, part)) for prefix in interpreters for part in ("bin", "pyvenv.cfg")}
    wanted |= {str(ROOT / "dojo"), str(ROOT / "katas"), *confinement.needed()}
    kept: list[str] = []
    for path in sorted(path for path in wanted if os.path.exists(path) and not path.startswith(("/proc/", "/dev/"))):
        if not any(path.startswith(f"{above}/") for above in kept):
            kept.append(path)
    return kept
