#!/bin/bash
# test_notice.sh: a run hears that its machine will be taken away, from the scripted metadata service of
# each cloud: it saves, exits with 4, and the same command goes on. Then again and again at random
# moments, start-up included, for CHECK_SECONDS: every notice leads to a checkpoint of the step that
# the message names.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || { echo "no python3 for the scripted metadata services"; exit 77; }

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {steps: 1_000_000_000, lr: 0.01, eval_every: 1_000_000}
checkpoint: {dir: kept}
END

service() { # CLOUD: its metadata service runs from here on
  rm -f port coming
  python3 "$top/tests/cli/metadata.py" "$1" port coming &
  server=$!
  for i in $(seq 200); do [ -f port ] && break; sleep 0.05; done
  spot="spot.cloud=$1 spot.metadata=http://127.0.0.1:$(cat port)"
}

# notice SECONDS: a run to which the notice comes after so long; its exit code in rc.
notice() {
  rm -f coming
  (sleep "$1"; touch coming) &
  timeout 60 "$frugal" train run.yaml $spot >out 2>err </dev/null
  rc=$?
  wait $!
}

try() { # CLOUD SENTENCE
  service "$1"
  rm -rf kept
  notice 0.5
  [ $rc = 4 ] || fail "$1: exit $rc"
  has err "^stopped after step [0-9]+: $2\$"
  step=$(sed -n 's/^stopped after step \([0-9]*\): .*/\1/p' err)
  run 0 checkpoints kept
  has out "^step-0*$step\.1\..* valid"
  run 0 train run.yaml "train.steps=$((step + 1000))" spot.cloud=none
  has err "step $step"
  has out "for $((step + 1000)) steps|time .* for [0-9]+ steps"
  kill $server
  wait $server 2>/dev/null
}
try aws 'AWS will terminate this spot machine in 1[12][0-9] s'
try azure "Azure announced Preempt for this machine in 30 s"
try gcp 'GCP preempts this machine: it stops in 30 s'

# Any moment: the first may come before there is anything to save, and then nothing is.
service gcp
seed=${CHECK_SEED:-$RANDOM}
RANDOM=$seed
notices=0
end=$((SECONDS + ${CHECK_SECONDS:-5}))
while [ $SECONDS -lt $end ] && [ $failed = 0 ]; do
  rm -rf kept
  notice "$(printf '0.%03d' $((RANDOM % 400)))"
  [ $rc = 4 ] || fail "notice $notices (CHECK_SEED=$seed): exit $rc"
  step=$(sed -n 's/^stopped after step \([0-9]*\): GCP .*/\1/p' err)
  [ -n "$step" ] || fail "notice $notices (CHECK_SEED=$seed): not heard"
  run 0 checkpoints kept
  [ "$step" = 0 ] || has out "^step-0*$step\.1\..* valid"
  notices=$((notices + 1))
done
kill $server
wait $server 2>/dev/null
echo "$notices of $notices notices (CHECK_SEED=$seed)"
[ $notices -gt 2 ] || fail "only $notices notices"

# A service that does not answer is told of, and the run goes on. Nobody is asked without need.
run 0 train run.yaml train.steps=100 spot.cloud=none --fresh
lacks err 'cannot be seen'
run 2 train run.yaml train.steps=100 spot.cloud=none spot.metadata=http://127.0.0.1:1
has err 'spot.metadata does nothing with spot.cloud=none'
run 2 train run.yaml train.steps=100 spot.cloud=aws spot.metadata=https://127.0.0.1
has err 'is not an address; expected one like http://127.0.0.1:1338'
exit $failed
