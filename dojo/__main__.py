"""`python -m dojo`."""

import os
import sys

from dojo.cli.main import main
from dojo.content.catalog import STARTED_BY

if __name__ == "__main__":
    os.environ.setdefault(STARTED_BY, "python -m dojo")  # unless the noxfile did
    sys.exit(main())
