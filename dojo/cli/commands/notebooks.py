"""The command that makes scripts and notebooks agree."""

from __future__ import annotations

import argparse
import sys

from dojo.cli.commands.declared import KATAS_OR_ALL, NOTEBOOKS, Misused, argument, command


@command(
    NOTEBOOKS,
    "make scripts and notebooks agree",
    KATAS_OR_ALL,
    argument("--from", dest="source", choices=["notebook", "script"], help="this side is right"),
    examples=(("", ""), ("rope --from notebook", "")),
)
def sync(args: argparse.Namespace) -> int:
    if args.source and not args.names:
        raise Misused("--from overwrites the other side, so it needs the NAMEs it is meant for")
    from dojo.cli.selection import check_files
    from dojo.content import catalog, sync
    from dojo.verdict.screen.text import filled

    status, quiet = 0, True
    katas = catalog.select(args.names)
    check_files(katas)
    for kata in katas:
        try:
            message = sync.sync(kata, args.source)
        except sync.SyncError as error:  # one pair in trouble must not keep the others from their turn
            message, status = None, 1
            print(filled(f"dojo: {error}", sys.stderr), file=sys.stderr)
        if message:
            quiet = False
            print(filled(message, sys.stdout), flush=True)
    if quiet and status == 0:
        print("scripts and notebooks agree")
    return status
