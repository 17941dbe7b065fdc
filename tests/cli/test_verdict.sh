#!/bin/sh
# frugal profile says what binds a run and tries out what would help. The evaluation here is of one sample at a
# time, many times the work of the steps between, so half as many of them save half of the time; the clock counts the program's own
# processor time (tests/fake/seeded.c), so that other programs disturb none of it.
# check: alone, it compares the times of steps
. "$(dirname "$0")/common.sh"
frugal=$top/build/frugal_seeded
export SEEDED=own=1
four_classes
cat >run.yaml <<'Y'
data: {kind: idx, path: images, labels: labels, held_out: 0.5}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {batch: 2, steps: 5000, lr: 0.01, eval_every: 1, eval_batch: 1, usd_hour: 3600, threads: 1, out: weights.safetensors}
checkpoint: {dir: kept}
run: {runs_per_month: 10}
Y
run 0 profile run.yaml --seconds 1
has out '^verdict +evaluation bound: it takes [0-9]+ % of the time$'
has out '^problem +evaluation_too_often: .*; train.eval_every=[0-9]+ saves [0-9]+ % of the run, \$[0-9.]+ a run, \$[0-9.]+ a year'
has out 'with train.eval_every=2 a sample took [345][0-9] % less: confirmed$'
[ ! -e weights.safetensors ] && [ "$(ls | grep -c kept)" = 0 ] || fail "profile left weights or checkpoints behind"

run 0 profile run.yaml --seconds 0
lacks out '^verdict'

run 0 profile run.yaml --json --seconds 1
has out '"event":"verdict","bound":"evaluation","part":0\.[0-9]+,"usage":"","busy":null,"problems":[1-9]'
has out '"event":"problem","problem":"evaluation_too_often",.*"fix":"train.eval_every=[0-9]+","gain":[0-9.e-]+,"dollars_run":[0-9.e-]+,"dollars_year":[0-9.e-]+,"measured":0\.[345][0-9]*,"confirmed":true'

run 2 profile run.yaml --seconds many
has err 'expected a number like 6'
exit $failed
