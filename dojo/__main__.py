"""`python -m dojo`."""

import sys

from dojo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
