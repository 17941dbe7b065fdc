#!/bin/sh
# test_tour.sh: tour.sh accepts a page that leads where it says, names what does not, and --fix mends lines.
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
mkdir -p "$folder/docs" "$folder/src/a"
fail() { echo "FAILED: $1"; cat "$folder/out"; failed=1; }

printf '%s\n' 'static int first(int);' '' 'static int first(int x) { return x; }' 'int other_first(void)' '{' '    return first(1);' '}' \
  >"$folder/src/a/a.c"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo "int f$i(void)" >"$folder/src/a/b$i.c"; done

# page STEP...: three ways, the first with these steps.
page() {
  { echo '## The rooms'; echo '[a](../src/a)'
    echo '## One'; for step; do echo "1. $step does it."; done
    echo '## Two'; echo '[b1.c:f1](../src/a/b1.c#L1)'; echo '## Three'; echo '[b2.c:f2](../src/a/b2.c#L1)'; } >"$folder/docs/tour.md"
  "$here/tour.sh" "$folder" >"$folder/out"
}
files() { i=1; while [ $i -le "$1" ]; do echo "[b$i.c:f$i](../src/a/b$i.c#L1)"; i=$((i + 1)); done; }
rejects() { # TEXT STEP...
  text=$1
  shift
  page "$@" && fail "accepted: $*"
  grep -qF "$text" "$folder/out" || fail "not said: $text"
}

page '[a.c:first](../src/a/a.c#L3) and [a.c:other_first](../src/a/a.c#L4)' || fail "a sound page is refused"
IFS='
'
page $(files 15) || fail "15 files are refused"
rejects 'the way "One" has 16 files, 15 are allowed' $(files 16)
unset IFS
rejects 'line 2 of src/a/a.c is not where first begins: 3' '[a.c:first](../src/a/a.c#L2)'
rejects 'line 6 of src/a/a.c is not where first begins: 3' '[a.c:first](../src/a/a.c#L6)' # it is only called there
rejects 'line 1 of src/a/a.c is not where first begins: 3' '[a.c:first](../src/a/a.c#L1)' # and declared here
rejects 'src/a/a.c has no function second' '[a.c:second](../src/a/a.c#L3)'
rejects 'there is no src/a/c.c' '[c.c:first](../src/a/c.c#L3)'
rejects 'is not [FILE:FUNCTION]' '[first](../src/a/a.c#L3)'
rejects 'is not [FILE:FUNCTION]' '[b1.c:first](../src/a/a.c#L3)'
rejects 'the way "One" has no step' nobody
sed -i '/Three/,$d' "$folder/docs/tour.md"
"$here/tour.sh" "$folder" >"$folder/out" && fail "two ways are enough"

page '[a.c:first](../src/a/a.c#L9) [b](../src/a) [a.c:other_first](../src/a/a.c#L1)'
"$here/tour.sh" --fix "$folder" >"$folder/out" || fail "--fix leaves wrong lines"
grep -qx '1. \[a.c:first\](../src/a/a.c#L3) \[b\](../src/a) \[a.c:other_first\](../src/a/a.c#L4) does it.' "$folder/docs/tour.md" ||
  { cp "$folder/docs/tour.md" "$folder/out"; fail "--fix changes something else"; }
exit $failed
