#!/bin/bash
# test_show_ranks.sh: memory of one rank of several by `frugal show --ranks`: of GPT-2 1558M within 2 % of ZeRO's formulas (Rajbhandari et
# al. 2020: with Adam in fp32, a parameter takes 4 bytes, its gradient 4, its state 8; stage 1 leaves a rank one part of the state, stage 3
# one part of all), of a small model just what a run of two ranks takes.
. "$(dirname "$0")/common.sh"
head -c 100000 /dev/zero >tokens
cat >xl.yaml <<'YAML'
data: {kind: tokens, path: tokens, vocabulary: 50257, context: 1024, samples: 64}
model: {kind: gpt, depth: 48, width: 1600, heads: 25}
train: {batch: 8, steps: 1, optimiser: adamw, device: cpu, memory_gib: 1024}
YAML
number() { grep '"event":"memory"' out | grep -o "\"$1\":[0-9]*" | grep -o '[0-9]*$'; }
# near WHAT: parameters, gradients and state against their bytes by the formula
near() {
  awk -v is="$(($(number parameter_bytes) + $(number gradient_bytes) + $(number state_bytes)))" -v should="$1" \
    'BEGIN { d = is / should - 1; exit !(d > -0.02 && d < 0.02) }' || fail "$2: $(grep '"event":"memory"' out), not $1 bytes"
}
parameters=1557611200 # of GPT-2 1558M, its vocabulary tied
for ranks in 1 8; do
  run 0 show xl.yaml --json --ranks $ranks
  near $((16 * parameters)) "none, $ranks ranks"
  run 0 show xl.yaml --json --ranks $ranks train.shard=state
  near $((8 * parameters + 8 * parameters / ranks)) "state, $ranks ranks"
  run 0 show xl.yaml --json --ranks $ranks train.shard=all
  near $((16 * parameters / ranks)) "all, $ranks ranks"
done
# In 2 machines of 4: what 4 ranks have.
run 0 show xl.yaml --json --ranks 2x4 train.shard=state train.shard_over=machine
near $((8 * parameters + 8 * parameters / 4)) "state, 2 x 4 ranks"
run 0 show xl.yaml --json --ranks 2x4 train.shard=all train.shard_over=machine
near $((16 * parameters / 4)) "all, 2 x 4 ranks"
run 2 show xl.yaml --ranks 2x0
has err 'nor MxN for M machines with N each'
run 2 show xl.yaml train.shard_over=machine
has err 'train.shard'
run 2 show xl.yaml --ranks 0
has err 'from 1 to'
run 2 show xl.yaml --ranks 9
has err 'no part for each of 9 ranks'

# A rank's programs, with what they send.
head -c 4000 /dev/urandom | tr -c 'a-z\n' 'a' >text
cat >small.yaml <<'YAML'
data: {kind: text, path: text, context: 16, samples: 100, eval_samples: 20}
model: {kind: gpt, depth: 1, width: 32, heads: 2}
train: {batch: 12, steps: 2, threads: 1, optimiser: adamw, clip: 1, device: cpu}
YAML
run 0 show small.yaml --text --ranks 2 train.shard=state
[ "$(grep -c 'reduce_scatter' out)" -ge 2 ] || fail "no sums in the update"
has out 'all_gather'
run 0 show small.yaml --text --ranks 2 train.shard=all
has out 'gather_parts'
for shard in state all; do
  run 0 show small.yaml --text --ranks 2x2 train.shard=$shard train.shard_over=machine
  has out 'reduce_scatter.*ranks=2 over=1'
  has out 'all_reduce.*ranks=2 over=2'
done
has out 'gather_parts.*ranks=2 over=1'
run 0 show small.yaml --text
lacks out 'reduce_scatter|all_reduce|all_gather|gather_parts'

launcher=
command -v mpirun.mpich >/dev/null && launcher=mpirun.mpich
command -v mpirun.openmpi >/dev/null &&
  launcher="mpirun.openmpi --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include lo --mca btl self,vader"
for shard in none state all; do
  [ -n "$launcher" ] || break
  run 0 show small.yaml --json --ranks 2 train.shard=$shard
  planned=$(number arena_bytes)
  $launcher -n 2 "$frugal" train small.yaml --json train.shard=$shard train.out= >ran.json 2>err || fail "two ranks"
  used=$(grep '"event":"done"' ran.json | grep -o '"arena_bytes_used":[0-9]*' | grep -o '[0-9]*$')
  [ "$planned" = "$used" ] || fail "$shard: show says $planned bytes, a run took $used"
done
for shard in state all; do
  [ -n "$launcher" ] || break
  over="train.shard=$shard train.shard_over=machine"
  run 0 show small.yaml --json --ranks 2x2 $over
  planned=$(number arena_bytes)
  $launcher -n 2 env FRUGAL_MACHINE=a "$frugal" train small.yaml --json $over train.out= : \
    -n 2 env FRUGAL_MACHINE=b "$frugal" train small.yaml --json $over train.out= >ran.json 2>err || fail "2 x 2 ranks"
  used=$(grep '"event":"done"' ran.json | grep -o '"arena_bytes_used":[0-9]*' | grep -o '[0-9]*$')
  [ "$planned" = "$used" ] || fail "$shard in machines: show says $planned bytes, a run took $used"
done
# What runs again is chosen once, for all ranks: what show says of half of the memory that recomputing everything saves.
for recompute in none all; do
  run 0 show small.yaml --json --ranks 2 train.shard=all model.depth=4 train.recompute=$recompute
  declare "$recompute=$(number arena_bytes)"
done
half=$(awk -v none="$none" -v all="$all" 'BEGIN { printf "%.12f", (none + all) / 2 / 2^30 }')
auto="train.shard=all model.depth=4 train.recompute=auto train.memory_gib=$half"
run 0 show small.yaml --json --ranks 2 $auto
planned=$(number arena_bytes)
[ "$all" -le "$planned" ] && [ "$planned" -lt "$none" ] || fail "auto plans $planned bytes, between $all and $none"
if [ -n "$launcher" ]; then
  $launcher -n 2 "$frugal" train small.yaml --json $auto train.out= >ran.json 2>err || fail "recompute=auto: $(cat err)"
  used=$(grep '"event":"done"' ran.json | grep -o '"arena_bytes_used":[0-9]*' | grep -o '[0-9]*$')
  [ "$planned" = "$used" ] || fail "auto: show says $planned bytes, a run took $used"
fi
# A step that cannot be cut says what it is cut by, not "a batch of 1 samples".
run 2 show small.yaml --ranks 5 train.batch=13 train.micro_batch=1
has err '^train.batch=13 has no equal micro-batches of 5 to 5 samples, for 5 ranks with train.micro_batch=1: a multiple of 5 has'
exit $failed
