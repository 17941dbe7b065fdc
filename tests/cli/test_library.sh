#!/bin/sh
# test_library.sh: libfrugal.so.0 exports what the header declares and nothing else, and a program that was compiled against an
# older header runs with it: against that of each earlier version (tests/abi), and against one that lacks the last fields of
# struct frugal_config.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap '[ "${BASHPID:-$$}" != $$ ] || { rm -rf "$work"; }' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }

library=build/libfrugal.so.0
[ -e $library ] || { echo "no shared library in this build"; exit 77; }
objdump -p $library | grep -q 'SONAME *libfrugal.so.0$' || fail "its SONAME is not libfrugal.so.0"

sed -n 's/.*FRUGAL_API .*[ *]\(frugal_[a-z_]*\)(.*/\1/p' include/frugal.h | sort >"$work/header"
sed -n 's/^ *\(frugal_[a-z_]*\);$/\1/p' src/train/libfrugal.map | sort >"$work/map"
nm -D --defined-only $library | sed -n 's/.* T \([^@]*\)@@FRUGAL_[0-9.]*$/\1/p' | sort >"$work/exported"
nm -D --defined-only $library | grep -v ' A ' | grep -vc '@@FRUGAL_' | grep -qx 0 || fail "it exports symbols without a version"
[ -s "$work/header" ] || fail "no function was found in the header"
diff "$work/header" "$work/map" || fail "the header and libfrugal.map differ"
diff "$work/map" "$work/exported" || fail "libfrugal.map and the library's symbols differ"

# runs NAME HEADER: examples/own_layer.c, compiled against that header.
runs() {
  mkdir -p "$work/$1"
  cp "$2" "$work/$1/frugal.h"
  cc -Wall -Werror "-I$work/$1" examples/own_layer.c -o "$work/$1/program" -Lbuild -l:libfrugal.so.0 -lm ||
    { fail "examples/own_layer.c does not compile against $1"; return; }
  LD_LIBRARY_PATH=build "$work/$1/program" >"$work/$1/out" || fail "compiled against $1, it does not run"
}
runs now include/frugal.h
for header in tests/abi/frugal-*.h; do
  runs "$(basename "$header")" "$header"
  cmp "$work/now/out" "$work/$(basename "$header")/out" || fail "compiled against $header, it trains something else"
done
sed '/ muon_lr; /d; / \*init; /d; / \*freeze; /d' include/frugal.h >"$work/shorter.h"
[ "$(diff include/frugal.h "$work/shorter.h" | grep -c '^<')" = 3 ] || fail "the last fields were not found"
runs shorter "$work/shorter.h"
cmp "$work/now/out" "$work/shorter/out" || fail "compiled against a header without the last fields, it trains something else"

# One that is too new uses what this library does not have: refused, unless it is 0.
sed 's/^\(.* \*freeze; .*\)$/\1\n    const char *future;/' include/frugal.h >"$work/longer.h"
runs longer "$work/longer.h"
sed 's/= { \.batch/= { .future = "x", .batch/' examples/own_layer.c >"$work/future.c"
cmp -s examples/own_layer.c "$work/future.c" && fail "the configuration in the example was not found"
cc "-I$work/longer" "$work/future.c" -o "$work/future" -Lbuild -l:libfrugal.so.0 -lm
LD_LIBRARY_PATH=build "$work/future" 2>&1 | grep -q 'compiled for a newer libfrugal' || fail "a field from the future is ignored"
exit $failed
