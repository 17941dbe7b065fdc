#!/bin/sh
# promises.sh [FOLDER]: does every row of docs/promises.md name a test, and is every test that it names there?
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 1
awk -F'|' '
  function wrong(text) { print FILENAME ":" FNR ": " text; bad = 1 }
  function has(file, text,   line, found) {
    while ((getline line < file) > 0) if (index(line, text)) found = 1
    close(file)
    return found
  }
  /^\|/ && $2 !~ /^ *(promise|-+) *$/ && $2 !~ /^-+$/ {
    rest = $3; count = 0
    while (match(rest, /`[^`]*`/)) {
      test = substr(rest, RSTART + 1, RLENGTH - 2)
      rest = substr(rest, RSTART + RLENGTH)
      count++
      file = test; sub(/:.*/, "", file)
      if ((getline line < file) < 0) { wrong("there is no " file); continue }
      close(file)
      if (index(test, ": ") && !has(file, "TEST(" substr(test, index(test, ": ") + 2) ")"))
        wrong(file " has no test " substr(test, index(test, ": ") + 2))
    }
    if (!count) wrong("a promise without a test:" $2)
    rows++
  }
  END { if (rows < 10) { print "docs/promises.md has only " rows + 0 " promises"; bad = 1 }; exit bad }
' docs/promises.md
