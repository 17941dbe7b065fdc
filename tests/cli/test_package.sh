#!/bin/bash
# test_package.sh: tarball and wheel of what is in build/: the same bits twice, and both train, each where nothing else of
# frugal is, with the bill in `frugal runs`. scripts/package test does the same with the real ones in fresh roots.
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
[ -e build/frugal ] && [ -e build/libfrugal.so ] || { echo "no program and shared library in build/"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap '[ "${BASHPID:-$$}" != $$ ] || { rm -rf "$work"; }' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }

for folder in one two; do
  FROM=build WORK=$work/$folder scripts/package tarball wheel 2>"$work/$folder.log" || { cat "$work/$folder.log"; fail "scripts/package"; }
done
diff "$work/one/out/SHA256SUMS" "$work/two/out/SHA256SUMS" || fail "two packages of the same files differ"
[ "$(wc -l <"$work/one/out/SHA256SUMS")" = 2 ] || fail "not two packages"

# The checklist of a release: what was not done is missing, and header and symbols agree at any time.
if WORK=$work/one scripts/package release >"$work/checklist"; then fail "a release without Debian packages is ready"; fi
for line in 'ok       tests/abi/' 'ok       debian/libfrugal0.symbols' 'ok       scripts/package twice: tarball' 'ok       all as SHA256SUMS' \
  'missing  scripts/package twice: Debian packages' 'missing  the same bits the second time' 'missing  scripts/package test'; do
  grep -q "^$line" "$work/checklist" || fail "the checklist does not say: $line"
done

# trains NAME COMMAND...: in an empty home.
trains() {
  mkdir -p "$work/home-$1" && cd "$work/home-$1" || exit 1
  env -u FRUGAL_RUN_LEDGER HOME="$PWD" "$2" train "$3" train.steps=20 train.target=none train.usd_hour=1 >out 2>&1 || { cat out; fail "$1 does not train"; }
  env -u FRUGAL_RUN_LEDGER HOME="$PWD" "$2" runs | grep -Eq 'ranker .*end .*\$' || fail "$1: no bill in frugal runs"
  cd "$top" || exit 1
}
mkdir "$work/unpacked"
tar -C "$work/unpacked" -xzf "$work"/one/out/frugal-*.tar.gz
root=$(echo "$work"/unpacked/frugal-*)
trains tarball "$root/bin/frugal" "$root/examples/ranker.yaml"
for file in share/man/man1/frugal.1 LICENSE; do [ -s "$root/$file" ] || fail "$file is not in the tarball"; done

if python3 -m pip --version >/dev/null 2>&1; then
  python3 -m pip install -q --no-index --no-deps --target "$work/site" "$work"/one/out/*.whl || fail "pip install"
  trains wheel "$work/site/bin/frugal" "$root/examples/ranker.yaml"
  (cd "$work" && env -u FRUGAL PYTHONPATH="$work/site" PYTHONDONTWRITEBYTECODE=1 python3 -c '
import frugal, os
assert frugal.program() == os.path.join(os.environ["PYTHONPATH"], "bin", "frugal"), frugal.program()
print(frugal.version())') || fail "the module does not find its program"
  # The wheel's CUDA module is found beside the package: this one is none, and it says so.
  echo 'int nothing;' | cc -shared -fPIC -xc - -o "$work/site/frugal/frugal_cuda.so"
  env -u FRUGAL_CUDA FRUGAL_RUN_LEDGER=none "$work/site/bin/frugal" train examples/ranker.yaml train.device=cuda 2>&1 |
    grep -q 'the CUDA module has no frugal_cuda_open' || fail "the module of the wheel is not found"
else
  echo "no pip: the wheel was not installed"
fi
exit $failed
