#!/bin/sh
# test_shrinks.sh: a data file that becomes shorter while a run reads it ends the run with its name and exit code 3;
# the steps done are saved, and with the whole file back the run resumes bit-exact.
. "$(dirname "$0")/common.sh"

# shrinks FILE ARGUMENT...: truncates FILE once the run has saved; then the same run with the whole file, compared with one that was left alone.
shrinks() {
  file=$1; shift
  rm -rf kept out.safetensors
  cp "$file" whole
  "$frugal" train run.yaml "$@" checkpoint.dir=kept checkpoint.every=50 train.steps=1000000 train.log_every=1 --json >out 2>err \
    </dev/null &
  pid=$!
  for i in $(seq 200); do [ -n "$(ls -d kept/step-* 2>/dev/null)" ] && break; sleep 0.05; done
  truncate -s 100 "$file"
  wait $pid
  rc=$?
  cp whole "$file"
  [ $rc = 3 ] || fail "$file shrank: exit $rc, not 3"
  has err "$file.* (became shorter|ends)"
  step=$(ls kept | sed -n 's/^step-0*\([0-9]*\)\..*/\1/p' | tail -n 1)
  [ "${step:-0}" -ge 50 ] || { fail "$file shrank: nothing was saved"; return; }
  done=$(sed -n 's/.*"event":"step","step":\([0-9]*\),.*/\1/p' out | tail -n 1)
  [ "$step" = "$done" ] || fail "$file shrank: step $done was done and step $step saved"
  steps=$((step + 20))
  run 0 train run.yaml "$@" checkpoint.dir=kept train.steps=$steps train.out=resumed.safetensors
  has err "step $step"
  run 0 train run.yaml "$@" train.steps=$steps train.out=alone.safetensors
  cmp -s resumed.safetensors alone.safetensors || fail "$file shrank: the resumed run differs"
}

echo 'train: {batch: 4, lr: 0.001, schedule: constant, epochs: 0}' >run.yaml
gpt='data.context=16 model.kind=gpt model.depth=1 model.width=16 model.heads=2'
seq 20000 >text.txt
shrinks text.txt data.path=text.txt $gpt
run 0 tokenize text.txt --train 300 --tokenizer mine --out tokens.bin
shrinks tokens.bin data.path=tokens.bin $gpt
four_classes
shrinks images data.kind=idx data.path=images data.labels=labels 'model.layers=[flatten, {dense: 4}]'
if "$top/build/idx_folder" images labels pictures; then
  run 0 pack pictures --to packed
  shrinks packed-000000.tar data.path=packed-000000.tar data.image_size=8 data.image_colour=false data.augment=flip \
    loader.keep=off 'model.layers=[flatten, {dense: 4}]'
fi

# What is made of a file is not finished with what stood in for its bytes.
seq 3000000 >large.txt
: >out; : >err
"$frugal" tokenize large.txt --train 2000 --tokenizer other >out 2>err </dev/null &
pid=$!
sleep 0.3
truncate -s 100 large.txt
wait $pid
rc=$?
[ $rc = 3 ] || fail "a vocabulary of a file that shrank: exit $rc, not 3"
has err 'large.txt became shorter'
[ ! -e other/tokenizer.json ] || fail 'a vocabulary of a file that shrank was written'
exit $failed
