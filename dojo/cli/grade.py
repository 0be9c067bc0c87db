"""`grade`: a judge is started before all else, and imports torch while the rest is imported and read."""

from __future__ import annotations

import argparse
import os

from dojo.grading.judge_process import JudgeHere, JudgeProcess


def main(args: argparse.Namespace) -> int:
    """Grade what the command line names; returns the exit status: 0 if all that was asked passes, else 1."""
    judge = _judge(args)
    try:
        from dojo.cli import verdicts

        return verdicts.grade(args, judge)
    finally:
        judge.close()


def _judge(args: argparse.Namespace) -> JudgeProcess | JudgeHere:
    if not (args.sandbox or args.pdb):
        return JudgeProcess()
    around = []
    if args.sandbox:
        from dojo.judge import sandbox

        around = sandbox.prefix()
    if args.pdb:
        os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # as workers have it: the profiler would write at every check
    return JudgeHere(around, args.pdb)
