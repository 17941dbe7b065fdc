#!/bin/sh
# frugal profile says what binds a run and tries out what would help. The evaluation here is of one sample at a
# time, many times the work of the steps between, so half as many of them save half of the time. The clock counts the program's own
# processor time (tests/fake/seeded.c); a neighbour on the same core still changes how much a second of that computes: 34 to 64 % were seen where
# 49 are right. No effect at all would be 0, no evaluation 95. A measurement has five tries.
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
# measured FLAG PATTERN: `profile` says so, at the first or a later try.
measured() {
  for try in 1 2 3 4 5; do
    run 0 profile run.yaml $1 --seconds 1
    grep -qE "$2" out && return
    echo "try $try: $(grep -oE 'a sample took [0-9]+ % (less|longer): [a-z]+|"measured":[^}]*' out)"
  done
  fail "out lacks $2"
}
measured "" 'with train.eval_every=2 a sample took [2-7][0-9] % less: confirmed$'
has out '^verdict +evaluation bound: it takes [0-9]+ % of the time$'
has out '^problem +evaluation_too_often: .*; train.eval_every=[0-9]+ saves [0-9]+ % of the run, \$[0-9.]+ a run, \$[0-9.]+ a year'
[ ! -e weights.safetensors ] && [ "$(ls | grep -c kept)" = 0 ] || fail "profile left weights or checkpoints behind"

run 0 profile run.yaml --seconds 0
lacks out '^verdict'

measured --json '"measured":0\.[2-7][0-9]*,"confirmed":true'
has out '"event":"verdict","bound":"evaluation","part":0\.[0-9]+,"usage":"","busy":null,"problems":[1-9]'
has out '"event":"problem","problem":"evaluation_too_often",.*"fix":"train.eval_every=[0-9]+","gain":[0-9.e-]+,"dollars_run":[0-9.e-]+,"dollars_year":[0-9.e-]+,"measured":0\.[2-7][0-9]*,"confirmed":true'

run 2 profile run.yaml --seconds many
has err 'expected a number like 6'
exit $failed
