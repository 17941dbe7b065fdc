#!/bin/bash
# test_crash.sh: a fault of the program itself is said on stderr, with the calls that led there; its exit is the signal's.
. "$(dirname "$0")/common.sh"
four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 100000000, lr: 0.01}
END
for signal in SEGV FPE ILL; do
  : >out; : >err
  "$frugal" train run.yaml --json train.log_every=1 >out 2>err </dev/null &
  pid=$!
  until grep -qs "event.:.step" out; do kill -0 $pid 2>/dev/null || { fail "ended: $(cat err)"; break; }; sleep 0.05; done
  kill -s $signal $pid
  wait $pid
  rc=$?
  [ $rc = $((128 + $(kill -l $signal))) ] || fail "SIG$signal ended it with $rc"
  has err '^frugal crashed: this is a bug in frugal[.]'
  has err "^signal $(kill -l $signal), address "
  [ "$(grep -c '\[0x[0-9a-f]*\]$' err)" -ge 3 ] || fail "no calls: $(cat err)"
done
exit $failed
