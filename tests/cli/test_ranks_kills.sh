#!/bin/bash
# test_ranks_kills.sh: one of two to four ranks is killed at a random moment, again and again, and a launcher starts them anew: the
# final weights are those of a run that nobody disturbed, and no process is left. Starts differ in what they shard, which
# changes no bit where nothing is clipped. They save after every second step, so that most kills come while ranks write
# their parts of a checkpoint. RANK_KILLS says how often (10; 100 in ./check --long).
. "$(dirname "$0")/common.sh"

if command -v mpirun.openmpi >/dev/null; then
  launcher="mpirun.openmpi --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include lo --mca btl self,vader"
elif command -v mpirun.mpich >/dev/null; then
  launcher=mpirun.mpich
else
  echo "skipped: neither Open MPI nor MPICH is installed"
  exit 77
fi
kills=${RANK_KILLS:-10}
seed=${CHECK_SEED:-$(($(od -An -tu2 -N2 /dev/urandom)))}
RANDOM=$seed
ranks=$((2 + RANDOM % 3))
echo "CHECK_SEED=$seed, $ranks ranks"
touch out err

awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%c", 97 + int(rand() * rand() * 20) }' >text
cat >run.yaml <<YAML
data: {kind: text, path: text, context: 8, samples: 200, held_out: 0}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {batch: 8, steps: $((kills * 300)), lr: 0.003, schedule: constant, threads: 1, optimiser: adamw, device: cpu, log_every: 1, join_s: 30}
YAML

# ranks_here: the processes of ranks that run in this folder
ranks_here() {
  for pid in /proc/[0-9]*; do
    [ "$(readlink "$pid/cwd" 2>/dev/null)" = "$folder" ] || continue
    tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=[0-9]' && echo "${pid#/proc/}"
  done
}

# ends_or_moves PID: it ends, and until then its output grows at least every 60 s: twice train.join_s, the longest wait for a rank.
ends_or_moves() {
  local lines=0 since=$SECONDS now
  while kill -0 "$1" 2>/dev/null; do
    now=$(wc -l <run.out)
    [ "$now" = "$lines" ] || lines=$now since=$SECONDS
    [ $((SECONDS - since)) -lt 60 ] || return 1
    sleep 0.05
  done
}

$launcher -n $ranks "$frugal" train run.yaml train.shard=state train.out=whole.safetensors >/dev/null 2>whole.err || fail "undisturbed: $(cat whole.err)"
done=0 killed=0 saving=0
shards=(none state state all all)
for start in $(seq $((kills * 3))); do
  shard=none # the last start makes most of the steps
  [ $killed -ge $kills ] || shard=${shards[RANDOM % 5]}
  every=2
  [ $killed -lt $kills ] || every=50
  $launcher -n $ranks "$frugal" train run.yaml train.shard=$shard checkpoint.dir=kept checkpoint.every=$every train.out=end.safetensors --json >run.out 2>run.err &
  launched=$!
  if [ $killed -lt $kills ]; then
    for i in $(seq 300); do # until it has made a few steps of its own
      [ "$(grep -c '"event":"step"' run.out)" -gt $((RANDOM % 40)) ] && break
      kill -0 $launched 2>/dev/null || break
      sleep 0.05
    done
    sleep 0.0$((RANDOM % 10)) # somewhere in a step or a save
    half=$(ls -d kept/step-* 2>/dev/null | while read -r c; do [ -f "$c/manifest.json" ] || echo "$c"; done | wc -l)
    pids=($(ranks_here))
    [ ${#pids[@]} -gt 0 ] && kill -9 "${pids[$((RANDOM % ${#pids[@]}))]}" 2>/dev/null && killed=$((killed + 1)) saving=$((saving + (half > 0)))
  fi
  ends_or_moves $launched || { kill -9 $launched; fail "start $start ($shard) hangs: $(tail -n 3 run.err)"; exit 1; }
  if wait $launched; then
    same_numbers whole.safetensors end.safetensors || fail "other weights after $killed kills"
    [ $killed -lt $kills ] || { done=1; break; }
    rm -r kept end.safetensors # a quick machine has ended it before all kills were given: once more from the beginning
  fi
  [ -z "$(ranks_here)" ] || sleep 1
  [ -z "$(ranks_here)" ] || { fail "processes are left after start $start"; exit 1; }
done
[ $done = 1 ] || fail "it never ended: $(tail -n 3 run.err)"
echo "$killed kills, $saving of them with a checkpoint half-written, $start starts"
exit $failed
