#!/bin/sh
# test_links.sh: links.sh accepts links that lead somewhere, and names those that do not.
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $1"; cat "$folder/out"; failed=1; }
mkdir -p "$folder/docs/formats" "$folder/src"
echo 'int x;' >"$folder/src/a.c"
printf '%s\n' '# Formats' '' '## The file, and `its` name' >"$folder/docs/formats/one.md"
echo '[a](../src/a.c#L1) [here](#other)
# Other' >"$folder/docs/page.md"
echo '[one](formats/one.md)' >"$folder/docs/README.md"

# readme TEXT: a README.md that links to the pages, and this.
readme() {
  { echo '[p](docs/page.md), [d](docs/README.md)'; printf '%s\n' "$1"; } >"$folder/README.md"
  "$here/links.sh" "$folder" >"$folder/out"
}
rejects() { readme "$1" && fail "accepted: $1"; grep -qF "$2" "$folder/out" || fail "not said: $2"; }

readme '[h](docs/formats/one.md#the-file-and-its-name), [web](https://example.org/x.md), [folder](src) `[code](nowhere)`

    [code](nowhere)

1. a step
   [a](src/a.c)' || fail "sound links are refused"
rejects '[x](src/b.c)' 'README.md:2: src/b.c leads nowhere'
rejects '| [x](docs/pages.md) |' 'README.md:2: docs/pages.md leads nowhere'
rejects '[x](docs/formats/one.md#the-files)' 'README.md:2: ./docs/formats/one.md has no heading the-files'
rejects '1. a step
    [x](src/b.c)' 'README.md:3: src/b.c leads nowhere'
rejects "$(yes line | head -n 90)" 'README.md has 91 lines'
echo '[a](b.c)' >"$folder/docs/formats/two.md"
rejects '' 'neither README.md nor docs/README.md links to docs/formats/two.md'
grep -qF 'docs/formats/two.md:1: b.c leads nowhere' "$folder/out" || fail "only README.md is read"
exit $failed
