#!/bin/sh
# test_packed.sh: an encoder on lines of different length, as a user sees it: what show prints, the same bits with any number
# of threads and after a restart, samples grouped by length.
. "$(dirname "$0")/common.sh"

# lines FIRST SEED: 300 lines of 3 to 40 letters.
lines() {
  awk -v first="$1" -v seed="$2" 'BEGIN {
    srand(seed)
    for (i = 0; i < 300; i++) {
      line = ""
      for (n = 3 + int(38 * rand()); n > 0; n--) line = line sprintf("%c", 97 + first + int(9 * rand()))
      print line
    }
  }'
}
lines 0 1 >a.txt
lines 5 2 >b.txt
cat >run.yaml <<END
data: {kind: lines, files: [a.txt, b.txt], context: 48, eval_samples: 60}
model: {kind: encoder, depth: 2, width: 32, heads: 2, dropout: 0.1}
train: {optimiser: adamw, lr: 0.001, batch: 16, steps: 40, eval_every: 20, schedule: constant, device: cpu}
END

run 0 show run.yaml
has out '^  768 rows without padding at most; also compiled for fewer, in steps of 32: at the average length, [0-9]+ rows, [0-9.]+ [MG] FLOPs$'
run 0 show run.yaml --json
has out '"event":"program","name":"train",.*"rows":768,"row_step":32,"rows_average":[34][0-9]+,"flops_average":'
average=$(sed -n 's/.*"name":"train",.*"rows_average":\([0-9]*\),.*/\1/p' out)
[ "$average" -lt 500 ] || fail "a batch of average length has $average rows"

run 0 train run.yaml train.out=whole train.threads=1
run 0 train run.yaml train.out=other train.threads=2
same_numbers whole other || fail "two threads gave other weights"
run 0 train run.yaml train.out=half train.steps=17 checkpoint.dir=kept checkpoint.every=17
run 0 train run.yaml train.out=rest checkpoint.dir=kept checkpoint.every=17
has err 'step 17'
same_numbers whole rest || fail "a run that was resumed has other weights"
run 0 profile run.yaml profile.wait=2 profile.active=3
has out 'attention_packed'

run 0 train run.yaml train.shuffle=by_length train.out=grouped
same_numbers whole grouped && fail "grouping changed nothing"
run 2 train run.yaml train.shuffle=by_length checkpoint.dir=kept checkpoint.every=17 train.steps=60
has err 'train.shuffle was true and is by_length'
run 2 train run.yaml data.group_by_length=true
has err 'write train.shuffle=by_length'
exit $failed
