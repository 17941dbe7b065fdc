#!/bin/sh
# test_tables.sh: a ranker whose table is trained by the rows that a step reads, as a user sees it: less memory than the
# whole table, the same bits with any number of threads and after a kill, micro-batches that add up to the whole step.
. "$(dirname "$0")/common.sh"
cat >run.yaml <<END
data: {kind: synthetic_clicks, buckets: 2000, samples: 20000, eval_samples: 2000}
model: {kind: ranker, table_width: 8, mlp: [32, 8]}
train: {optimiser: adam, lr: 0.01, batch: 64, steps: 60, eval_every: 30, schedule: constant, clip: 1, device: cpu}
END
planned() { run 0 train run.yaml train.steps=1 --json "$@" && sed -n 's/.*"event":"start".*"arena_bytes_planned":\([0-9]*\).*/\1/p' out; }
loss() { sed -n 's/.*"event":"done".*"loss":\([0-9.e-]*\).*/\1/p' out; }

bf16="model.table_dtype=bf16"
for kind in sgd adagrad adam "sgd $bf16" "adagrad $bf16 train.precision=fp32" "adam $bf16 train.precision=bf16"; do # unquoted below: several settings
  run 0 train run.yaml train.tables=$kind train.out=whole train.threads=1 --json
  whole=$(loss)
  run 0 train run.yaml train.tables=$kind train.out=other train.threads=2
  same_numbers whole other || fail "$kind: two threads gave other weights"
  run 0 evaluate whole --json $(echo "$kind" | grep -o 'train.precision=.*')
  evaluated=$(sed -n 's/.*"loss":\([0-9.e-]*\).*/\1/p' out)
  [ "$evaluated" = "$whole" ] || fail "$kind: evaluate has the loss $evaluated, the run $whole"

  # Killed after the checkpoint of step 20 at the earliest; a quick machine may have come to the end before that.
  rm -rf kept pieces
  : >out; : >err
  "$frugal" train run.yaml train.tables=$kind train.out=pieces checkpoint.dir=kept checkpoint.every=20 >out 2>err </dev/null &
  victim=$!
  for i in $(seq 500); do
    ls kept/step-*/manifest.json >/dev/null 2>&1 && break
    sleep 0.01
  done
  kill -9 $victim 2>/dev/null
  wait $victim 2>/dev/null
  run 0 train run.yaml train.tables=$kind train.out=pieces checkpoint.dir=kept checkpoint.every=20
  same_numbers whole pieces || fail "$kind: a run that was killed has other weights"

  # The same sums in another order: 64 addends of f32, whose rounding 60 steps of this rate carry on.
  run 0 train run.yaml train.tables=$kind train.micro_batch=16 --json
  awk -v a="$whole" -v b="$(loss)" 'BEGIN { exit !(a > 0 && b > 0 && (a - b) / a < 1e-3 && (b - a) / a < 1e-3) }' ||
    fail "$kind: micro-batches end at $(loss), whole batches at $whole"
done

dense=$(planned train.tables=dense)
wide=$(planned train.tables=sgd data.buckets=200000) low=$(planned train.tables=sgd data.buckets=200000 model.table_dtype=bf16)
[ -n "$low" ] && [ "$low" -lt $((wide * 6 / 10)) ] || fail "a table of bf16 is planned with $low bytes, one of f32 with $wide"
# What no batch makes smaller is refused before anything is read or trained, with the figures.
for batch in 64 auto; do
  run 2 train run.yaml train.tables=adam train.batch=$batch data.buckets=200000 train.memory_gib=0.2
  has err "the run needs 0.46[0-9] GiB, 0.155 of them for the embedding table and 0.31 for its optimiser's state, and .* has 0.2 GiB: try model.table_dtype=bf16, train.tables=adagrad, a smaller data.buckets or model.table_width"
done
run 0 train run.yaml train.tables=adagrad $bf16 train.steps=1 data.buckets=200000 train.memory_gib=0.2 # as the message says
# Products read rows of bf16 as they lie in the table.
run 0 show run.yaml train.tables=adam $bf16 train.precision=bf16
has out '^  embedding +table +bf16'
lacks out 'table.wide'
run 2 train run.yaml model.table_dtype=bf16
has err "model.table_dtype does nothing with train.tables=auto"
rows=$(planned train.tables=sgd)
[ -n "$rows" ] && [ "$rows" -lt $((dense / 2)) ] || fail "by rows the plan has $rows bytes, dense $dense"
echo 'data: {kind: idx, path: images, labels: labels}' >other.yaml
run 2 train other.yaml train.tables=adagrad
has err "train.tables does nothing with model.kind=layers; it needs model.kind=ranker"
exit $failed
