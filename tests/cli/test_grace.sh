#!/bin/bash
# test_grace.sh: SIGTERM, SIGHUP and the time they leave (spot.grace_s): a step that outlasts it is left unfinished and
# the state before it saved, and nothing on the way out waits longer than that: not for a ledger that somebody holds.
# check: alone, it measures how long a process takes to end
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || exit 77
{ printf '\0\0\010\003\0\0\352\140\0\0\0\002\0\0\0\002'
  python3 -c 'import random, sys; random.seed(1); sys.stdout.buffer.write(bytes(random.randrange(256) for _ in range(240000)))'; } >images
{ printf '\0\0\010\001\0\0\352\140'; python3 -c 'print("\0\1\2\3" * 15000, end="")'; } >labels
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels, held_out: 0}
model: {layers: [flatten, {dense: 400}, batchnorm, relu, {dropout: 0.1}, {dense: 400}, relu, {dense: 400}, batchnorm, relu, {dense: 4}]}
train: {steps: 3, batch: 20000, optimiser: sgd, lr: 0.01, log_every: 1, device: cpu}
END
now() { echo "${EPOCHREALTIME/./}"; } # microseconds
# until_text FILE PATTERN: waits, for ten seconds at most.
until_text() { for _ in $(seq 200); do grep -qE -- "$2" "$1" 2>/dev/null && return; sleep 0.05; done; fail "$1 never had $2"; }
# ends_within SECONDS CODE: the process `pid` that was signalled at `sent` does.
ends_within() {
  { wait $pid; rc=$?; } 2>/dev/null
  took=$(($(now) - sent))
  [ $rc = "$2" ] || fail "exit $rc, not $2"
  python3 -c "exit(not $took / 1e6 <= $1)" || fail "it took $took microseconds of $1 s"
  echo "ended in $took microseconds of $1 s"
}

# A long step, whole and in micro-batches: the second start ends with the bits of a run that was left alone.
for parts in 'train.batch=60000' 'train.batch=63000 train.micro_batch=21000'; do
  rm -rf kept whole pieces
  run 0 train run.yaml $parts train.out=whole --json
  step_s=$(sed -n 's/.*"event":"done".*"step_p95_s":\([0-9.]*\).*/\1/p' out)
  grace=$step_s # at most 1.5 s of it, and two thirds, are for the end
  echo "a step takes $step_s s, the grace is $grace s"
  set -- train run.yaml $parts train.out=pieces checkpoint.dir=kept spot.grace_s=$grace
  : >out; : >err
  "$frugal" "$@" checkpoint.every=1 --json >out 2>err </dev/null &
  pid=$!
  until_text out '"event":"step","step":1,'
  sent=$(now)
  kill -TERM $pid
  ends_within "$grace" 4
  has out 'step 2 is abandoned after'
  has out '"what":"saved","step":1'
  run 0 "$@" --json
  has out '"what":"resumed","step":1'
  same_numbers whole pieces || fail "the bits differ ($parts)"
done

# SIGHUP is as SIGTERM; where it is ignored (nohup) it stays so.
sed -i 's/steps: 3, batch: 20000/steps: 100000000, batch: 100/' run.yaml
: >out; : >err
"$frugal" train run.yaml >out 2>err </dev/null &
pid=$!
until_text err '^step '
sent=$(now)
kill -HUP $pid
ends_within 5 4
has err 'stopped by SIGHUP after step'
: >out; : >err
(trap '' HUP; exec "$frugal" train run.yaml >out 2>err </dev/null) &
pid=$!
until_text err '^step '
kill -HUP $pid
sleep 0.3
kill -0 $pid || fail "nohup is not heeded"
sent=$(now)
kill -TERM $pid
ends_within 5 4

# A grace as short as one second is time enough for a save that takes less.
: >out; : >err
"$frugal" train run.yaml checkpoint.dir=kept1 checkpoint.every=50 spot.grace_s=1 train.log_every=1 --json >out 2>err </dev/null &
pid=$!
until_text out '"what":"saved"'
kill -TERM $pid
{ wait $pid; rc=$?; } 2>/dev/null
[ $rc = 4 ] || fail "exit $rc, not 4"
lacks out 'will be done again'
python3 -c "
import json
rows = [json.loads(r) for r in open('out')]
done = [r['step'] for r in rows if r.get('event') == 'step'][-1]
saved = [r['step'] for r in rows if r.get('what') == 'saved'][-1]
exit(done != saved)" || fail 'the last step is not saved'

# A ledger that somebody holds.
export FRUGAL_RUN_LEDGER=$folder/ledger.db
: >out; : >err
"$frugal" train run.yaml checkpoint.dir=kept2 spot.grace_s=3 >out 2>err </dev/null &
pid=$!
until_text err '^step '
if ! grep -q 'built without SQLite' err; then
  python3 -c "
import sqlite3, sys, time
d = sqlite3.connect('ledger.db', isolation_level=None, timeout=20)
d.execute('BEGIN EXCLUSIVE')
open('held', 'w').close()
time.sleep(8)" &
  holder=$!
  for _ in $(seq 100); do [ -e held ] && break; sleep 0.05; done
fi
sent=$(now)
kill -TERM $pid
ends_within 3 4
if [ -n "$holder" ]; then
  has err 'this run is not recorded: .*(locked|busy)'
  kill $holder
  wait $holder 2>/dev/null
  # What the ledger was not told of the end it hears from the next start.
  lived=$(sed -n 's/.*"segment_ns":\([0-9]*\).*/\1/p' kept2/spent.json)
  run 0 train run.yaml checkpoint.dir=kept2 train.max_seconds=0.001
  python3 -c "
import sqlite3
d = sqlite3.connect('ledger.db')
ended, lived = d.execute('SELECT ended, metered_ns FROM segment ORDER BY begin_wall_ns').fetchall()[0]
exit(not (ended == 'killed' and lived == $lived))" || fail "the end of the first start is not in the ledger"
fi
exit $failed
