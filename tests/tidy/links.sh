#!/bin/sh
# links.sh [FOLDER]: does every relative link in a Markdown file lead somewhere, does README.md or docs/README.md link to every page of
# docs/, and is README.md short enough to be read at once?
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 1
readme_lines_max=90
bad=0
wrong() { echo "$1"; bad=1; }
links=$(mktemp) || exit 1
trap 'rm -f "$links"' EXIT

# FILE LINE TARGET of every link; code is no link.
find . \( -path './.git' -o -path './build*' -o -path './.cache' \) -prune -o -type f -name '*.md' -print | sed 's|^\./||' | sort |
  while read -r file; do
    awk -v file="$file" '
      /^ *```/ { code = !code }
      code || /^    / && !/^ *([0-9]+\.|-|\[) / && !listed { next }
      { listed = /^ *([0-9]+\.|-) / || (listed && /^  /) }
      {
        gsub(/`[^`]*`/, "")
        while (match($0, /\]\([^()]*\)/)) {
          print file, FNR, substr($0, RSTART + 2, RLENGTH - 3)
          $0 = substr($0, RSTART + RLENGTH)
        }
      }' "$file"
  done >"$links"

# anchor FILE NAME: the file has a heading that becomes this name, as GitHub makes it.
anchor() {
  sed -n 's/^#\{1,\} *//p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g' | grep -qx -- "$2"
}

while read -r file line target; do
  case $target in *://* | mailto:*) continue ;; esac
  path=${target%%#*} name=
  case $target in *#*) name=${target#*#} ;; esac
  folder=.
  case $file in */*) folder=${file%/*} ;; esac
  to=$folder/$path
  [ -n "$path" ] || to=$file
  [ -e "$to" ] || { wrong "$file:$line: $target leads nowhere"; continue; }
  case $to:$name in
    *: | *:L[0-9]*) ;;
    *) anchor "$to" "$name" || wrong "$file:$line: $to has no heading $name" ;;
  esac
done <"$links"

for page in docs/*.md docs/*/*.md; do
  [ -e "$page" ] || continue
  case $page in docs/README.md) ;; *) grep -q "^docs/README.md [0-9]* ${page#docs/}\$" "$links" ;; esac ||
    grep -q "^README.md [0-9]* $page\$" "$links" || wrong "neither README.md nor docs/README.md links to $page"
done
lines=$(wc -l <README.md)
[ "$lines" -le $readme_lines_max ] || wrong "README.md has $lines lines, $readme_lines_max are allowed: move something to a page of docs/"
exit $bad
