#!/bin/sh
# tidy.sh [FOLDER]: does the tree (this one by default) keep the rules of the house? tidy.awk has
# the rules; each breach is one line with file, line and remedy.
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 1
find . \( -path './.git' -o -path './build*' -o -path './.cache' \) -prune -o -type f \( \
    -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' -o -name '*.sh' -o -name '*.awk' \
    -o -name '*.py' -o -name '*.md' -o -name '*.yaml' -o -name '*.cmake' -o -name CMakeLists.txt \
    -o -path './check' -o -path './demo' -o -path './scripts/*' -o -path './.ci/*' \) -print |
  sed 's|^\./||' | sort | LC_ALL=C awk -f "$here/tidy.awk" -
