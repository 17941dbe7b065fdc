#!/bin/sh
# test_install.sh: what cmake --install puts down can be used: the program runs, its pages are
# there, and a stranger's program builds against the header with the flags of frugal.pc alone.
cd "$(dirname "$0")/../.." || exit 1
prefix=$(mktemp -d) || exit 1
trap '[ "${BASHPID:-$$}" != $$ ] || { rm -rf "$prefix"; }' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }

[ -e build/frugal ] && [ -e include/frugal.h ] || { echo "no program or public header yet"; exit 77; }
cmake --install build --prefix "$prefix" >/dev/null || fail "cmake --install"

"$prefix/bin/frugal" help >/dev/null || fail "the installed program does not run"
for page in man/man1/frugal.1 bash-completion/completions/frugal zsh/site-functions/_frugal \
  fish/vendor_completions.d/frugal.fish; do
  [ -s "$prefix/share/$page" ] || fail "share/$page is missing or empty"
done

# frugal.pc by hand, because pkg-config itself need not be installed.
pc=$(find "$prefix" -name frugal.pc)
[ -n "$pc" ] || fail "frugal.pc is missing"
value() { sed -n "s|^$1: *||p" "$pc" | sed "s|\${libdir}|$libdir|g; s|\${includedir}|$includedir|g"; }
path() { sed -n "s|^$1=||p" "$pc" | sed "s|\${pcfiledir}|$(dirname "$pc")|; s|\${prefix}|$at|"; }
at=$(path prefix) libdir=$(path libdir) includedir=$(path includedir)
printf '#include <frugal.h>\nint main(void) { return !frugal_version()[0]; }\n' >"$prefix/user.c"
cc $(value Cflags) "$prefix/user.c" $(value Libs) -o "$prefix/user" && LD_LIBRARY_PATH=$libdir "$prefix/user" ||
  fail "a program does not build with the flags of frugal.pc"
cc $(value Cflags) "$prefix/user.c" -L"$libdir" -l:libfrugal.a $(value Libs.private) -o "$prefix/user" && "$prefix/user" ||
  fail "a program does not build with the static library and Libs.private of frugal.pc"
for link in libfrugal.so libfrugal.so.0; do [ -L "$libdir/$link" ] || fail "$link is missing"; done

# The program looks for its modules where they are installed: it finds this one, which is none.
mkdir -p "$libdir/frugal"
echo 'int nothing;' >"$prefix/empty.c"
cc -shared -fPIC "$prefix/empty.c" -o "$libdir/frugal/frugal_cuda.so"
env -u FRUGAL_CUDA FRUGAL_RUN_LEDGER=none "$prefix/bin/frugal" train examples/ranker.yaml train.device=cuda 2>&1 |
  grep -q 'the CUDA module has no frugal_cuda_open' || fail "the installed module is not found"
exit $failed
