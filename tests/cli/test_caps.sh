#!/bin/bash
# test_caps.sh: train.max_dollars and train.max_seconds hold over all starts of a run, whatever kills them: what is
# printed, what the ledger has and what the clock on the wall says agree. SEED=N repeats the times of the kills.
# check: alone, it compares the wall clock with a cap
. "$(dirname "$0")/common.sh"
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "SEED=$seed"
RANDOM=$seed
command -v python3 >/dev/null || exit 77
four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 100000000, usd_hour: 3600, lr: 0.01}
checkpoint: {dir: kept, every: 2000, keep: 2}
END

now() { echo "${EPOCHREALTIME/./}"; } # microseconds
real=0 wall=0 lives=0
spent() { sed -n 's/.*"ns":\([0-9]*\)[0-9][0-9][0-9],"usd".*/\1/p' kept/spent.json 2>/dev/null | grep . || echo 0; } # microseconds
# life MICROSECONDS ARGUMENT...: frugal, killed after so long, but not before it has said once what it spent (0: left alone). Adds to `wall` what it lived, but of one that is
# killed only what it added to spent.json (`real` has all of it): its beginning and what came after its last word no file has. That this is less
# than a tenth of a second on a quiet machine is tests/unit/test_tally.c's to show. `lives` counts those left alone.
life() {
  limit=$1
  shift
  before=$(spent)
  begin=$(now)
  : >out; : >err
  "$frugal" "$@" >out 2>err </dev/null &
  pid=$!
  if [ "$limit" -gt 0 ]; then
    python3 -c "import time; time.sleep($limit / 1e6)"
    for ((tries = 0; tries < 50; tries++)); do
      [ "$(spent)" = "$before" ] || break
      sleep 0.1
    done
    kill -9 $pid 2>/dev/null
  fi
  { wait $pid; rc=$?; } 2>/dev/null
  real=$((real + $(now) - begin))
  if [ "$limit" -gt 0 ]; then wall=$((wall + $(spent) - before)); else wall=$((wall + $(now) - begin)) lives=$((lives + 1)); fi
}
# unseen: the seconds of a start that no clock of ours has, measured: a run of one step, from the shell's call until the
# shell has noticed its end, less what it printed; twice the longest of three, as a longer run has more to close.
unseen=0
measure_unseen() {
  local real_so_far=$real wall_so_far=$wall lives_so_far=$lives
  for i in 1 2 3; do
    cp out out.kept; cp err err.kept
    wall=0
    life 0 train run.yaml checkpoint.dir= train.steps=1 run.ledger="$folder/unseen.db" --json
    unseen=$(python3 -c "print(max($unseen, 2 * ($wall / 1e6 - float('$(printed)'))))")
    mv out.kept out; mv err.kept err
  done
  real=$real_so_far wall=$wall_so_far lives=$lives_so_far
}
# save: of the last start (--json) a step and a save at their slowest, in seconds; of another program its start and exit.
save() { python3 -c '
import json, sys
saves, step = [0], 0
for line in open("out"):
    e = json.loads(line) if line.startswith("{") else {}
    if e.get("event") == "checkpoint" and e["what"] == "saved": saves.append((e["blocked_s"] or 0) + (e["persist_s"] or 0))
    if e.get("event") == "done": step = e["step_p99_s"] or 0
print(max(saves) + step)'; }
# holds EXPRESSION: true at once or, for the machine may be busier by now, after measuring once more.
holds() {
  python3 -c "unseen, lives, wall = $unseen, $lives, $wall / 1e6; exit(not ($1))" && return
  measure_unseen
  python3 -c "unseen, lives, wall = $unseen, $lives, $wall / 1e6; exit(not ($1))"
}
# near WHAT FIGURE: dollars that agree with the seconds on the wall ($1 each), but for what is unseen of each start.
near() {
  holds "wall - unseen * lives <= float('${2:-nan}') <= $real / 1e6" ||
    fail "$1 is \$${2:-nothing}, the wall says $wall microseconds in $lives lives, $unseen s of each are unseen"
}
# within CAP [MORE]: what was really spent passes the cap by no more than a step, a save, so many seconds more and what is
# unseen of each start.
within() {
  holds "wall <= $1 + ${2:-0} + $(save) + unseen * lives" ||
    fail "$wall microseconds with a cap of $1, a step and a save take $(save) s, $unseen s of each start are unseen"
}
# same PRINTED RECORDED: one bill, so not a thousandth of a cent lies between them.
same() { python3 -c "exit(not abs($1 - $2) < 1e-5)" || fail "\$$1 are printed and \$$2 recorded"; }
printed() { sed -n 's/.*"event":"done".*"dollars":\([0-9.e-]*\).*/\1/p' out; }
recorded() { "$frugal" runs --json | sed -n 's/.*"dollars":\([0-9.e-]*\),.*/\1/p'; }

: >out >err
measure_unseen

# Three kills, then the end: printed = ledger = wall.
export FRUGAL_RUN_LEDGER=$folder/ledger.db
for i in 1 2 3; do life $((700000 + RANDOM * 30)) train run.yaml train.max_dollars=6; done
life 0 train run.yaml train.max_dollars=6 --json
[ $rc = 0 ] || fail "the last start ended with $rc"
has out '"stopped":"budget"'
paid=$(printed)
near printed "$paid"
within 6
run 0 runs --json
if ! grep -q 'built without SQLite' err; then
  [ "$(wc -l <out)" = 1 ] || fail "four starts are not one run"
  has out '"segments":4'
  near ledger "$(recorded)"
  same "$paid" "$(recorded)"
fi

# The same once more does not begin another step: nothing is left to spend.
life 0 train run.yaml train.max_dollars=6 --json
lacks out '"event":"step"'
rm -rf kept

# No ledger: what was spent travels with the checkpoints' folder.
real=0 wall=0 lives=0
for i in 1 2; do life $((900000 + RANDOM * 30)) train run.yaml train.max_seconds=4 run.ledger=none; done
life 0 train run.yaml train.max_seconds=4 run.ledger=none --json
near 'printed without a ledger' "$(printed)"
within 4
rm -rf kept

# Another machine, without a ledger: what the checkpoint knows counts.
: >out; : >err
"$frugal" train run.yaml run.ledger=none train.max_seconds=60 >out 2>err </dev/null &
pid=$!
python3 -c 'import time; time.sleep(1.5)'
kill -TERM $pid
wait $pid
rm kept/spent.json
real=0 wall=0 lives=0
life 0 train run.yaml train.max_seconds=2 run.ledger=none --json
# 2 s less what is kept back for the last evaluation and save: 0.1 s for the syncs of the first, and as much for a busy machine
python3 -c "exit(not (0 < $wall / 1e6 < 1.2 and 1.8 <= float('$(printed)') < 2.5))" || fail "a cap of 2 s took $wall microseconds after 1.5 s"
rm -rf kept

# Killed before the first checkpoint, twice: one run, and nothing of it is free.
export FRUGAL_RUN_LEDGER=$folder/second.db
real=0 wall=0 lives=0
for i in 1 2; do life 1200000 train run.yaml checkpoint.every=100000000 train.max_seconds=4; done
life 0 train run.yaml checkpoint.every=100000000 train.max_seconds=4 --json
paid=$(printed)
near 'printed without checkpoints' "$paid"
run 0 runs --json
if ! grep -q 'built without SQLite' err; then
  has out '"segments":3'
  near 'ledger without checkpoints' "$(recorded)"
  run 0 report
  has out '^redone +[0-9.]*[1-9][0-9]* s' # all that the last start could do was done before
  same "$paid" "$(recorded)"
fi
rm -rf kept

# frugal run: the budget is the whole run's.
mkdir -p program
export FRUGAL_RUN_LEDGER=$folder/third.db
real=0 wall=0 lives=0
set -- run train.max_seconds=2 train.usd_hour=3600 program.folder=program checkpoint.dir=kept -- bash -c "trap 'exit 0' TERM; while :; do sleep 0.05; done"
life 1300000 "$@"
life 0 "$@"
[ $rc = 0 ] || fail "frugal run ended with $rc"
within 2 0.15 # the program looks for a signal every 0.05 s; frugal looks at the cap, and then for its end, as often
near 'frugal run' "$(sed -n 's/^frugal: \$\([0-9.]*\) for.*/\1/p' err)"
life 0 "$@" # nothing is left: a script must not take the work for done
[ $rc = 1 ] || fail "frugal run with nothing left ended with $rc"
has err 'the program was not started'
set -- run --fresh "${@:2}"
life 0 "$@"
[ $rc = 0 ] || fail "frugal run --fresh ended with $rc"

# A cap that is used up before the first step leaves older weights alone, and a script must not take them for new ones.
echo old >weights
life 0 train run.yaml checkpoint.dir= train.out=weights train.max_seconds=0.000001
[ $rc = 1 ] || fail "a run without a step ended with $rc"
has err '^no step was done: the 1e-06 s of train.max_seconds are used up$'
[ "$(cat weights)" = old ] || fail 'untrained weights took the place of older ones'

# An evaluation that does not fit into the cap is left out, and that is said: the last one, one on the way, that of the last step.
export FRUGAL_RUN_LEDGER=none
{ printf '\0\0\010\003\0\0\372\0\0\0\0\002\0\0\0\002'; head -c 256000 /dev/zero; } >many
{ printf '\0\0\010\001\0\0\372\0'; python3 -c 'print("\0\1\2\3" * 16000, end="")'; } >marks
set -- train run.yaml data.path=many data.labels=marks data.held_out=0.9 train.eval_batch=1 checkpoint.dir= \
  'model.layers=[flatten, {dense: 2000}, relu, {dense: 2000}, relu, {dense: 4}]' train.max_seconds=2 --json
for each in 'the last evaluation' 'the evaluation after step 2,train.eval_every=2' 'the last evaluation,train.steps=2'; do
  real=0 wall=0 lives=0
  life 0 "$@" $(cut -sd, -f2 <<<"$each")
  [ $rc = 0 ] || fail "a cap ended with $rc"
  has out "\"${each%%,*} is skipped: it takes about"
  within 2
done
exit $failed
