#!/bin/bash
# test_torchrun.sh: processes with torchrun's environment meet by MPICH's launcher and train as ranks: one host stands for two nodes,
# SIGTERM to one process saves, the same start again ends with the bits of an undisturbed run; ranks that never come, ports that are taken,
# a second Ctrl-C.
. "$(dirname "$0")/common.sh"
if ! command -v mpiexec.hydra >/dev/null || ! command -v python3 >/dev/null; then
  echo "skipped: MPICH's launcher or python3 is not installed"
  exit 77
fi
touch out err
seq 3000 >text
cat >run.yaml <<'YAML'
data: {kind: text, path: text, context: 16, samples: 100, eval_samples: 10}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {batch: 8, steps: 60, threads: 1, device: cpu, join_s: 60}
YAML
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
[ "$port" -lt 65000 ] || port=29500
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port

# begin COUNT NODE_SIZE ARGUMENT...: as torchrun would start them on nodes of so many; the last first. Streams: out.RANK, err.RANK.
begin() {
  local count=$1 here=$2 r
  shift 2
  pids=()
  for ((r = count - 1; r >= 0; r--)); do
    : >out.$r >err.$r
    RANK=$r WORLD_SIZE=${WORLD:-$count} LOCAL_RANK=$((r % here)) LOCAL_WORLD_SIZE=$here GROUP_RANK=$((r / here)) \
      "$frugal" "$@" >out.$r 2>err.$r </dev/null &
    pids[r]=$!
  done
}
# end CODE: all of them, with this code
end() {
  local r code
  for r in "${!pids[@]}"; do
    wait "${pids[r]}"
    code=$?
    [ $code = "$1" ] || { cp out.$r out; cp err.$r err; fail "RANK=$r ended with $code, not $1"; }
  done
}
# once SENTENCE: one process says it
once() { [ "$(cat out.* err.* | grep -cE -- "$1")" = 1 ] || { cat out.* >out; cat err.* >err; fail "not once: $1"; }; }
# rank_pid N: the process that MPICH has started as that rank, from this folder
rank_pid() {
  local p
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/cwd" 2>/dev/null)" = "$folder" ] && tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx "PMI_RANK=$1" && echo "${p#/proc/}"
  done
}
none_left() {
  local i p left
  for i in $(seq 50); do
    left=
    for p in /proc/[0-9]*; do [ "$(readlink "$p/cwd" 2>/dev/null)" = "$folder" ] && [ "${p#/proc/}" != $$ ] && left="$left ${p#/proc/}"; done
    left=$(for p in $left; do [ "$(readlink "/proc/$p/exe" 2>/dev/null)" = "$(readlink -f "$frugal")" ] && echo "$p"; done)
    [ -z "$left" ] && return
    sleep 0.1
  done
  fail "$1: processes are left: $left"
}

# Two nodes of two: one speaks, and the weights are those of ranks that mpirun starts.
begin 4 2 train run.yaml --json train.out=met.safetensors
end 0
once '"event":"done".*"ranks":4'
[ -z "$(cat out.1 out.2 out.3)" ] || fail "other ranks than 0 print"
mpirun.mpich -n 4 "$frugal" train run.yaml train.out=plain.safetensors >out 2>err || fail "mpirun.mpich"
same_numbers met.safetensors plain.safetensors || fail "ranks that met have other weights than mpirun's"

# SIGTERM to one of the processes that torchrun started: all save and end with 4; the same again, on the same port, has the same bits.
saving="checkpoint.dir=kept train.log_every=1 train.out=met.safetensors"
begin 4 2 train run.yaml --json $saving train.steps=60
for i in $(seq 300); do grep -q '"step":3,' out.0 && break; sleep 0.02; done
kill -TERM "${pids[2]}"
end 4
once '^stopped by SIGTERM at rank 2 after step'
begin 4 2 train run.yaml --json $saving
end 0
once '"what":"resumed".*"text":""'
same_numbers met.safetensors plain.safetensors || fail "the resumed run has other weights"

# torchrun itself listens on the port, and says so; a job of Slurm that started it announces itself too.
python3 -c "
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', int(sys.argv[1])))
s.listen()
open('listens', 'w').close()
time.sleep(60)" "$port" &
listener=$!
for i in $(seq 200); do [ -f listens ] && break; sleep 0.05; done
TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=none SLURM_STEP_NUM_TASKS=7 SLURM_PROCID=5 begin 2 1 train run.yaml --json train.out=
end 0
once '"event":"done".*"ranks":2'
# Any other program on it is in the way.
begin 2 2 train run.yaml train.join_s=1 train.out=
end 3
once "^port $port, .*MASTER_PORT"
kill $listener
wait $listener 2>/dev/null

# A rank that never comes: rank 0 says so, or rank 1 where it is rank 0.
SECONDS=0
WORLD=3 begin 2 2 train run.yaml train.join_s=2 train.out=
end 3
once 'another rank has not come for 2 s \(train.join_s\), so all 3 end'
[ $SECONDS -lt 30 ] || fail "ranks waited $SECONDS s for one that never comes"
RANK=1 WORLD_SIZE=2 run 3 train run.yaml train.join_s=1 train.out=
has err 'another rank has not come for 1 s'
none_left "ranks that waited"

# What is wrong with the settings is one sentence and the same code.
begin 2 2 train run.yaml train.lr=-1
end 2
once 'train.lr'
MASTER_PORT=http RANK=0 WORLD_SIZE=2 run 2 train run.yaml
has err '^MASTER_PORT=http is not a port'
mkdir empty
for name in sh env; do ln -s "$(command -v $name)" empty; done
PATH=$folder/empty RANK=0 WORLD_SIZE=2 run 3 train run.yaml
has err 'there is no mpiexec.hydra: install MPICH'
PATH=$folder/empty RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 run 3 train run.yaml
[ ! -s err ] || fail "another process of the machine says it too"
RANK=0 WORLD_SIZE=2 run 2 sweep run.yaml
has err 'the launcher has started 2'
RANK=0 WORLD_SIZE=1 run 0 train run.yaml train.steps=1 train.out=

# A rank that is killed, and one whose process above is: all end, nobody is left.
for victim in rank process; do
  begin 3 3 train run.yaml --json train.steps=100_000_000 train.eval_every=100_000_000 train.log_every=1 train.out=
  for i in $(seq 300); do grep -q '"step":3,' out.0 && break; sleep 0.02; done
  if [ $victim = rank ]; then
    kill -9 "$(rank_pid 1)"
    end 3
  else
    kill -9 "${pids[1]}"
    { wait "${pids[1]}"; } 2>/dev/null
    for r in 0 2; do wait "${pids[r]}"; [ $? -ge 3 ] || fail "RANK=$r went on"; done
  fi
  none_left "a killed $victim"
done

# A second Ctrl-C ends all at once, in the middle of a step that takes long: nobody saves, nobody is left.
begin 3 3 train run.yaml --json train.out= checkpoint.dir=twice data.context=128 model.depth=6 model.width=512 model.heads=8 train.batch=96 train.micro_batch=2
for i in $(seq 300); do grep -q '"event":"start"' out.0 && break; sleep 0.02; done
kill -INT "${pids[@]}"
sleep 0.3
for r in 0 1 2; do kill -0 "${pids[r]}" 2>/dev/null || fail "RANK=$r does not finish its step"; done
kill -INT "${pids[@]}" 2>/dev/null # where one is gone, the launcher may have ended the others
end 4
sleep 0.5
[ -z "$(rank_pid 0; rank_pid 1; rank_pid 2)" ] || fail "ranks go on after a second Ctrl-C"
none_left "a second Ctrl-C"
[ -z "$(ls twice | grep step-)" ] || fail "ranks saved after a second Ctrl-C"
exit $failed
