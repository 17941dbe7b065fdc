#!/bin/sh
# test_resume.sh: checkpoints as a user sees them: signals and exit codes, going on, beginning anew, what
# is refused, what is told. That the bits are the same in every way of training is test_resume.c's.
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dropout: 0.1}, {dense: 4}]}
train: {steps: 3000, lr: 0.001, eval_every: 1000, schedule: cosine}
checkpoint: {dir: kept, every: 50}
END

run 0 train run.yaml train.out=whole checkpoint.dir=
lacks out 'checkpoints'
run 0 train run.yaml train.out=saved
has err 'more for a copy that checkpoints are written from'
has out '^checkpoints +[0-9]+ saved.*; the newest of step 3000, .*; training paused for (under )?[0-9.e-]+ s'
same_numbers whole saved || fail "saving changed the weights"
run 0 train run.yaml train.out=again
has err '^resumed at step 3000, bit-exact$'
same_numbers whole again || fail "a run that was over has other weights"

# interrupt SIGNAL [SETTING...]: a long run gets the signal once it has a checkpoint.
interrupt() {
  signal=$1
  shift
  rm -rf kept
  : >out; : >err
  "$frugal" train run.yaml train.steps=10_000_000 train.epochs=0 "$@" >out 2>err </dev/null &
  pid=$!
  for i in $(seq 300); do ls kept/step-*/manifest.json >/dev/null 2>&1 && break; sleep 0.1; done
  kill -s "$signal" $pid
}
for signal in TERM INT; do
  interrupt $signal checkpoint.every=1h checkpoint.every=20
  wait $pid
  rc=$?
  [ $rc = 4 ] || fail "SIG$signal: exit $rc, not 4"
  has err "stopped by (SIGTERM|Ctrl-C) after step [0-9]+"
  step=$(sed -n 's/.*stopped by .* after step //p' err)
  has out "the newest of step $step,"
done

# USR1 saves at once, and the run goes on; or it ends, where that is asked for.
interrupt USR1 checkpoint.every=20
sleep 0.3
kill -0 $pid || fail "SIGUSR1 ended the run"
kill -s KILL $pid
wait $pid 2>/dev/null
interrupt USR1 checkpoint.every=20 checkpoint.on_usr1=exit
wait $pid
[ $? = 4 ] || fail "SIGUSR1 with on_usr1=exit: not exit 4"
has err 'stopped by SIGUSR1 after step'

# Killed, and gone on with: the same weights.
rm -rf kept
for i in 1 2 3; do
  : >out; : >err
  "$frugal" train run.yaml train.out=pieces >out 2>err </dev/null &
  pid=$!
  sleep 0.1
  kill -s KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
done
run 0 train run.yaml train.out=pieces
same_numbers whole pieces || fail "a run that was killed has other weights"

# What no longer fits is refused, what may change is told, what is damaged is passed over.
run 2 train run.yaml train.optimiser=sgd
has err 'kept holds the checkpoints of another run: train.optimiser was adam and is sgd\. .*--fresh'
run 2 train run.yaml 'model.layers=[flatten, {dense: 4}]'
has err 'kept holds the checkpoints of another run: its? '
run 0 train run.yaml train.lr=0.002 train.steps=3010
has err '^warning: train.lr was 0.001 and is 0.002 now$'
has err '^resumed at step 3000, not bit-exact: settings have changed$'
newest=$(ls -d kept/step-000003010*)
echo more >>"$newest/weights.safetensors"
run 0 train run.yaml train.lr=0.002 train.steps=3010
has err '^warning: the checkpoint of step 3010 was skipped: .*weights.safetensors'
has err '^resumed at step 3000, '
run 0 train run.yaml --fresh train.steps=60 --json
has out '"event":"start",.*"checkpoint_bytes":[1-9]'
has out '"event":"checkpoint","what":"saved","step":60,"text":"","blocked_s":[0-9.e-]+,"persist_s":[0-9.e-]+,"bytes":[0-9]+'
has out '"event":"done".*"checkpoints":[12],"checkpoints_failed":0,.*"checkpoint_step":60,"resumed_step":null,'
[ "$(ls kept | grep -c '^step-00000[1-9]')" = 0 ] || fail "--fresh left old checkpoints"

# What train.precision=auto chose is kept, also on a processor that would choose otherwise, and there the run says that it is not
# bit-exact. FRUGAL_VECTORS takes instructions away, so it is tried from more to fewer, and back. auto is the default.
unset FRUGAL_TRAIN_PRECISION
own=$("$frugal" train run.yaml --fresh train.schedule=constant train.steps=60 --json 2>err | sed -n 's/.*"event":"start".*"precision":"\([a-z0-9]*\)".*/\1/p')
FRUGAL_VECTORS=none "$frugal" train run.yaml train.schedule=constant train.steps=120 --json >out 2>err || fail "not resumed with fewer instructions"
has out "\"event\":\"start\",.*\"precision\":\"$own\",\"precision_reason\":\"as in the checkpoint"
[ "$own" = fp32 ] || has out '"event":"checkpoint","what":"resumed","step":60,"text":"it was computed by other kernels"'
FRUGAL_VECTORS=none "$frugal" train run.yaml --fresh train.schedule=constant train.steps=60 --json >out 2>err || fail "not begun with few instructions"
has out '"event":"start",.*"precision":"fp32"'
run 0 train run.yaml train.schedule=constant train.steps=120 --json
has out '"event":"start",.*"precision":"fp32"'
run 2 train run.yaml train.precision=bf16 train.steps=130
has err 'train.precision was fp32 and is bf16'
export FRUGAL_TRAIN_PRECISION=fp32

run 2 train run.yaml checkpoint.every=often
has err 'checkpoint.every is often; expected auto, steps like 500, or a time like 10min'

exit $failed
