#!/bin/sh
# test_format.sh: format.sh names a file of each kind that is laid out otherwise, mends it, and passes over what is listed.
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
failed=0
fail() { echo "FAILED: $1: $said"; failed=1; }
bad='int   f( int x ){return x ;}'
mkdir -p "$tree/src/base" "$tree/src/cli" "$tree/tests/tidy"

echo 'int f(int x) { return x; }' >"$tree/src/base/good.c"
said=$("$here/format.sh" "$tree")
[ $? = 77 ] && { echo "$said"; exit 77; }
[ -z "$said" ] || fail "a formatted file is refused"
for file in src/base/a.c src/base/a.h src/base/a.cu src/base/a.cuh tests/a.c; do
  echo "$bad" >"$tree/$file"
  said=$("$here/format.sh" "$tree") && fail "$file was accepted"
  echo "$said" | grep -q "^$file:1:.*not as clang-format has it" || fail "$file is not named"
  "$here/format.sh" --fix "$tree"
  said=$("$here/format.sh" "$tree") || fail "$file was not mended"
  cmp -s "$tree/$file" "$tree/src/base/good.c" || fail "$file is otherwise"
done
echo "$bad" >"$tree/src/cli/a.c"
said=$("$here/format.sh" "$tree") && fail "src/cli/a.c was accepted"
[ $failed = 0 ] && echo "format.sh names what it should"
exit $failed
