#!/bin/sh
# tour.sh [--fix] [FOLDER]: does docs/tour.md lead where it says? A step of a way is [file.c:function](../path/file.c#L12): the
# file must be there, and its line 12 must begin that function. A way has at most 15 files, and there are three.
# --fix writes the lines where the functions are now.
here=$(cd "$(dirname "$0")" && pwd)
fix=0
[ "${1:-}" != --fix ] || { fix=1; shift; }
cd "${1:-$here/../..}" || exit 1
page=docs/tour.md
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
awk -v fix=$fix '
  function wrong(text) { if (!fix) print FILENAME ":" FNR ": " text; bad = 1 }

  # The line of the file on which the function begins: its name in a line that begins in the first column and is no
  # declaration. 0: it has none. -1: there is no such file.
  function line_of(path, name,   key, text, line, got, at) {
    key = path SUBSEP name
    if (key in known) return known[key]
    for (line = 1; (got = (getline text < path)) > 0; line++)
      if (!at && text ~ "^[A-Za-z].*[^A-Za-z0-9_]" name "\\(" && text !~ /;[ ]*$/) at = line
    close(path)
    return known[key] = got < 0 ? -1 : at + 0
  }

  function end_of_way() {
    if (way != "" && !files) wrong("the way \"" way "\" has no step")
    if (files > 15) wrong("the way \"" way "\" has " files " files, 15 are allowed")
    ways += files > 0
    files = 0
    split("", seen)
  }

  # What is checked of one link; returns it with the line where the function is.
  function step(link,   label, path, line, at, name, file) {
    label = link; sub(/^\[/, "", label); sub(/\].*/, "", label)
    path = link; sub(/^[^(]*\(\.\.\//, "", path); sub(/#.*/, "", path)
    line = link; sub(/.*#L/, "", line); sub(/\).*/, "", line)
    file = label; sub(/:.*/, "", file)
    name = label; sub(/[^:]*:/, "", name)
    if (label !~ /^[a-z0-9_]+\.[a-z]+:[a-z0-9_]+$/ || path !~ "/" file "$") {
      wrong(link " is not [FILE:FUNCTION](../PATH/FILE#LINE)")
      return link
    }
    at = line_of(path, name)
    if (at < 0) wrong("there is no " path)
    else if (!at) wrong(path " has no function " name)
    else if (at != line + 0) wrong("line " line " of " path " is not where " name " begins: " at)
    if (!(path in seen)) { seen[path]; files++ }
    return at > 0 ? "[" label "](../" path "#L" at ")" : link
  }

  /^## / { end_of_way(); way = $0; sub(/^## /, "", way); if (way == "The rooms") way = "" }
  {
    out = ""; rest = $0
    while (match(rest, /\[[^][]*\]\([^()]*#L[0-9]+\)/)) {
      out = out substr(rest, 1, RSTART - 1) step(substr(rest, RSTART, RLENGTH))
      rest = substr(rest, RSTART + RLENGTH)
    }
    if (fix) print out rest
  }
  END {
    end_of_way()
    if (ways != 3) wrong(ways " ways, not 3")
    exit fix ? 0 : bad
  }
' "$page" >"$out"
rc=$?
if [ $fix = 1 ]; then
  cat "$out" >"$page"
  "$here/tour.sh" .
  exit
fi
cat "$out"
exit $rc
