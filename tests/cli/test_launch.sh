#!/bin/bash
# test_launch.sh: `frugal launch` starts ranks on hosts over ssh, here one that runs its command on this machine, by Open MPI's and
# MPICH's launchers; starts them again after one was lost.
. "$(dirname "$0")/common.sh"
launchers=()
for l in mpirun.openmpi mpirun.mpich; do command -v $l >/dev/null && launchers+=("$(command -v $l)"); done
if [ ${#launchers[@]} = 0 ]; then
  echo "skipped: neither Open MPI nor MPICH is installed"
  exit 77
fi
four_classes
touch out err
cat >run.yaml <<'YAML'
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: {units: 16, activation: relu}}, {dense: 4}]}
train: {batch: 8, steps: 4, lr: 0.1, threads: 1, device: cpu, schedule: constant}
YAML
# ssh [OPTION...] HOST COMMAND...: notes the host, and runs the command here; two hosts do not share a folder of temporary files
cat >ssh <<SH
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
echo "\$1" >>"$folder/hosts"
export TMPDIR="$folder/tmp.\$1"
mkdir -p "\$TMPDIR"
shift
exec /bin/sh -c "\$*"
SH
chmod +x ssh
export FRUGAL_SSH=$folder/ssh OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_keep_fqdn_hostnames=1


for l in "${launchers[@]}"; do
  export FRUGAL_MPIRUN=$l
  rm -f hosts
  run 0 launch --hosts 127.0.0.2,127.0.0.3 run.yaml --json train.out=
  [ "$(sort -u hosts 2>/dev/null | tr '\n' ' ')" = "127.0.0.2 127.0.0.3 " ] || fail "$l: hosts $(cat hosts 2>/dev/null)"
  has out '"ranks":2'
done
# A signal saves and ends all, and the exit code says so, whatever the launcher makes of it; nothing is started again.
for l in "${launchers[@]}"; do
  export FRUGAL_MPIRUN=$l
  for signal in INT TERM; do
    rm -rf kept
    : >out
    "$frugal" launch --hosts 127.0.0.2,127.0.0.3 --restarts 9 run.yaml train.steps=1_000_000_000 train.out= train.log_every=1 checkpoint.dir=kept >out 2>&1 &
    launch=$!
    for i in $(seq 600); do grep -q '^step ' out && break; sleep 0.1; done
    kill -$signal $launch
    wait $launch
    code=$?
    [ $code = 4 ] || fail "$l, $signal: exit code $code"
    step=$(sed -n 's/^stopped by SIGTERM\( at rank 1\)\{0,1\} after step \([0-9]*\)$/\2/p' out)
    [ -n "$step" ] || fail "$l, $signal: not one sentence"
    run 0 checkpoints kept
    has out "^step-0*$step\..* valid"
  done
done
run 2 launch run.yaml
has err 'expected hosts'
run 2 launch --hosts a:0 run.yaml
has err 'HOST:N'
FRUGAL_MPIRUN=$folder/none run 3 launch --hosts a run.yaml

# Exit code 3 is started again, so often and no oftener; other codes are answers.
cat >fake <<SH
#!/bin/bash
[ "\$1" = --version ] && exit 0
echo "\$*" >>"$folder/starts"
[ "\$(wc -l <"$folder/starts")" -gt 2 ] && exit 1
exit 3
SH
chmod +x fake
export FRUGAL_MPIRUN=$folder/fake
NCCL_SOCKET_IFNAME=eth7 XDG_CONFIG_HOME=$folder run 3 launch --hosts a,b:3 --restarts 1 run.yaml train.batch=9
[ "$(wc -l <starts)" = 2 ] || fail "started $(wc -l <starts) times, not 2"
has starts '^-n 4 -hosts a,b:3 .* train run.yaml train.batch=9$'
has starts ' -genvlist ([^ ]*,)?NCCL_SOCKET_IFNAME[, ]' # on every host
has starts ' -genvlist ([^ ]*,)?XDG_CONFIG_HOME[, ]'
# So is one whose rank was killed or whose machine went away: those codes are the launcher's.
for lost in 9 137 205 255; do
  rm starts
  sed -i "\$ s/.*/exit $lost/" fake
  run 1 launch --hosts a --restarts 5 run.yaml
  [ "$(wc -l <starts)" = 3 ] || fail "exit code $lost: started $(wc -l <starts) times, not 3"
  has err "^frugal: the run ended with exit code $lost; started again \(2 of 5\)$"
done
sed -i '$ s/.*/exit 3/' fake
# Open MPI would bind each of two ranks to one core of its machine.
sed -i 's/^\(\[ .* --version \] && \)exit 0/\1echo "mpirun (Open MPI) 4.1.4" \&\& exit 0/' fake
run 1 launch --hosts a,b run.yaml
has starts '^-n 2 --host a,b .*--bind-to none .* train run.yaml$'
sed -i 's/echo "mpirun (Open MPI) 4.1.4" && //' fake
# The launcher that ends its ranks at SIGTERM is not sent one, so a save may take its time; a second signal does not wait.
cat >slow <<SH
#!/bin/bash
[ "\$1" = --version ] && exit 0
asked=0
trap asked=1 USR1
trap 'echo killed >"$folder/ended"; exit 1' TERM
echo "\$FRUGAL_LAUNCHED" >"$folder/started"
while [ \$asked = 0 ]; do sleep 0.1; done
for i in \$(seq 20); do sleep 0.1; done
echo saved >"$folder/ended"
SH
chmod +x slow
for expected in saved killed; do
  rm -f started ended
  FRUGAL_MPIRUN=$folder/slow "$frugal" launch --hosts a run.yaml >out 2>err &
  launch=$!
  for i in $(seq 200); do [ -s started ] && break; sleep 0.05; done
  [ "$(cat started)" = 1 ] || fail "ranks do not know what SIGUSR1 means"
  kill -TERM $launch
  [ $expected = saved ] || { sleep 0.5; kill -TERM $launch; }
  wait $launch
  [ $? = 4 ] || fail "$expected: not exit code 4"
  [ "$(cat ended)" = $expected ] || fail "$(cat ended), not $expected"
done
rm starts
run 1 launch --hosts a --restarts 9 run.yaml
[ "$(wc -l <starts)" = 3 ] || fail "started $(wc -l <starts) times, not 3"
exit $failed
