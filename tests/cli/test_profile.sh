#!/bin/sh
# test_profile.sh: frugal profile, train --profile and log.* as a user types them.
# check: alone, it times ops and steps
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<YAML
data: {kind: idx, path: images, labels: labels}
model:
  layers:
    - flatten
    - dense: {units: 8, activation: relu}
    - dense: 4
train: {epochs: 3, out: weights.safetensors}
checkpoint: {dir: kept}
YAML

run 0 profile run.yaml active=2 trace=trace.json --seconds 0
has out '^Profile of 2 steps: [0-9.]+ ms per step on '
has out '^  forward +[0-9.]+ +[0-9.]+%'
has out '^  all +[0-9.]+ +100.0%$'
has out '^  matmul\+relu +1 .*f32\[32,4\] f32\[8,4\] f32\[8\] -> f32\[32,8\]$'
has out '^  train: .* at .*, of which .* stay$'
has err 'trace in trace.json'
[ -s trace.json ] || fail "no trace"
[ ! -e weights.safetensors ] && [ ! -e kept ] || fail "a profile keeps nothing"

run 0 profile run.yaml sort=memory --seconds 0
run 0 profile run.yaml train.micro_batch=8 --seconds 0
run 2 profile run.yaml sort=colour
has err 'profile.sort is colour; expected one of time\|calls'
run 2 profile run.yaml wait=1000000
has err 'the run ended before a step was profiled'
run 3 profile run.yaml trace=/dev/full/trace.json
has err '/dev/full/trace.json'
run 2 profile
has err 'which run file'

# Its checkpoints lie in DIR.PID.part, whose name can be guessed: no link is followed there and nobody else's folder
# is written to or emptied. What a killed one left is removed by the next; the rest stays.
mkdir theirs
echo thesis >theirs/thesis.txt
sh -c 'ln -s theirs kept.$$.part; exec "$0" profile run.yaml train.epochs=0 --seconds 0.2' "$frugal" >out 2>err
[ $? = 3 ] || fail "a link in the way was not refused"
has err 'kept\.[0-9]+\.part is there already, and a measurement would write to it and remove it; move it away'
rm -f kept.*.part
sh -c 'mkdir kept.$$.part && echo mine >kept.$$.part/notes; exec "$0" profile run.yaml train.epochs=0 --seconds 0.2' \
  "$frugal" >out 2>err
[ $? = 3 ] || fail "a folder in the way was not refused"
[ "$(cat kept.*.part/notes)" = mine ] || fail "a folder that was there before was emptied"
rm -r kept.*.part
sh -c 'exit 0' & gone=$!
wait $gone
mkdir -p kept.$gone.part/step-000000004.1.1
echo half >kept.$gone.part/step-000000004.1.1/weights.safetensors
ln -s ../theirs kept.$gone.part/step-000000005.1.1
run 0 profile run.yaml train.epochs=0 --seconds 0.2
[ ! -e kept.$gone.part/step-000000004.1.1 ] || fail "what a killed measurement left was not removed"
rm kept.$gone.part/step-000000005.1.1
run 0 profile run.yaml train.epochs=0 checkpoint.dir=kept/ --seconds 0.2
[ ! -e kept.$gone.part ] || fail "the folder of a killed measurement was not removed"
[ "$(cat theirs/thesis.txt)" = thesis ] || fail "a link was followed"
[ -z "$(ls -d kept* 2>/dev/null)" ] || fail "a measurement left $(ls -d kept*)"

# A driver that one process began with cannot be gone on with in its copy: every look has its own.
frugal=$top/build/frugal_seeded
export SEEDED="gpu=1"
run 0 profile run.yaml train.device=cuda train.epochs=0 --seconds 1
has out '^Profile of 3 steps'
has out '^  train: .* at .*, of which .* stay$'
has out '^verdict '
unset SEEDED
frugal=${FRUGAL:-$top/build/frugal}

# On the way of a run, which goes on to its end.
run 0 train run.yaml --profile wait=2,active=2
has out '^Profile of 2 steps'
has out '^accuracy'
[ -s weights.safetensors ] || fail "the run did not end"
run 2 train run.yaml --profile active=none
has err 'profile.active'
rm -rf kept

# Figures: one row a step, none twice after an interruption that is gone on from; what fails is a warning.
run 0 train run.yaml train.log_every=1 train.steps=10 log.csv=run.csv log.tensorboard=tb
run 0 train run.yaml train.log_every=1 train.steps=20 log.csv=run.csv log.tensorboard=tb
[ "$(cut -d, -f1 run.csv | tr '\n' ' ')" = "step $(seq -s ' ' 1 20) " ] || fail "not one row a step: $(cut -d, -f1 run.csv | tr '\n' ' ')"
[ "$(ls tb | wc -l)" = 2 ] || fail "not one event file a start"
run 0 train run.yaml --fresh train.steps=10 log.csv=/dev/full/x log.tensorboard=/dev/full/tb
has err '^warning: .*/dev/full/x'
has err '^warning: .*/dev/full/tb'
has out '^accuracy'
exit $failed
