#!/usr/bin/env bash
# Gradescope runs this for each submission; what it prints, the staff alone sees.
here=${AUTOGRADER:-/autograder}
export DOJO_ROOT=$here/source/project PYTHONPATH=$here/source/project
cd "$here" && exec "$here/environment/bin/python" -m dojo.cohort.outputs.platforms.arrival "$here"
