#!/bin/bash
# test_ranks_errors.sh: what is wrong between ranks is one sentence of one of them, and all end with the same exit code: other settings,
# data or version, data that one does not see, a rank that comes late, never, or stops, a notice to the machine of
# one, an MPI that allows no threads.
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
seq 3000 >text
cat >run.yaml <<'YAML'
data: {kind: text, path: text, context: 16, samples: 100, eval_samples: 10}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {batch: 4, steps: 2, threads: 1, device: cpu, out: "", join_s: 60}
YAML

# each ARGUMENT...: one rank, which reads the file `odd` first where it is rank 1, and notes its exit code. With `ends`, the launcher
# hears the code, and ends the others by it; else all say what they come to.
cat >each <<'EOF'
#!/bin/bash
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} here=$PWD program=$FRUGAL more=()
[ "$rank" = 1 ] && . ./odd
"$program" train run.yaml "$@" "${more[@]}"
code=$?
echo $code >"$here/code.$rank"
[ -z "$ENDS" ] || exit $code
exit 0
EOF
chmod +x each
export FRUGAL=$frugal

# both CODE SENTENCE ARGUMENT...: two ranks end with this code, and one of them says so
both() {
  local code=$1 sentence=$2
  shift 2
  rm -f code.*
  timeout 120 $launcher -n 2 ./each "$@" >out 2>err || fail "the launcher: $?"
  [ "$(cat code.0) $(cat code.1)" = "$code $code" ] || fail "$sentence: exit codes $(cat code.0) $(cat code.1), not $code"
  [ "$(cat out err | grep -c -- "$sentence")" = 1 ] || fail "not once: $sentence"
}

echo 'more=(train.lr=0.5)' >odd
both 2 'rank 1 has other settings than rank 0'
echo 'more=(train.lr=-1)' >odd
both 2 'train.lr.*(rank 1)'

# The same path on another machine.
mkdir other none
cp run.yaml other; cp run.yaml none
seq 3000 | tr 1 2 >other/text
echo 'cd other' >odd
both 2 'rank 1 has other data than rank 0'
echo 'cd none' >odd
both 3 'text.*(rank 1)'

# Another version: the same program with another number in it.
version=$("$frugal" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
sed "s/${version//./\\.}/${version%?}x/g" "$frugal" >older
chmod +x older
echo "program=\$here/older" >odd
both 2 "rank 1 has another version of frugal than rank 0, which has $version"

# A rank that is late is waited for; one that never comes is not, whoever it is.
echo 'sleep 1' >odd
both 0 'step 2/2' train.log_every=2
echo 'exec sleep 100' >odd
ENDS=1 timeout 120 $launcher -n 2 ./each train.join_s=5 >out 2>err
[ $? = 3 ] || fail "a rank that never comes: the launcher's exit code is not 3"
[ "$(cat code.0) $(grep -c 'another rank has not come for 5 s (train.join_s), so all 2 end' err)" = "3 1" ] || fail "a rank that never comes"

# One that stops in the middle of the run.
: >odd >out
ENDS=1 $launcher -n 2 ./each train.join_s=5 train.steps=1_000_000 train.eval_every=1_000_000 train.log_every=1 >out 2>err &
launched=$!
for i in $(seq 600); do grep -q '^step 2' out err && break; sleep 0.1; done
stopped=
for pid in /proc/[0-9]*; do
  [ "$(readlink "$pid/cwd" 2>/dev/null)" = "$folder" ] && [ "$(readlink "$pid/exe")" = "$(readlink -f "$frugal")" ] || continue
  tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$' && stopped=${pid#/proc/}
done
[ -n "$stopped" ] && kill -STOP "$stopped" || fail "no rank 1 to stop"
for i in $(seq 300); do kill -0 $launched 2>/dev/null || break; sleep 0.1; done
kill -0 $launched 2>/dev/null && { kill -9 $launched "$stopped"; fail "the launcher still waits after 30 s"; }
wait $launched
[ "$? $(grep -c 'another rank has not come for 5 s (train.join_s), so all 2 end' err)" = "3 1" ] || fail "a rank that stopped: $(tail -n 3 err)"

# A notice is of one machine, and the cloud of rank 1's tells nobody else: all save and end. Rank 0's answers nothing.
if command -v python3 >/dev/null; then
  touch coming
  python3 "$top/tests/cli/metadata.py" aws port coming &
  server=$!
  for i in $(seq 200); do [ -f port ] && break; sleep 0.05; done
  echo 'export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$(cat port)' >odd
  export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1
  all=$FRUGAL_SPOT_METADATA # ./check sets it for every rank
  unset FRUGAL_SPOT_METADATA
  both 4 '^stopped after step [0-9]*: AWS will terminate this spot machine in [0-9]* s (rank 1)$' spot.cloud=aws train.steps=1_000_000 \
    train.eval_every=1_000_000 checkpoint.dir=kept
  unset AWS_EC2_METADATA_SERVICE_ENDPOINT
  [ -z "$all" ] || export FRUGAL_SPOT_METADATA=$all
  kill $server
  wait $server 2>/dev/null
  step=$(sed -n 's/^stopped after step \([0-9]*\):.*/\1/p' out err)
  run 0 checkpoints kept
  has out "^step-0*$step\..* valid"
else
  echo "without python3: no notice at one rank was tried"
fi

# An MPI without what is needed: each rank finds that out by itself, and rank 0 says it.
# alone CODE LIBRARY SENTENCE: ranks 0 and 1 of 2, with this library
alone() {
  for rank in 0 1; do
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank FRUGAL_MPI=$2 run "$1" train run.yaml
    if [ $rank = 0 ]; then has err "$3"; else [ ! -s out ] && [ ! -s err ] || fail "rank 1 speaks too"; fi
  done
}
alone 3 "$folder/no.so" 'no MPI library was found.*FRUGAL_MPI'
if command -v cc >/dev/null; then
  # MPI's names, and a level of threads of 0 (MPI_THREAD_SINGLE)
  { for name in Comm_rank Comm_size Comm_set_errhandler Comm_split Ialltoallv Iallgatherv Ibcast Test Finalize; do echo "int MPI_$name(void) { return 0; }"; done
    echo 'int MPI_Init_thread(int *c, char ***v, int asked, int *given) { (void)c, (void)v, (void)asked; *given = 0; return 0; }'; } >single.c
  cc -shared -fPIC -o single.so single.c || fail "single.c"
  alone 3 "$folder/single.so" 'does not allow threads beside its own calls \(MPI_THREAD_FUNNELED\)'
  # One that does not know this launcher, as MPICH's does not know srun --mpi=none: each process would be a run of its own.
  { grep -v -e Init_thread single.c | sed 's/int MPI_Comm_size(void) { return 0; }/int MPI_Comm_size(long c, int *n) { (void)c; *n = 1; return 0; }/'
    echo 'int MPI_Init_thread(int *c, char ***v, int asked, int *given) { (void)c, (void)v; *given = asked; return 0; }'; } >one.c
  cc -shared -fPIC -o one.so one.c || fail "one.c"
  alone 2 "$folder/one.so" '^the launcher has started 2 ranks, and each is alone to .*srun --mpi=pmi2'
else
  echo "without cc: no MPI without threads was tried"
fi
# Commands that are one process: each of several would write over the others' results.
for command in sweep tune profile; do
  for rank in 0 1; do
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank run 2 $command run.yaml
    if [ $rank = 0 ]; then has err "frugal $command is one process, and the launcher has started 2"; else [ ! -s err ] || fail "rank 1 speaks too"; fi
  done
done
exit $failed
