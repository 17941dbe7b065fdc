#!/bin/sh
# test_promises.sh: promises.sh accepts a page whose tests are there, and names what is missing.
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
mkdir -p "$folder/docs" "$folder/tests"
echo 'TEST(it_holds)' >"$folder/tests/test_a.c"

# page ROW: ten sound rows, and this one.
page() {
  { echo '| promise | held by |'; echo '|---|---|'
    for i in 1 2 3 4 5 6 7 8 9 10; do echo "| a $i | \`tests/test_a.c: it_holds\`, \`tests/test_a.c\` |"; done
    echo "$1"; } >"$folder/docs/promises.md"
  "$here/promises.sh" "$folder" >"$folder/out"
}
page '' || { echo "FAILED: a sound page is refused"; cat "$folder/out"; failed=1; }
rejects() { page "$1" && { echo "FAILED: accepted: $1"; failed=1; }
            grep -q "docs/promises.md:13: $2" "$folder/out" || { echo "FAILED: not said: $2"; cat "$folder/out"; failed=1; }; }
rejects '| b | nobody |' 'a promise without a test'
rejects '| b | `tests/test_b.c` |' 'there is no tests/test_b.c'
rejects '| b | `tests/test_a.c: it_hold` |' 'tests/test_a.c has no test it_hold'
exit $failed
