#!/bin/sh
# test_checkpoints.sh: frugal checkpoints lists, verifies, shows, prunes and copies, and says what is wrong.
. "$(dirname "$0")/common.sh"
save=$top/build/save_checkpoints
[ -x "$save" ] || { echo "no $save yet"; exit 77; }

"$save" c 5 || exit 1
run 0 checkpoints c
has out '^step-000000050.1.5 +20[0-9-]+T[0-9:]+Z +[0-9.]+ kB  valid, loss 0.2000$'
has out '^step-000000020.1.2 .*loss 0.0100, best$'
[ "$(head -n 1 out | cut -c1-18)" = step-000000050.1.5 ] || fail 'the newest is not first'
run 0 checkpoints list c --json
has out '"event":"checkpoint","name":"step-000000030.1.3","step":30,"status":"valid"'
has out '"value":0.01,"best":true'

run 0 checkpoints verify c
has out '^step-000000010.1.1 .*verified'
run 0 checkpoints show c
has out '^run +test, attempt 1, save 5'
has out '^shard +weights.safetensors +4.1 kB'
has out '^state +.."threads":2.'
has out '^restore .*measured just now'
run 0 checkpoints show c 30 --rate 2 --json
has out '"event":"restore","name":"step-000000030.1.3","bytes":[0-9]+,"bytes_per_s":2e.06,"measured":false,"seconds":0.002'

# What a run left: a line for each setting, not one of thousands of characters.
printf 'data: {kind: synthetic_clicks, samples: 100}\nmodel: {kind: ranker}\ntrain: {steps: 1}\n' >clicks.yaml
run 0 train clicks.yaml checkpoint.dir=trained
run 0 checkpoints show trained
has out '^state +identity '
has out '^ +data.kind synthetic_clicks$'
has out '^ +train.steps 1$'

# One byte of a shard, and half a manifest.
printf x | dd of=c/step-000000050.1.5/weights.safetensors bs=1 seek=200 conv=notrunc 2>dd.err
head -c 100 c/step-000000040.1.4/manifest.json >half && mv half c/step-000000040.1.4/manifest.json
run 0 checkpoints c
has out '^step-000000050.1.5 .*valid' # its manifest is whole
has out '^step-000000040.1.4 +c/step-000000040.1.4/manifest.json is damaged: line '
run 1 checkpoints verify c
has out '^step-000000050.1.5 +c/step-000000050.1.5/weights.safetensors is damaged: its hash is'
has out '^step-000000030.1.3 .*verified'
has err '2 of 5 checkpoints cannot be restored'
run 1 checkpoints verify c 50
run 0 checkpoints verify c step-000000030.1.3
run 1 checkpoints show c step-000000040.1.4

# Copied whole or not at all.
run 1 checkpoints copy c d 50
has err 'is damaged'
run 0 checkpoints list d
[ ! -s out ] || fail 'a damaged checkpoint was copied'
run 0 checkpoints copy c d 30
has out '^copied step-000000030.1.3 to d, [0-9.]+ kB, verified'
cmp -s c/step-000000030.1.3/manifest.json d/step-000000030.1.3/manifest.json || fail 'the copy has another manifest'
run 1 checkpoints copy c d 30
has err 'already exists'
run 0 checkpoints copy d e --json
has out '"event":"copied","name":"step-000000030.1.3","to":"e"'

# The damaged newest proves nothing: what is older than the first whole one goes, and it stays.
run 0 checkpoints prune c --keep 1
has out '^deleted step-000000010.1.1'
has out '^4 kept, 1 deleted'
[ -d c/step-000000050.1.5 ] && [ -d c/step-000000030.1.3 ] && [ -d c/step-000000020.1.2 ] || fail 'too much was deleted'
"$save" f 6 >out 2>err
run 0 checkpoints prune f --json
has out '"event":"pruned","deleted":2,"bytes":[0-9]+,"kept":4'

# A folder that a run holds can be looked at, and nothing else.
(flock 9 && exec sleep 20) 9>>f/lock &
holder=$!
sleep 0.2
run 3 checkpoints prune f
has err 'two runs cannot write to one folder of checkpoints: f/lock is held by another process'
run 0 checkpoints verify f
kill "$holder"

# A version that we do not know.
printf '{"frugal_checkpoint":7}' >f/step-000000060.1.6/manifest.json
run 0 checkpoints f
has out '^step-000000060.1.6 +f/step-000000060.1.6/manifest.json has version 7'

run 2 checkpoints
run 2 checkpoints burn f
has err 'unknown verb burn; .*; restore and lifecycle need s3://'
run 2 checkpoints copy f
has err 'expected frugal checkpoints copy FROM TO'
run 2 checkpoints prune f --keep 0
run 2 checkpoints show f --rate fast
run 2 checkpoints show f 7777
run 3 checkpoints nowhere
has err 'cannot find nowhere'
exit $failed
