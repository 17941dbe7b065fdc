#!/bin/sh
# test_run.sh: frugal run as a user types it: what is passed on, what is said, exit codes; and a program
# that rewrites one file for ever, killed in the middle of its writes and resumed five times.
. "$(dirname "$0")/common.sh"
here=$top/tests/cli
export FRUGAL_SPOT_CLOUD=none
keep="program.folder=save checkpoint.dir=kept program.complete=0.1"

# Usage.
run 2 run
has err 'which program\? Try: frugal run -- python3 train.py'
run 2 run program.folder=save -- true
has err 'program.folder needs a place to copy its files to: checkpoint.dir=FOLDER'
run 2 run train.patience=3 -- true
has err 'give program.read and program.metric'
run 2 run log.csv=theirs.csv -- true
has err 'have a row for each step that is read: give program.read and program.step'
run 2 run log.prometheus=9400 program.read=json -- true
run 2 run train.max_dollars=1 -- true
has err 'train.max_dollars needs the price of an hour'
run 2 run model.kind=gpt -- true
has err 'model.kind does nothing under frugal run: it is for frugal train'
run 2 run program.fodler=save -- true
has err 'did you mean program.folder\?'
run 2 train -- true
run 2 run $keep program.read=regex 'program.step=step' -- true
has err 'program.step is step: it has no \(group\) around the number'
run 2 run $keep program.complete=soon -- true
has err 'program.complete is soon; expected seconds, like 5, or the ending of a marker, like .done'
run 2 run $keep program.complete=-1 -- true
run 2 run $keep program.marker=.done -- true
has err 'program.marker was replaced by program.complete'

# A folder has checkpoints of frugal's own training, or files of a program: the other one is refused, with the remedy.
printf 'data: {kind: synthetic_clicks, samples: 100}\nmodel: {kind: ranker}\ntrain: {steps: 1}\n' >clicks.yaml
run 0 train clicks.yaml checkpoint.dir=theirs
run 2 run program.folder=other checkpoint.dir=theirs -- true
has err '^theirs/step-.* was not written by `frugal run`. Give the program its own checkpoint.dir, or start over with --fresh'
run 0 run program.folder=other checkpoint.dir=copies -- sh -c 'mkdir -p other; echo 1 >other/model'
run 2 train clicks.yaml checkpoint.dir=copies
has err '^copies holds the checkpoints of another run: `frugal run` copied the files of a program there. Give this run its own checkpoint.dir'

# The name in the ledger is the one that was given, else the command.
run 0 run run.name=mine run.ledger=named/ledger.db -- true
if ! grep -q 'not recorded' err; then
  run 0 run run.ledger=named/ledger.db -- true
  run 0 runs --ledger named/ledger.db
  has out ' mine +end '
  has out ' true +end '
fi

# Output is the program's alone; arguments behind -- are not ours.
run 0 run -- sh -c 'echo "$1"; echo oops >&2' - --json
[ "$(cat out)" = --json ] || fail "stdout is not the program's"
has err '^oops$'
has err '^frugal: 1 start, 0 checkpoints copied, 0.0 s repeated$'
has err '^frugal: [0-9.]+ s; the price is not known \(train.usd_hour\)$'
run 0 run train.usd_hour=3600 program.read=json program.step=n -- echo '{"n": 41}'
has err '^frugal: step 41$' # and no pace, of a single step
lacks err nan
[ "$(cat out)" = '{"n": 41}' ] || fail "stdout is not the program's"
has err '^frugal: (under )?\$[0-9.]+ for [0-9.]+ s at \$3600 an hour$'
run 0 run log.csv=theirs.csv train.usd_hour=3600 program.read=regex 'program.step=step ([0-9]+)' 'program.loss=loss ([0-9.]+)' \
  'program.metric=acc ([0-9.]+)' train.target_metric=accuracy -- sh -c 'for i in 1 2 3; do echo step $i loss 0.$i acc 0.5$i; done'
has theirs.csv '^3,[0-9.]+,[0-9.]+,0.3,,.*,0.3,0.53,[0-9.]*$'
[ "$(wc -l <theirs.csv)" = 4 ] || fail "log.csv has not a row for each step"
cat >run.yaml <<END
program: {restarts: 1}
END
run 1 run run.yaml -- sh -c 'exit 5'
has err 'frugal: the program ended with 5; starting it again \(start 2\)'
has err 'the program ended with 5; giving up after 2 starts in a row without a new checkpoint'
run 3 run -- /nowhere/train
has err 'cannot start /nowhere/train: No such file or directory'
run 1 run program.read=regex 'program.metric=m ([0-9]+)' train.target=3 -- echo m 4
has err 'the target 3 was not reached'
lacks err 'found nothing'
run 1 run program.read=regex 'program.metric=metric ([0-9]+)' 'program.loss=l ([0-9]+)' train.target=3 -- echo m 4 l 5
has err '^frugal: program.metric found nothing in what the program printed$'
lacks err 'program.loss found'
run 0 run program.read=json program.step=step program.loss=loss -- echo '{"step": 1}'
has err '^frugal: program.loss found nothing in what the program printed$'

# SIGTERM, as Slurm and Kubernetes send it: the worker, not the shell around it, saves; then exit 4,
# and the same command goes on. TERM to frugal alone must do, for that is all it gets there.
rm -rf save kept
cat >saves.sh <<'END'
[ "$1" = --resume ] && { echo resumed from $(cat "$2"); exit 0; }
trap 'echo state >save/new; mv save/new save/state; exit 0' TERM
echo up
while :; do sleep 0.02; done
END
"$frugal" run $keep 'program.resume=[--resume, "{newest}"]' -- sh -c 'sh saves.sh "$@" & wait $!; wait $!' - >out.1 2>err &
pid=$!
for i in $(seq 500); do grep -qs up out.1 && break; sleep 0.02; done
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 4 ] || fail "SIGTERM: exit $rc"
has err 'stopped by SIGTERM: asked [0-9]+ process(es)? to save \(SIGTERM\), 25 s to do it'
has err 'the same command resumes from kept'
run 0 run $keep 'program.resume=[--resume, "{newest}"]' -- sh -c 'sh saves.sh "$@"' -
has out '^resumed from state$'
has err '^frugal: resuming from the checkpoint with state$'

# Two at once on one store.
"$frugal" run $keep -- sleep 5 >out.1 2>err.1 &
pid=$!
for i in $(seq 500); do [ -d save ] && pgrep -P $pid >/dev/null && break; sleep 0.02; done
run 3 run $keep -- true
has err 'two runs cannot write to one folder of checkpoints'
kill -INT $pid
wait $pid

# Killed five times, each time in the middle of a write: the same end as alone.
command -v python3 >/dev/null || { echo "no python3: the program that rewrites one file is left out"; exit $failed; }
rm -rf save kept alone && mkdir alone
python3 "$here/rewrites.py" alone/model 240 >out.2 &
alone=$!
export FRUGAL_RUN_LEDGER=ledger.db
"$frugal" run $keep program.read=regex 'program.step=step ([0-9]+)' 'program.resume=[--resume]' train.usd_hour=3600 \
  -- python3 "$here/rewrites.py" save/model 240 >out.1 2>err &
pid=$!
kills=0
for i in $(seq 4000); do # when half a file lies there, and something was carried since the last kill
  [ $kills = 5 ] && break
  bytes=$(stat -c %s save/model 2>/dev/null || echo 0)
  carried=$(grep -c 'checkpoint [0-9]* copied' err)
  if [ "$bytes" -gt 16 ] && [ "$bytes" -lt 80020 ] && [ "$carried" -gt "${last:-0}" ]; then
    pkill -KILL -P $pid && kills=$((kills + 1)) && sleep 0.3 # what was carried before it died is said after it
    last=$(grep -c 'checkpoint [0-9]* copied' err)
  fi
  sleep 0.005
done
wait $pid
rc=$?
wait $alone
[ $rc = 0 ] || fail "killed five times: exit $rc"
[ $kills = 5 ] || fail "killed $kills times, not five"
[ "$(grep -c '^resumed at' out.1)" = 5 ] || fail "not resumed five times"
[ "$(tail -n 1 out.1)" = "$(tail -n 1 out.2)" ] || fail "another end: $(tail -n 1 out.1), alone $(tail -n 1 out.2)"
cmp -s alone/model save/model || fail "the last file differs"
has err '^frugal: 6 starts, '
has err 'no checkpoint holds to .*/save/.frugal-aside$'

# The ledger: one run, one segment, and what the kills have cost. A build without SQLite has none.
if ! grep -q 'not recorded' err; then
  [ "$(grep -c '"event":"interruption","kind":"killed"' events/*/*.jsonl)" = 5 ] || fail "its log has not five interruptions"
  run 0 runs
  has out 'python3 .*rewrites.py save/model 240 +end +240 '
  run 0 report
  has out '^redone +[0-9.]+ s +\$[0-9.]+'
  has out '^compute +[0-9.]+ s +\$[0-9.]+'
fi
exit $failed
