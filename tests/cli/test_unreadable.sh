#!/bin/sh
# test_unreadable.sh: what cannot be read is not what is damaged, and what is not a plain file or a folder of
# ours is left alone: checkpoints on a disk as a user meets them. Object stores: tests/oracle/test_faulty_store.py.
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 4}]}
train: {epochs: 0, steps: 60, lr: 0.001}
checkpoint: {dir: kept, every: 20}
END
# limited CODE ARGUMENT...: as run, and it must not hang.
limited() {
  code=$1
  shift
  timeout 20 "$frugal" "$@" >out 2>err </dev/null
  rc=$?
  [ $rc = "$code" ] || fail "frugal $*: exit $rc, not $code"
}
shard() { ls -d kept/step-*60.*; }

run 0 train run.yaml train.steps=40
run 0 train run.yaml
steps=$(ls kept | sort)
mv "$(shard)/weights.safetensors" saved
for kind in fifo folder link; do # none of them is damage
  case $kind in
  fifo) mkfifo "$(shard)/weights.safetensors" ;;
  folder) mkdir "$(shard)/weights.safetensors" ;;
  link) ln -s weights.safetensors "$(shard)/weights.safetensors" ;;
  esac
  limited 3 train run.yaml train.steps=80
  has err 'weights.safetensors'
  has err 'Nothing was trained and nothing deleted: .*--fresh'
  lacks err 'is passed over'
  [ "$(ls kept | sort)" = "$steps" ] || fail "checkpoints went or came with a $kind: $(ls kept)"
  limited 1 checkpoints verify kept
  rm -r "$(shard)/weights.safetensors"
done
# As anybody but root sees it.
if [ "$(id -u)" != 0 ]; then
  cp saved "$(shard)/weights.safetensors"
  chmod 0 "$(shard)/weights.safetensors"
  limited 3 train run.yaml train.steps=80
  has err 'Permission denied'
  rm -f "$(shard)/weights.safetensors"
fi
# Missing and damaged are: the one before is taken, and what that costs is said; it stays.
limited 0 train run.yaml
has err '^warning: the checkpoint of step 60 was skipped: .*weights.safetensors is missing; 20 steps are repeated, from step 40 on'
limited 0 train run.yaml --fresh train.steps=20
lacks err 'goes on'

# Links lead nowhere, and only what is ours is deleted.
mkdir theirs
echo theirs >theirs/weights.safetensors
echo theirs >theirs/thesis.txt
ln -s ../theirs kept/step-000000001.9.9
limited 0 train run.yaml --fresh train.steps=60 checkpoint.keep=1
limited 0 checkpoints prune kept --keep 1
grep -q theirs theirs/weights.safetensors || fail "a link was followed"
rm kept/lock kept/step-000000001.9.9
ln -s ../theirs/thesis.txt kept/lock
limited 3 train run.yaml
grep -q '^theirs$' theirs/thesis.txt || fail "the lock's target was overwritten"
rm kept/lock
ln -s kept way # the folder itself may be reached by a link
limited 0 train run.yaml checkpoint.dir=way

# A FIFO is no file of data or settings; what the shell opens is.
mkfifo pipe
limited 3 train run.yaml data.path=pipe checkpoint.dir=
has err 'pipe: it is a FIFO, not a regular file'
limited 3 train pipe
limited 3 train run.yaml train.init=pipe checkpoint.dir=
timeout 20 "$frugal" train /dev/stdin checkpoint.dir= train.steps=2 <run.yaml >out 2>err || fail "/dev/stdin"
cat run.yaml | timeout 20 "$frugal" train /dev/stdin checkpoint.dir= train.steps=2 >out 2>err || fail "a pipe"

# What a killed run left beside its output is removed by the next.
sh -c 'echo half >weights.$$.part'
limited 0 train run.yaml checkpoint.dir= train.steps=2 train.out=weights
ls weights.*.part >/dev/null 2>&1 && fail "$(ls weights.*.part) is still there"
exit $failed
