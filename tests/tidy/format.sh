#!/bin/sh
# format.sh [--fix] [FOLDER]: are the C and CUDA files of src, include and tests (of this tree by default)
# as clang-format lays them out by .clang-format? Prints the lines that are not; --fix changes the files.
# Other versions of clang-format lay out differently: without 14 the answer is 77, skipped.
here=$(cd "$(dirname "$0")" && pwd)
fix=
[ "${1:-}" = --fix ] && { fix=1; shift; }
for format in clang-format-14 clang-format none; do
  "$format" --version 2>/dev/null | grep -q ' version 14\.' && break
done
[ "$format" = none ] && { echo "no clang-format 14"; exit 77; }
cd "${1:-$here/../..}" || exit 1

files=$(find src include tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort)
[ -n "$files" ] || exit 0
style=file:$here/../../.clang-format
if [ -n "$fix" ]; then
  echo "$files" | xargs "$format" --style="$style" -i
  exit
fi
said=$(echo "$files" | xargs -n 32 -P "$(nproc)" "$format" --style="$style" --dry-run -Werror 2>&1 |
  sed -n 's/: error: code should be clang-formatted.*/: not as clang-format has it; tests\/tidy\/format.sh --fix/p')
[ -z "$said" ] || { echo "$said" | sort -t: -k1,1 -k2,2n; exit 1; }
