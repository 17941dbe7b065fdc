#!/bin/bash
# test_ranks_matrix.sh: the matrix of tests/unit/test_ranks.c by processes: model kind x sharding x accumulation x precision, on 2, 3 or 4 ranks of MPI, against
# one process, with the bounds that are argued there. As many cells as fit into CHECK_SECONDS (5), from a drawn one on; from a minute on (./check --long) all 240.
. "$(dirname "$0")/common.sh"
launcher=
command -v mpirun.mpich >/dev/null && launcher=mpirun.mpich
command -v mpirun.openmpi >/dev/null &&
  launcher="mpirun.openmpi --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include lo --mca btl self,vader"
[ -n "$launcher" ] || { echo "skipped: neither Open MPI nor MPICH is installed"; exit 77; }
unset FRUGAL_TRAIN_PRECISION
touch out err

for f in text other; do
  awk -v f=$f 'BEGIN { srand(f == "text" ? 3 : 4); for (i = 0; i < 3000; i++) printf "%s", rand() < 0.1 ? "\n" : sprintf("%c", 97 + int(rand() * (f == "text" ? 9 : 5))) }' >$f
done
four_classes
echo 'train: {steps: 30}' >run.yaml
echo 'model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}' >layers.yaml
text="data.kind=text data.path=text data.context=8 data.samples=50"
gpt="$text model.kind=gpt model.width=16 model.heads=2"
clicks="data.kind=synthetic_clicks data.samples=60 model.kind=ranker model.table_width=4 model.mlp=8"
models=("$gpt model.depth=1 model.dropout=0.2"
  "data.kind=lines data.files=[text,other] data.context=12 data.samples=50 model.kind=encoder model.depth=1 model.width=16 model.heads=2 model.dropout=0.2"
  "$gpt model.depth=2 train.optimiser=muon"
  "$clicks data.buckets=500"
  "$clicks data.buckets=20 train.tables=dense"
  "data.kind=idx data.path=images data.labels=labels data.samples=50")
precisions=("model.dtype=f64" "train.precision=fp32" "train.precision=bf16 train.optimiser=sgd train.lr=0.1"
  "train.precision=fp16 train.optimiser=sgd train.lr=0.1 train.loss_scale=256")
bounds=(1e-11 4e-3 2e-2 2e-2)
shards=("train.shard=none" "train.shard=state" "train.shard=all" "train.shard=state train.shard_over=machine" "train.shard=all train.shard_over=machine")
batches=("train.batch=11" "train.batch=12 train.micro_batch=2")
common="train.steps=30 train.eval_every=10 train.threads=1 train.lr=0.01 data.eval_samples=13 train.clip=1 train.device=cpu train.log_every=1"

losses() { grep -E '"event":"(step|eval)"' "$1" | grep -o '"loss":[0-9.e+-]*' | sed 's/"loss"://'; }
# several N SETTINGS...: ranks 0, 2 on one machine, 1, 3 on the other; of three each has its own
several() {
  local n=$1 parts=() i
  shift
  for ((i = 0; i < n; i++)); do
    [ $i = 0 ] || parts+=(:)
    parts+=(-n 1 env FRUGAL_MACHINE=$((n == 3 ? i : i % 2)) "$frugal" train --json "$@")
  done
  $launcher "${parts[@]}"
}

cell() {
  local k=$1 n=$((2 + $1 / 7 % 3))
  local shard=$((k % 5)) precision=$((k / 5 % 4)) micro=$((k / 20 % 2)) model=$(((k + k / 40) % 6))
  local file=run.yaml
  [ $model != 5 ] || file=layers.yaml
  local set="$file $common ${models[model]} ${batches[micro]} ${precisions[precision]} ${shards[shard]}"
  "$frugal" train --json $set >one.json 2>err || fail "one rank, $set"
  several $n $set >some.json 2>err || fail "$n ranks, $set"
  paste <(losses one.json) <(losses some.json) |
    awk -v bound="${bounds[precision]}" '{ d = $1 - $2; if (d < 0) d = -d; if (d > bound * ($1 < 1e-3 ? 1e-3 : $1)) bad++ } END { exit !(NR == 33 && !bad) }' ||
    fail "cell $k: $n ranks have other losses than one: $set"
}

seed=${CHECK_SEED:-$RANDOM}
seconds=${CHECK_SECONDS:-5}
echo "CHECK_SEED=$seed"
for ((i = 0; i < 240; i++)); do
  cell $(((seed + 107 * i) % 240))
  [ "$seconds" -ge 60 ] || [ $SECONDS -lt "$seconds" ] || break
done
exit $failed
