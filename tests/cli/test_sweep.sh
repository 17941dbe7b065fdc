#!/bin/bash
# test_sweep.sh: frugal sweep on a small real task, as a user types it: the table, the events, the
# weights, failures, interruptions, and going on from a file of results.
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 8, usd_hour: 3600, target_metric: loss}
sweep:
  over:
    - train.lr: [1e-7, 1e-6, 1e-5, 1e-2, 1e-4, 1e-8, 1e-3, 2e-4]
END

# Rungs after one, two and four of eight epochs: 8 -> 4 -> 2 -> 1, and the best rate wins.
run 0 sweep run.yaml
has err '^8 trials, 1 at once; one in 2 continues after 12.5 %, 25 %, 50 %$'
has out '^trial +loss +of run'
has out '^ +4 +0\.[0-9]+ +100 % .* done +train.lr=0.01$'
[ "$(grep -c ' out ' out)" = 7 ] || fail "not seven of eight are out"
[ "$(grep -c ' 12 % .* out ' out)" = 4 ] || fail "not four are out after the first rung"
has out '^best +frugal train run.yaml train.lr=0.01$'
has out '^cost +\$[0-9.]+ for [0-9.]+ s at \$3600 an hour$'
has out '^saved +([0-9:]+|[0-9.e-]+ s) and \$[0-9.]+ compared with running every trial'

# The command that is printed gives what the trial had: pausing and going on changed nothing.
value=$(sed -n 's/^ *4 *\([0-9.]*\) .*/\1/p' out)
run 0 $(sed -n 's/^best *frugal //p' out)
has out "^loss +$value\$"

# Measured by accuracy, the loss has a column of its own.
run 0 sweep run.yaml train.target_metric=auto
has out '^trial +accuracy +loss +of run'
has out '^ +4 +[0-9.]+ % +0\.[0-9]+ +100 % .* done +train.lr=0.01$'

# A single trial; a target that one reaches, in the ledger too.
run 0 sweep run.yaml 'sweep.over=[{train.lr: [1e-2]}]' train.target=1.3 run.ledger=ledger.db
has err '^1 trial, 1 at once$'
run 0 report --ledger ledger.db
has out '^target +reached after '
export FRUGAL_RUN_LEDGER=ledger.db
run 2 evaluate run
has err '^run is a run of kind sweep, not of `frugal train`; give the file or folder of the weights'
export FRUGAL_RUN_LEDGER=none

# None is the best where none was evaluated.
run 1 sweep run.yaml train.max_dollars=1e-9
has err '^trial 1 of 8: train.lr=1e-07: ended before an evaluation: the \$1e-09 of train.max_dollars are spent'
has err '^no trial was evaluated, so none is the best: the \$1e-09 of train.max_dollars are spent'
lacks out '(^best|nan)'
lacks err nan
run 1 sweep run.yaml train.max_dollars=1e-9 --json
has out '"event":"sweep_done".*"best":null,"settings":"","value":null,"command":""'

# Side by side, with events; the same winner.
run 0 sweep run.yaml sweep.at_once=3 --json
has out '^\{"event":"sweep","trials":8,"rungs":4,"eta":2,"first":0.125,"at_once":3\}$'
has out '^\{"event":"trial","trial":4,.*"state":"done".*"stopped":"end"'
has out '^\{"event":"sweep_done",.*"best":4,.*"command":"frugal train run.yaml train.lr=0.01"'
[ ! -s err ] || fail "--json leaves stderr empty when all is well"
if command -v python3 >/dev/null; then
  python3 -c 'import json,sys; [json.loads(l) for l in open("out")]' || fail "not JSON"
fi

# The best one's weights, and no others.
run 0 sweep run.yaml train.out=weights sweep.halving=false
lacks out ' out '
[ -s weights ] && [ "$(ls weights*)" = weights ] || fail "weights: $(ls)"
run 0 train run.yaml train.init=weights train.lr=1e-30 train.epochs=1
has out "^loss +$value\$"

# A target: reached by one, or by none.
run 0 sweep run.yaml train.target=0.5 train.epochs=40
has out '^ +4 .* done '
run 1 sweep run.yaml train.target=1e-9
has err 'no trial reached the target 1e-09'

# A trial that diverges is out; one that cannot run is told; where none can, that is the answer.
run 0 sweep run.yaml train.optimiser=sgd 'sweep.over=[{train.lr: [0.1, 1e30, 0.01]}]'
has err 'trial 2 of 3: train.lr=1e\+?30: the loss is (not a number|infinite)'
has out '^ +2 +- .* failed +train.lr=1e\+?30$'
run 0 sweep run.yaml 'sweep.over=[{train.init: ["", gone]}]'
has err 'trial 2 of 2: train.init=gone: .*gone'
run 3 sweep run.yaml data.path=gone
[ "$(wc -l <err)" = 2 ] || fail "a missing file is told more than once"
run 2 sweep run.yaml 'sweep.over=[]'
has err 'nothing varies'
run 2 sweep run.yaml train.epochs=0
has err 'they need an end'

# Results in a file: what is there is not run again; another run has lines of its own.
run 0 sweep run.yaml sweep.results=results --json
grep '"event":"trial"' out | sed 's/"seconds".*//' >first
cp results whole
run 0 sweep run.yaml sweep.results=results --json
grep '"event":"trial"' out | sed 's/"seconds".*//' | cmp -s first - || fail "results came back otherwise"
cmp -s whole results || fail "the file of results changed"
head -n 5 whole >results
run 0 sweep run.yaml sweep.results=results
has out '^best +frugal train run.yaml train.lr=0.01$'
[ "$(wc -l <results)" = "$(wc -l <whole)" ] || fail "the results are not completed"
run 0 sweep run.yaml sweep.results=results train.seed=9
[ "$(grep -o '"run":"[^"]*"' results | sort -u | wc -l)" = 2 ] || fail "two runs do not share a file"
[ "$(wc -l <results)" = $((2 * $(wc -l <whole))) ] || fail "the results of another run are gone"
echo '{"run":' >results
run 2 sweep run.yaml sweep.results=results
has err '^results:1: '

# Interrupted: the table so far, exit 4, and no process of ours is left.
rm -f out err
: >out; : >err
"$frugal" sweep run.yaml train.epochs=1_000_000_000 sweep.at_once=2 sweep.halving=false train.eval_every=10_000 --json >out 2>err &
pid=$!
for i in $(seq 100); do grep -qs '"event":"sweep"' out && break; sleep 0.1; done
sleep 0.3
children=$(ps -o pid= --ppid $pid 2>/dev/null || pgrep -P $pid)
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 4 ] || fail "SIGTERM: exit $rc, not 4"
has err 'stopped by SIGTERM'
[ "$(echo $children | wc -w)" = 2 ] || fail "not two trials at once: $children"
for child in $children; do ! kill -0 "$child" 2>/dev/null || fail "process $child is left"; done

# Ctrl-C in a terminal reaches the trials as well; those that came to a rung are in the table.
if command -v setsid >/dev/null; then
  rm -f out err
  : >out; : >err
  setsid "$frugal" sweep run.yaml train.epochs=20_000 sweep.at_once=2 >out 2>err &
  pid=$!
  for i in $(seq 100); do grep -qs '^trial 2' err && break; sleep 0.1; done
  kill -INT -- -$pid
  wait $pid
  rc=$?
  [ $rc = 4 ] || fail "Ctrl-C: exit $rc, not 4"
  has err 'stopped by Ctrl-C'
  has out '^best +frugal train run.yaml train.epochs=20_000 train.lr='
fi

# Evaluated too seldom to be compared: all go to their ends, and that is said.
run 0 sweep run.yaml train.epochs=1
has err 'a smaller train.eval_every would save money'
lacks out ' out '

# Killed without a word: trials, running and waiting, end too.
rm -f out err
: >out; : >err
"$frugal" sweep run.yaml train.epochs=30_000 sweep.at_once=2 >out 2>err &
pid=$!
for i in $(seq 100); do grep -qs '^trial 3' err && break; sleep 0.1; done
children=$(ps -o pid= --ppid $pid 2>/dev/null || pgrep -P $pid)
kill -KILL $pid
wait $pid 2>/dev/null
for i in $(seq 50); do
  left=
  for child in $children; do kill -0 "$child" 2>/dev/null && left="$left $child"; done
  [ -z "$left" ] && break
  sleep 0.1
done
[ -n "$children" ] && [ -z "$left" ] || fail "processes left: $left (of $children)"
exit $failed
