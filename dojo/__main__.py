"""`python -m dojo`."""

import sys

from dojo.cli import main

if __name__ == "__main__":
    sys.exit(main())
