# common.sh: what the transcripts of the command line share; sourced by tests/cli/test_*.sh. Leaves the
# caller in an empty folder that goes away with it. FRUGAL names another program than build/frugal.
top=$(cd "$(dirname "$0")/../.." && pwd)
frugal=${FRUGAL:-$top/build/frugal}
[ -x "$frugal" ] || { echo "no $frugal yet"; exit 77; }
folder=$(mktemp -d) || exit 1
# A background command that is signalled before it is more than a fork of this shell has the trap too. So that it is not: who waits for a word
# in `out` or `err` empties them before the command starts.
trap '[ "${BASHPID:-$$}" != $$ ] || { rm -rf "$folder"; }' EXIT
cd "$folder" || exit 1
failed=0
export FRUGAL_RUN_LEDGER=none # the user's own is none of our business
export FRUGAL_TRAIN_PRECISION=fp32 # auto depends on the processor; test_train.sh and test_resume.sh test it
fail() { echo "FAILED: $1"; head -n 5 out err; failed=1; }

# run CODE ARGUMENT...: runs frugal, with stdout in `out` and stderr in `err`.
run() {
  code=$1
  shift
  "$frugal" "$@" >out 2>err </dev/null
  rc=$?
  [ $rc = "$code" ] || fail "frugal $*: exit $rc, not $code"
}
has() { grep -qE -- "$2" "$1" || fail "$1 lacks $2"; }
lacks() { ! grep -qE -- "$2" "$1" || fail "$1 has $2"; }

# 400 images of 2x2 pixels in four classes, the pixel of the class bright: files images and labels.
four_classes() {
  { printf '\0\0\010\003\0\0\001\220\0\0\0\002\0\0\0\002'
    for i in $(seq 100); do printf '\377\0\0\0\0\377\0\0\0\0\377\0\0\0\0\377'; done; } >images
  { printf '\0\0\010\001\0\0\001\220'; for i in $(seq 100); do printf '\0\001\002\003'; done; } >labels
}

# same_numbers A B: have two files of weights the same numbers? Their headers hold the settings of their runs, which may differ.
numbers_of() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" >"$1.numbers"; }
same_numbers() { numbers_of "$1" && numbers_of "$2" && cmp -s "$1.numbers" "$2.numbers"; }
