#!/bin/sh
# frugal tune: the table, the file with the winner, and that nothing else is touched. What wins is certain: the clock counts the
# program's own processor time on one core (tests/fake/seeded.c), and the values that compete differ by a quarter or more.
# check: alone, it measures
. "$(dirname "$0")/common.sh"
frugal=$top/build/frugal_seeded
export SEEDED=own=1
core=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
taskset -cp "$core" $$ >/dev/null || exit 1
four_classes
cat >run.yaml <<'Y'
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 256}, relu, {dense: 4}]}
train: {batch: 12, micro_batch: 1, steps: 50, lr: 0.01, usd_hour: 3.6, out: weights.safetensors, precision: bf16, recompute: all}
checkpoint: {dir: kept}
Y
run 0 tune run.yaml train.seed=7 --seconds 2
has out 'lever +settings +samples/s +\$/M'
has out 'micro-batch .*train.micro_batch=1 '
has out '\* train.micro_batch=12'
has out 'train.micro_batch=6'
has out 'recompute '
has out 'of the cost'
[ ! -e weights.safetensors ] && [ ! -e kept ] || fail "tune left weights or checkpoints behind"
has run.tuned.yaml '^# frugal tune run.yaml: .*x the speed'
has run.tuned.yaml 'micro_batch: 12 # was 1$'
run 0 show run.tuned.yaml
has out 'train.seed +7 '
has out 'checkpoint.dir +kept '

run 0 tune run.yaml --json --seconds 1
has out '"event":"tried","lever":"precision"'
has out '"event":"tuned","speed":[2-9]'

echo "mine" >run.tuned.yaml
run 2 tune run.yaml --seconds 1
has err "exists and is not from .frugal tune."
grep -q '^mine$' run.tuned.yaml || fail "a file of the user's was overwritten"

# All that is left to try is to recompute every block, an eighth more work.
yes 'a line of text, and another one' | head -n 200 >text
cat >well.yaml <<'Y'
data: {kind: text, path: text, context: 16}
model: {kind: gpt, dtype: f64, depth: 4, width: 16, heads: 2}
train: {batch: 1, steps: 50, lr: 0.01, threads: 1}
Y
run 0 tune well.yaml --seconds 2
has out 'train.recompute=all'
has out 'Nothing was faster'
[ ! -e well.tuned.yaml ] || fail "a file without a change was written"

run 2 tune run.yaml --seconds 0
has err 'expected a number above 0'
run 2 tune run.yaml data.path=nowhere
has err 'the run does not start: .*nowhere'
exit $failed
