#!/bin/bash
# test_ranks_parts.sh: a checkpoint that several processes write, each its part: what the files are, for Python too; every command that
# reads checkpoints; a part that is damaged, missing or cut off; a folder that one rank does not see; a signal to one rank.
. "$(dirname "$0")/common.sh"

launcher=
command -v mpirun.mpich >/dev/null && launcher=mpirun.mpich
command -v mpirun.openmpi >/dev/null &&
  launcher="mpirun.openmpi --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include lo --mca btl self,vader"
if [ -z "$launcher" ]; then
  echo "skipped: neither Open MPI nor MPICH is installed"
  exit 77
fi
touch out err
awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%c", 97 + int(rand() * rand() * 20) }' >text
cat >run.yaml <<'YAML'
data: {kind: text, path: text, context: 16, samples: 200, eval_samples: 20}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {batch: 6, steps: 12, lr: 0.003, schedule: constant, eval_every: 100, threads: 1, optimiser: adamw, device: cpu, log_every: 1, join_s: 60}
checkpoint: {every: 4, keep: 2}
YAML

# ranks N ARGUMENT...: they train
ranks() {
  local n=$1
  shift
  $launcher -n "$n" "$frugal" train run.yaml "$@" >out 2>err || fail "$n ranks, $*: $(cat err)"
}

# newest FOLDER: its newest checkpoint; parts FOLDER: how many other files than the first ones it has
newest() { ls -d "$1"/step-* | tail -n 1; }
parts() { ls "$(newest "$1")" | grep -c -- '-of-'; }

for shard in state all; do
  # In two starts, because only the save at the end of one is sure to come: a save is put off while the one before is written.
  ranks 3 train.shard=$shard checkpoint.dir=$shard train.steps=8
  ranks 3 train.shard=$shard checkpoint.dir=$shard train.out=$shard.safetensors
  [ "$(ls -d $shard/step-* | sed 's/\..*//' | tr '\n' ' ')" = "$shard/step-000000008 $shard/step-000000012 " ] || fail "$shard keeps $(ls $shard)"
  grep -q '"frugal_checkpoint":2,' "$(newest $shard)"/manifest.json || fail "$shard: not of version 2"
  run 0 checkpoints verify $shard
  has out '^step-000000012.* verified'
  # Everything that reads a checkpoint finds the weights that train.out has.
  run 0 export $shard $shard.hf
  run 0 export $shard.safetensors $shard.out.hf
  cmp -s $shard.hf/model.safetensors $shard.out.hf/model.safetensors || fail "$shard: exported with other weights"
  run 0 generate $shard abc train.seed=1
  cp out generated
  run 0 generate $shard.safetensors abc train.seed=1
  cmp -s generated out || fail "$shard: generates another text"
  run 0 train run.yaml train.steps=1 train.lr=1e-30 train.decay=0 train.init="$(newest $shard)"/weights.safetensors train.out=began.safetensors checkpoint.dir=began.$shard
  same_numbers began.safetensors $shard.safetensors || fail "$shard: train.init reads other weights"
done
[ "$(parts state) $(parts all)" = "2 4" ] || fail "other parts: $(ls -R state all)"
if python3 -c 'import safetensors.numpy' 2>/dev/null; then
  python3 - <<'PY' || fail "Python does not join the parts"
import glob, re, sys
import numpy
from safetensors.numpy import load_file
def joined(folder, part):
    whole = {}
    for path in sorted(glob.glob(f"{folder}/{part}*.safetensors")):
        for name, values in load_file(path).items():
            of = re.fullmatch(r"(.*)\[([\d,]*)\]#(\d+)", name)
            if not of:
                whole[name] = values
                continue
            shape = [int(n) for n in of[2].split(",") if n]
            to = whole.setdefault(of[1], numpy.full(shape, numpy.nan, values.dtype))
            to.reshape(-1)[int(of[3]):][:values.size] = values
    return whole
out = load_file("all.safetensors")
weights, state = (joined(sorted(glob.glob("all/step-*"))[-1], part) for part in ("weights", "optimiser"))
sys.exit(set(out) != set(weights) or any((out[n] != weights[n]).any() for n in out)
         or set(state) != {f"adam.{k}/{n}" for n in out for k in "mv"} or any(numpy.isnan(v).any() for v in state.values()))
PY
else
  echo "without safetensors for Python: it was not tried"
fi

# A part that is damaged, missing or cut off: the checkpoint before is taken, the sentence says why, and the run ends with the same bits.
for how in damaged missing short; do
  for shard in state all; do
    rm -rf kept
    cp -r $shard kept
    part=$(newest kept)/optimiser-00003-of-00003.safetensors
    case $how in
      damaged) printf x | dd of="$part" bs=1 seek=$(($(stat -c %s "$part") - 5)) conv=notrunc 2>/dev/null; said='is damaged: its hash is' ;;
      missing) rm "$part"; said='is missing' ;;
      short) truncate -s -4 "$part"; said='has fewer bytes than' ;;
    esac
    run 1 checkpoints verify kept
    ranks 3 train.shard=$shard checkpoint.dir=kept train.out=again.safetensors
    [ "$(cat out err | grep -c -- "$(basename "$part") $said.*4 steps are repeated, from step 8 on")" = 1 ] || fail "$how, $shard: $(cat err)"
    grep -q 'resumed at step 8' out err || fail "$how, $shard: not resumed at step 8"
    same_numbers again.safetensors $shard.safetensors || fail "$how, $shard: other bits"
  done
done

# Resumed by one process, and by another number of ranks with another sharding.
cp -r all one
run 0 train run.yaml train.steps=14 checkpoint.dir=one
has err 'resumed at step 12'
ranks 2 train.steps=16 train.shard=state checkpoint.dir=one
grep -q 'resumed at step 14' out err || fail "2 ranks do not resume what one has saved: $(cat err)"

# A rank that does not see the folder: one sentence, rank 0 writes alone, and the bits are the same.
mkdir other
cp run.yaml text other
cat >each <<'EACH'
#!/bin/bash
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || cd other
exec "$FRUGAL" train run.yaml "$@"
EACH
chmod +x each
export FRUGAL=$frugal
for shard in state all; do
  $launcher -n 3 ./each train.shard=$shard checkpoint.dir=alone.$shard train.out=alone.safetensors >out 2>err || fail "alone: $(cat err)"
  [ "$(cat out err | grep -c "rank 1 cannot see or write to checkpoint.dir=alone.$shard, so rank 0 collects")" = 1 ] || fail "not one sentence: $(cat err)"
  [ "$(parts alone.$shard)" = 0 ] || fail "rank 0 is not alone: $(ls -R alone.$shard)"
  same_numbers alone.safetensors $shard.safetensors || fail "alone, $shard: other bits"
  [ -z "$(ls alone.$shard | grep -v -e '^step-' -e '^lock$' -e '^spent.json$')" ] || fail "left there: $(ls alone.$shard)"
done

# With a copy of everything in each machine, only rank 0's need to see the folder: the ranks of the other have disks of their own.
cat >each <<'EACH'
#!/bin/bash
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export FRUGAL_MACHINE=$((rank / 2))
[ "$rank" -lt 2 ] || cd other
exec "$FRUGAL" train run.yaml "$@"
EACH
for shard in state all; do
  $launcher -n 4 ./each train.shard=$shard train.shard_over=machine checkpoint.dir=disks.$shard train.out=disks.safetensors >out 2>err || fail "local disks: $(cat err)"
  ! grep -q 'rank 0 collects' out err || fail "rank 0 collects what its own machine could write: $(cat err)"
  [ "$(parts disks.$shard)" = $([ $shard = all ] && echo 2 || echo 1) ] || fail "local disks: other parts: $(ls -R disks.$shard)"
  run 0 export disks.$shard disks.$shard.hf
  run 0 export disks.safetensors disks.$shard.out.hf
  cmp -s disks.$shard.hf/model.safetensors disks.$shard.out.hf/model.safetensors || fail "local disks, $shard: other weights"
  [ ! -e other/disks.$shard ] || fail "the other machine writes too"
done

# A signal to one rank: all save their parts, and end with the same bits when they are started again. Rank 0 writes to files of its own:
# once nothing of it came through Open MPI's mpirun when another rank ended with 4, and why is not known.
cat >each <<'EACH'
#!/bin/bash
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && exec >out 2>err
exec "$FRUGAL" train run.yaml "$@"
EACH
: >out >err
$launcher -n 3 ./each train.steps=100000 train.shard=all checkpoint.dir=term checkpoint.every=1000000 >launched.log 2>&1 &
launched=$!
for i in $(seq 600); do grep -q '^step 2' out err && break; sleep 0.1; done
victim=
for pid in /proc/[0-9]*; do
  [ "$(readlink "$pid/cwd" 2>/dev/null)" = "$folder" ] && [ "$(readlink "$pid/exe")" = "$(readlink -f "$frugal")" ] || continue
  tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$' && victim=${pid#/proc/}
done
[ -n "$victim" ] && kill -TERM "$victim" || fail "no rank 1"
for i in $(seq 300); do kill -0 $launched 2>/dev/null || break; sleep 0.1; done
kill -0 $launched 2>/dev/null && { kill -9 $launched; fail "it goes on after SIGTERM"; }
wait $launched
step=$(sed -n 's/^stopped .* after step \([0-9]*\)$/\1/p' out)
[ -n "$step" ] && [ "$(parts term)" = 4 ] || fail "after SIGTERM: $(tail -n 5 out err launched.log; ls -R term)"
run 0 checkpoints verify term
has out "^step-0*$step\..* verified"
exit $failed
