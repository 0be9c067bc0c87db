#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image: an environment for the dojo.
set -euo pipefail
here=${AUTOGRADER:-/autograder}
cd "$here/source"

recent() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python=""
for each in python3 python3.14 python3.13 python3.12 python3.11; do
  if recent "$each"; then python=$each; break; fi
done
if [ -z "$python" ]; then  # an older Ubuntu, whose python3 is too old
  apt-get update && apt-get install -y python3.11 python3.11-venv
  python=python3.11
fi
command -v bwrap >/dev/null || apt-get install -y bubblewrap || echo "no bubblewrap: the judge's own walls alone"

"$python" -m venv "$here/environment"
if [ -f index.txt ]; then PIP_EXTRA_INDEX_URL=$(cat index.txt); export PIP_EXTRA_INDEX_URL; fi
from=()
if [ -d wheels ]; then from=(--no-index --find-links wheels); fi
"$here/environment/bin/python" -m pip install "${from[@]}" --constraint constraints.txt --requirement requirements.txt
