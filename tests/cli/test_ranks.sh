#!/bin/bash
# test_ranks.sh: several processes train together: started by the launchers of Open MPI and MPICH, against one process; resumed by any
# other number of them; ended by the death of one, with one sentence and in seconds.
. "$(dirname "$0")/common.sh"

launchers=()
command -v mpirun.openmpi >/dev/null &&
  launchers+=("mpirun.openmpi --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include lo --mca btl self,vader")
command -v mpirun.mpich >/dev/null && launchers+=("mpirun.mpich")
if [ ${#launchers[@]} = 0 ]; then
  echo "skipped: neither Open MPI nor MPICH is installed"
  exit 77
fi

awk 'BEGIN { srand(3); for (i = 0; i < 40000; i++) printf "%s", rand() < 0.1 ? "\n" : sprintf("%c", 97 + int(rand() * rand() * 20)) }' >text
touch out err
cat >run.yaml <<'YAML'
data: {kind: text, path: text, context: 16, samples: 400, eval_samples: 50}
model: {kind: gpt, depth: 1, width: 32, heads: 2, dropout: 0.1}
train: {batch: 12, steps: 30, lr: 0.003, eval_every: 10, threads: 1, optimiser: adamw, clip: 1, device: cpu, log_every: 1}
YAML

# losses FILE: of steps and evaluations
losses() { grep -E '"event":"(step|eval)"' "$1" | grep -o '"loss":[0-9.e+-]*'; }
# near FILE FILE COUNT: as many losses, equal but for the rounding of sums, by the bound of tests/unit/test_ranks.c
near() {
  paste <(losses "$1") <(losses "$2") | sed 's/"loss"://g' |
    awk -v count="$3" '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > 4e-3) bad++ } END { exit !(NR == count && !bad) }' ||
    fail "$2 is not near $1"
}

"$frugal" train run.yaml --json train.out=one.safetensors >one.json 2>one.err || fail "one rank: $(cat one.err)"
for launcher in "${launchers[@]}"; do
  name=${launcher%% *}
  for n in 2 3; do
    $launcher -n $n "$frugal" train run.yaml --json train.out=$name.$n.safetensors >$name.$n.json 2>$name.err ||
      fail "$name -n $n: $(cat $name.err)"
    near one.json $name.$n.json 33
    grep '"event":"start"' $name.$n.json | grep -q "\"step_samples\":12,\"ranks\":$n" || fail "$name -n $n: other samples in a step"
    [ "$(grep -c '"event":"done"' $name.$n.json)" = 1 ] || fail "$name: not one rank alone speaks"
  done
  same_numbers $name.3.safetensors ${launchers[0]%% *}.3.safetensors || fail "$name: other bits than ${launchers[0]}"
done
launcher=${launchers[0]}; name=${launcher%% *}
$launcher -n 3 "$frugal" train run.yaml --json train.out=again.safetensors >again.json 2>/dev/null
same_numbers again.safetensors $name.3.safetensors || fail "the same number of ranks gives other bits"

# Resumed by any number of ranks; by the same number with the same bits.
constant="train.schedule=constant"
for shard in none state; do
  $launcher -n 2 "$frugal" train run.yaml $constant train.shard=$shard train.out=whole.$shard.safetensors --json \
    >constant.json 2>/dev/null || fail "whole, $shard"
done
for ranks in "2 2 none" "2 1 none" "1 2 none" "2 3 none" "2 2 state" "3 1 state" "1 3 state" "3 2 state"; do
  set -- $ranks
  shard=train.shard=$3
  rm -rf kept
  $launcher -n $1 "$frugal" train run.yaml $constant $shard checkpoint.dir=kept train.steps=20 >/dev/null 2>first.err ||
    fail "$1 ranks: $(cat first.err)"
  $launcher -n $2 "$frugal" train run.yaml $constant $shard checkpoint.dir=kept train.out=resumed.safetensors --json \
    >resumed.json 2>second.err || fail "$1 ranks, then $2: $(cat second.err)"
  [ "$(grep -c '"event":"step"' resumed.json)" = 10 ] || fail "$1 ranks, then $2: not resumed at step 20"
  paste <(losses constant.json | tail -n 11) <(losses resumed.json) | sed 's/"loss"://g' |
    awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > 4e-3) bad++ } END { exit !(NR == 11 && !bad) }' ||
    fail "$ranks: resumed with other losses"
  if [ $1 = $2 ]; then same_numbers whole.$3.safetensors resumed.safetensors || fail "$ranks: resumed with other bits"; fi
done

# Everything sharded: losses of one rank, weights that rank 0 has collected, and checkpoints that any number of ranks and any sharding resume.
# Few steps are enough: each of them gathers and sums every tensor.
short="train.schedule=constant train.eval_every=3 train.steps=6"
"$frugal" train run.yaml $short --json >short.one.json 2>/dev/null || fail "six steps"
$launcher -n 2 "$frugal" train run.yaml $short train.shard=all train.out=whole.all.safetensors --json >short.json 2>short.err ||
  fail "2 ranks, all: $(cat short.err)"
near short.one.json short.json 8
for ranks in "2 2 all all" "3 2 all state" "1 3 none all"; do
  set -- $ranks
  rm -rf kept
  $launcher -n $1 "$frugal" train run.yaml $short train.steps=3 train.shard=$3 checkpoint.dir=kept >/dev/null 2>first.err ||
    fail "$ranks: $(cat first.err)"
  $launcher -n $2 "$frugal" train run.yaml $short train.shard=$4 checkpoint.dir=kept train.out=resumed.safetensors --json \
    >resumed.json 2>second.err || fail "$ranks, resumed: $(cat second.err)"
  tail -n 4 <(losses short.one.json) >expected
  near <(sed 's/^/"event":"step",/' expected) resumed.json 4
  if [ "$1 $3" = "$2 $4" ]; then same_numbers whole.all.safetensors resumed.safetensors || fail "$ranks: resumed with other bits"; fi
done

# auto decides alike on all ranks: here rank 0 has just too few of the samples for Muon, rank 1 just enough.
share=$("$frugal" show run.yaml train.optimiser=auto train.batch=1 --json | sed -n 's/.*muon would be \([0-9.]*\) %.*/\1/p')
odd=$(awk -v share="$share" 'BEGIN { print 2 * int(1.5 * share / (100 - share)) + 1 }')
$launcher -n 2 "$frugal" train run.yaml train.optimiser=auto train.batch="$odd" train.steps=1 >auto.out 2>auto.err ||
  fail "auto, $odd samples on 2 ranks: $(cat auto.err)"

# Muon's momentum lies with the rank that updates the matrix: a checkpoint has all of it, and each finds its own again.
muon="$short model.depth=2 train.optimiser=muon"
"$frugal" train run.yaml $muon --json >muon.one.json 2>/dev/null || fail "muon, one rank"
tail -n 4 <(losses muon.one.json) >expected
for ranks in "2 2 state state" "3 2 state all" "1 3 none state" "2 1 all none"; do
  set -- $ranks
  rm -rf kept
  $launcher -n $1 "$frugal" train run.yaml $muon train.steps=3 train.shard=$3 checkpoint.dir=kept >/dev/null 2>first.err ||
    fail "muon, $ranks: $(cat first.err)"
  $launcher -n $2 "$frugal" train run.yaml $muon train.shard=$4 checkpoint.dir=kept train.out=resumed.safetensors --json \
    >resumed.json 2>second.err || fail "muon, $ranks, resumed: $(cat second.err)"
  near <(sed 's/^/"event":"step",/' expected) resumed.json 4
  [ "$1 $3" = "$2 $4" ] || continue
  $launcher -n $1 "$frugal" train run.yaml $muon train.shard=$3 train.out=whole.muon.safetensors >/dev/null 2>&1 || fail "muon, $ranks, whole"
  same_numbers whole.muon.safetensors resumed.safetensors || fail "muon, $ranks: resumed with other bits"
done

# Sharded inside each of two machines, for which FRUGAL_MACHINE stands on this one; rank 2 is the first machine's. Any other number, grouping and
# sharding resumes, and the same one with the same bits.
# machines SETTINGS...: 2 x 2 ranks
machines() {
  $launcher -n 1 env FRUGAL_MACHINE=a "$frugal" train run.yaml $short "$@" : -n 1 env FRUGAL_MACHINE=b "$frugal" train run.yaml $short "$@" : \
    -n 1 env FRUGAL_MACHINE=a "$frugal" train run.yaml $short "$@" : -n 1 env FRUGAL_MACHINE=b "$frugal" train run.yaml $short "$@"
}
tail -n 4 <(losses short.one.json) >expected
for shard in state all; do
  over="train.shard=$shard train.shard_over=machine"
  machines $over train.out=hybrid.$shard.safetensors --json >hybrid.json 2>hybrid.err || fail "2 x 2, $shard: $(cat hybrid.err)"
  near short.one.json hybrid.json 8
  rm -rf kept
  machines $over train.steps=3 checkpoint.dir=kept >/dev/null 2>first.err || fail "2 x 2, $shard, saved: $(cat first.err)"
  cp -r kept kept.again
  machines $over checkpoint.dir=kept train.out=resumed.safetensors --json >resumed.json 2>second.err || fail "2 x 2, $shard, resumed: $(cat second.err)"
  near <(sed 's/^/"event":"step",/' expected) resumed.json 4
  same_numbers hybrid.$shard.safetensors resumed.safetensors || fail "2 x 2, $shard: resumed with other bits"
  for ranks in "1 none" "2 all" "3 state"; do
    set -- $ranks
    rm -rf kept && cp -r kept.again kept
    $launcher -n $1 "$frugal" train run.yaml $short train.shard=$2 checkpoint.dir=kept --json >resumed.json 2>second.err || fail "2 x 2 $shard, then $ranks: $(cat second.err)"
    near <(sed 's/^/"event":"step",/' expected) resumed.json 4
  done
  rm -rf kept kept.again
  $launcher -n 3 "$frugal" train run.yaml $short train.shard=all train.steps=3 checkpoint.dir=kept >/dev/null 2>first.err || fail "3, all: $(cat first.err)"
  machines $over checkpoint.dir=kept --json >resumed.json 2>second.err || fail "3 all, then 2 x 2 $shard: $(cat second.err)"
  near <(sed 's/^/"event":"step",/' expected) resumed.json 4
done
over="train.shard=state train.shard_over=machine"
$launcher -n 2 env FRUGAL_MACHINE=a "$frugal" train run.yaml $over : -n 1 env FRUGAL_MACHINE=b "$frugal" train run.yaml $over >wrong.out 2>&1 && fail "2 + 1 ranks"
[ "$(grep -c "needs as many ranks on every machine: rank 0's has 2 and rank 2's 1" wrong.out)" = 1 ] || fail "2 + 1 ranks: $(cat wrong.out)"
$launcher -n 1 env FRUGAL_MACHINE=a "$frugal" train run.yaml $short $over : -n 1 env FRUGAL_MACHINE=b "$frugal" train run.yaml $short $over >wrong.out 2>&1 || fail "2 x 1"
grep -q 'shards nothing: every machine has one rank' wrong.out || fail "2 x 1 is not noted: $(cat wrong.out)"

# What a rank costs that has no other: nothing but time, so the numbers are the same.
FRUGAL_ONE_RANK=1 $launcher -n 1 "$frugal" train run.yaml $short train.out=alone.safetensors >/dev/null 2>alone.err || fail "one rank: $(cat alone.err)"
"$frugal" train run.yaml $short train.out=plain.safetensors >/dev/null 2>&1
same_numbers alone.safetensors plain.safetensors || fail "one rank has other bits than none"

# Open MPI binds a single rank to one core, and the run says that there are more; not where one is all that it needs, or was not bound.
if [ $name = mpirun.openmpi ] && [ "$(nproc)" -gt 1 ] && [ "$($launcher --bind-to core -n 1 nproc)" = 1 ]; then
  cores=$(nproc) one="$launcher --bind-to core -n 1"
  note="mpirun binds the ranks of this machine (1) to 1 of its $cores cores: mpirun --bind-to none lets them use all"
  for ranks in "" FRUGAL_ONE_RANK=1; do
    env $ranks $one "$frugal" train run.yaml train.steps=1 train.threads=0 >bound.out 2>&1 && grep -qF "$note" bound.out || fail "$ranks: bound, and not noted: $(cat bound.out)"
    env $ranks $one "$frugal" train run.yaml train.steps=1 train.threads=1 >bound.out 2>&1 && ! grep -q 'mpirun binds' bound.out || fail "$ranks: one thread needs one core"
    env $ranks ${one/core/none} "$frugal" train run.yaml train.steps=1 train.threads=0 >bound.out 2>&1 && ! grep -q 'mpirun binds' bound.out || fail "$ranks: not bound"
  done
fi

# A ranker whose table is updated row by row: only the other state is dealt out, and a checkpoint has each in its place.
ranker="data.kind=synthetic_clicks data.samples=2000 data.buckets=50 model.kind=ranker model.mlp=16 train.tables=adagrad train.shard=state"
cat >ranker.yaml <<'YAML'
train: {batch: 64, lr: 0.01, eval_every: 1000, threads: 1, optimiser: adam, device: cpu, log_every: 1, schedule: constant}
checkpoint: {dir: rows, every: 5}
YAML
$launcher -n 2 "$frugal" train ranker.yaml $ranker train.steps=10 >/dev/null 2>first.err || fail "a ranker by 2 ranks: $(cat first.err)"
$launcher -n 1 "$frugal" train ranker.yaml $ranker train.steps=20 >/dev/null 2>second.err || fail "then by 1: $(cat second.err)"
grep -q 'resumed at step 10' second.err || fail "a ranker does not resume: $(cat second.err)"

# What is wrong at one rank is said once, and all end with the same code.
$launcher -n 2 "$frugal" train run.yaml train.batch=1 >wrong.out 2>&1 && fail "a batch smaller than the ranks"
[ "$(grep -c 'no part for each of 2 ranks' wrong.out)" = 1 ] || fail "batch 1: $(cat wrong.out)"

$launcher -n 2 "$frugal" train ranker.yaml $ranker train.shard=all train.steps=1 checkpoint.dir= >wrong.out 2>&1 || fail "a ranker, all: $(cat wrong.out)"
grep -q ', batch 64 over 2 ranks, on ' wrong.out || fail "not the batch of all ranks: $(cat wrong.out)"
grep -q 'in tables updated row by row (train.tables=dense shards them)' wrong.out || fail "whole tables are not noted: $(cat wrong.out)"

# One that is killed ends all.
$launcher -n 3 "$frugal" train run.yaml train.steps=1_000_000 train.eval_every=1_000_000 train.batch=13 \
  >killed.out 2>&1 &
launched=$!
for i in $(seq 200); do grep -q '^step ' killed.out && break; sleep 0.1; done
victim=
for pid in /proc/[0-9]*; do # the rank 2 that runs in this folder
  [ "$(readlink "$pid/cwd" 2>/dev/null)" = "$folder" ] || continue
  tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=2$' && victim=${pid#/proc/}
done
[ -n "$victim" ] || { fail "no rank was found: $(cat killed.out)"; exit 1; }
kill -9 "$victim"
for i in $(seq 100); do kill -0 $launched 2>/dev/null || break; sleep 0.1; done
kill -0 $launched 2>/dev/null && { kill -9 $launched; fail "the launcher still waits after 10 s"; }
[ "$(grep -c 'has ended, so all 3 end' killed.out)" = 1 ] || fail "not one sentence: $(tail -n 12 killed.out)"
exit $failed
