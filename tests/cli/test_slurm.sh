#!/bin/bash
# test_slurm.sh: a real Slurm of one host (slurmctld and slurmd, as root, in a folder of its own, on ports of its own) runs what
# `frugal manifest --for slurm` prints, preempts it for a job of a higher partition, queues it again, and the weights at its end are those
# of an undisturbed run. Needs slurm-wlm and munge.
. "$(dirname "$0")/common.sh"
for p in slurmctld slurmd munged sbatch; do
  command -v $p >/dev/null || { echo "skipped: $p is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm's daemons need root"; exit 77; }
touch out err
host=$(hostname -s)
d=$folder/slurm
mkdir -p $d/state $d/spool
chmod 755 "$folder" $d
dd if=/dev/urandom of=$d/munge.key bs=1024 count=1 2>/dev/null
chmod 600 $d/munge.key
port=$((20000 + RANDOM % 10000))
cat >$d/slurm.conf <<C
ClusterName=frugal
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$d/munge.socket,cred_expire=5
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=low Nodes=$host Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=$host PriorityTier=10 PreemptMode=OFF
C
export SLURM_CONF=$d/slurm.conf
end_slurm() {
  scancel -u root 2>/dev/null
  for f in slurmd slurmctld munge; do
    pid=$(cat $d/$f.pid 2>/dev/null) && kill "$pid" 2>/dev/null || continue
    for i in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done # it still writes its state
  done
  rm -rf "$folder"
}
trap end_slurm EXIT
munged --force --key-file=$d/munge.key --socket=$d/munge.socket --pid-file=$d/munge.pid --log-file=$d/munge.log \
  --seed-file=$d/munge.seed >/dev/null 2>&1
slurmctld -i && slurmd -N "$host" || { echo "skipped: Slurm's daemons do not start here"; exit 77; }
for i in $(seq 300); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.1; done
sinfo -h -o %T | grep -q idle || { fail "no node: $(tail -n 5 $d/slurmctld.log $d/slurmd.log)"; exit 1; }

awk 'BEGIN { srand(3); for (i = 0; i < 40000; i++) printf "%s", rand() < 0.1 ? "\n" : sprintf("%c", 97 + int(rand() * rand() * 20)) }' >text
cat >run.yaml <<YAML
data: {kind: text, path: text, context: 16, samples: 400, eval_samples: 50}
model: {kind: gpt, depth: 1, width: 32, heads: 2}
train: {batch: 12, steps: ${SLURM_STEPS:-30000}, lr: 0.003, eval_every: 1000, threads: 1, optimiser: adamw, device: cpu, schedule: constant, log_every: 10}
YAML
export PATH=$(dirname "$frugal"):$PATH
run 0 manifest run.yaml checkpoint.dir=kept train.out=last.safetensors train.usd_hour=0.0001 --for slurm
cp out job.sh
sed -n 's/^srun --kill-on-bad-exit=1 frugal/"$frugal"/p' out | sed 's/checkpoint.dir=kept train.out=last/train.out=whole/' >whole.sh
. ./whole.sh >whole.out 2>&1 || fail "undisturbed: $(tail -n 3 whole.out)"

id=$(sbatch --parsable job.sh) || fail "sbatch"
for i in $(seq 3000); do grep -q '^step ' run.out 2>/dev/null && break; sleep 0.1; done
grep -q '^step ' run.out || fail "it does not begin: $(cat run.out)"
sbatch -p high --exclusive --output=high.out --wrap 'sleep 2' >/dev/null
for i in $(seq 6000); do
  state=$(scontrol show job "$id" -o 2>/dev/null | grep -o 'JobState=[A-Z]*')
  case $state in JobState=COMPLETED | JobState=FAILED | JobState=CANCELLED) break ;; esac
  sleep 0.1
done
[ "$state" = JobState=COMPLETED ] || fail "it ended with $state: $(tail -n 5 run.out; tail -n 5 $d/slurmctld.log)"
if [ $failed = 0 ] && ! scontrol show job "$id" -o | grep -q 'Restarts=[1-9]'; then
  echo "skipped: the run was over before Slurm preempted it; SLURM_STEPS=300000 makes it longer"
  exit 77
fi
grep -q 'resumed at step' run.out || fail "it did not resume: $(cat run.out)"
same_numbers whole.safetensors last.safetensors || fail "other bits than the undisturbed run"
exit $failed
