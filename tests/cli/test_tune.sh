#!/bin/sh
# frugal tune: the table, the file with the winner, and that nothing else is touched.
. "$(dirname "$0")/common.sh"
four_classes
cat >run.yaml <<'Y'
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {batch: 12, steps: 50, lr: 0.01, usd_hour: 3.6, out: weights.safetensors, precision: bf16, recompute: all}
checkpoint: {dir: kept}
Y
run 0 tune run.yaml train.seed=7 --seconds 2
has out 'lever +settings +samples/s +\$/M'
has out 'micro-batch .*train.batch=12 train.accumulate=1'
has out 'train.batch=6 train.accumulate=2'
has out 'recompute '
[ ! -e weights.safetensors ] && [ ! -e kept ] || fail "tune left weights or checkpoints behind"
if grep -q 'of the dollars' out; then # what wins on so small a network is the machine's affair
  has run.tuned.yaml '^# frugal tune run.yaml: .*x the speed'
  has run.tuned.yaml '# was '
  run 0 show run.tuned.yaml
  has out 'train.seed +7 '
  has out 'checkpoint.dir +kept '
  batch=$(awk '$1 == "train.batch" { print $2 }' out)
  accumulate=$(awk '$1 == "train.accumulate" { print $2 }' out)
  [ $((batch * accumulate)) = 12 ] || fail "a step had 12 samples, now $batch times $accumulate"
else
  has out 'Nothing was faster'
fi

run 0 tune run.yaml --json --seconds 1
has out '"event":"tried","lever":"precision"'
has out '"event":"tuned","speed":'

echo "mine" >run.tuned.yaml
"$frugal" tune run.yaml --seconds 1 >out 2>err || has err "is there already, and not from .frugal tune."
grep -q '^mine$' run.tuned.yaml || fail "a file of the user's was overwritten"

run 2 tune run.yaml --seconds 0
has err 'expected a number above 0'
run 2 tune run.yaml data.path=nowhere
has err 'the run itself does not start: .*nowhere'
exit $failed
