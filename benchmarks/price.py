"""What a kata costs in lines written by hand, by part; `dojo prove KATA` tells what its proof costs.

python benchmarks/price.py [KATA ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from dojo.content import catalog  # noqa: E402
from dojo.proving.price import lines  # noqa: E402


def main() -> int:
    """Print a row for each kata, and the mean."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="KATA", help="a kata, a track or `all`")
    names = parser.parse_args().names
    try:
        rows = {kata.name: lines(kata) for kata in catalog.select(names)}
    except catalog.Trouble as trouble:
        parser.error(str(trouble))
    parts = list(next(iter(rows.values())))
    print(f"{'kata':<20}" + "".join(f"{part:>10}" for part in (*parts, "lines")))
    for name, row in rows.items():
        print(f"{name:<20}" + "".join(f"{count:>10}" for count in (*row.values(), sum(row.values()))))
    means = [sum(row[part] for row in rows.values()) / len(rows) for part in parts]
    print(f"{'mean':<20}" + "".join(f"{mean:>10.1f}" for mean in (*means, sum(means))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
