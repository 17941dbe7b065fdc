#!/bin/bash
# test_manifest.sh: the files that `frugal manifest` prints for SkyPilot, Slurm and Kubernetes say what the plan's row says; what they
# lack to be started again is refused. tests/oracle/test_manifest.py has SkyPilot's and Kubernetes' own checks of them.
. "$(dirname "$0")/common.sh"
four_classes
cat >"my Run.yaml" <<'YAML'
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: {units: 16, activation: relu}}, {dense: 4}]}
train: {batch: 8, steps: 50, lr: 0.1}
YAML
to=checkpoint.to=s3://bucket/runs
at="--machine aws/g5.xlarge"

run 0 manifest "my Run.yaml" $to --for skypilot $at --spot
has out '^name: my-run$'
has out '^  cloud: aws$'
has out '^  instance_type: "g5.xlarge"$'
has out '^  use_spot: true$'
has out 'recover_on_exit_codes: \[3, 4\]'
has out 'pip install'
has out "^  frugal train 'my Run.yaml' checkpoint.to=s3://bucket/runs train.precision=[a-z0-9]+ train.batch=8 .*run.machine=aws/g5.xlarge run.market=spot$"
lacks out 'region:' # the catalogue's `us` is none of AWS's regions
run 0 manifest "my Run.yaml" $to --for skypilot $at --spot --region us-east-1
has out '^  region: us-east-1$'
run 0 manifest "my Run.yaml" $to --for skypilot --machine gcp/g2-standard-4 --region us
has out '^  region: us-central1$'
run 0 manifest "my Run.yaml" $to --for skypilot $at --on-demand --image reg/frugal:1
has out '^  use_spot: false$'
has out 'image_id: "docker:reg/frugal:1"'
lacks out 'pip install'

run 0 manifest "my Run.yaml" $to --for kubernetes $at --spot --image reg/frugal:1
has out '^kind: Job$'
has out 'eks.amazonaws.com/capacityType: "SPOT"'
has out 'instance-type: "g5.xlarge"'
has out 'nvidia.com/gpu: "1"'
has out 'values: \[1, 2\]'
has out '^    model: .layers: '
run 2 manifest "my Run.yaml" $to --for kubernetes $at
has err 'needs an image'

run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm $at
has out '^#SBATCH --ntasks=1$'
has out '^#SBATCH --gpus-per-task=1$'
lacks out 'gpu-bind'
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm $at --ranks 3
has out '^#SBATCH --ntasks=3$'
has out '^#SBATCH --gpus-per-task=1$'
has out '^#SBATCH --gpu-bind=none$'
run 2 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --ranks 9
has err '^--ranks=9: train.batch=8 has no sample for each$'
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --ranks 3
lacks out gpus
bash -n out || fail "Slurm's script is no shell script"
has out '^#SBATCH --ntasks=3$'
has out '^#SBATCH --requeue$'
has out '^srun .*frugal train '
has out 'SRUN_CPUS_PER_TASK="\$SLURM_CPUS_PER_TASK"' # or each rank has one core, whatever -c says
has out 'scontrol requeue'
# 137: srun's, where a rank was killed
mkdir fakes
printf '#!/bin/sh\nexit $CODE\n' >fakes/srun
printf '#!/bin/sh\necho "$*" >>requeued\n' >fakes/scontrol
chmod +x fakes/*
for ended in 0 1 2 3 4 137; do
  rm -f requeued
  PATH=$folder/fakes:$PATH CODE=$ended SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 bash out
  [ $? = $ended ] || fail "Slurm's script does not end with $ended"
  [ "$(cat requeued 2>/dev/null)" = "$([ $ended -lt 3 ] || echo requeue 7)" ] || fail "exit code $ended: requeued: $(cat requeued 2>&1)"
done

# A row of several GPUs is started by as many ranks, with what the row shares out.
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --on-demand --gpus 8 train.shard=all train.batch=16
has out '^#SBATCH --ntasks=8$'
has out '^#SBATCH --gpus-per-task=1$'
has out '^#SBATCH --gpu-bind=none$'
lacks out 'nodes='
has out '^srun .*frugal train .* train.shard=all train.shard_over=all run.machine=aws/p4d.24xlarge'
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --on-demand --gpus 16 train.shard=state \
  train.shard_over=machine train.batch=16
has out '^#SBATCH --ntasks=16$'
has out '^#SBATCH --nodes=2$'
has out '^#SBATCH --ntasks-per-node=8$'
has out ' train.shard=state train.shard_over=machine '
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --on-demand --gpus 10 train.batch=20
has out '^#SBATCH --ntasks=10$'
has out '^#SBATCH --nodes=2$'
has out '^#SBATCH --ntasks-per-node=5$'
run 0 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --on-demand --gpus 20 train.batch=20
has out '^#SBATCH --ntasks=20$'
has out '^#SBATCH --nodes=3$'
lacks out 'ntasks-per-node' # 3 x 6 are not 20
run 0 manifest "my Run.yaml" $to --for skypilot --machine p4d.24xlarge --on-demand --gpus 8 train.shard=state
has out "^  frugal launch --hosts localhost:8 'my Run.yaml' .* train.shard=state "
has out '^  command -v mpirun '
run 0 manifest "my Run.yaml" $to --for kubernetes --machine p4d.24xlarge --on-demand --gpus 8 --image reg/frugal:1
has out 'command: \["frugal"\]'
has out 'args: \["launch", "--hosts", "localhost:8", "/runs/'
has out 'nvidia.com/gpu: "8"'
run 1 manifest "my Run.yaml" $to --for skypilot --machine p4d.24xlarge --gpus 16 train.batch=16 # on two machines: Slurm alone starts them
has err 'no row of the plan'

# What was asked for is what is printed, or an error.
run 1 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --gpus 4 --ranks 8
has err '^--ranks=8: no row of the plan has as many GPUs, or one; --gpus 8 plans with as many$'
run 1 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --machine p4d.24xlarge --gpus 4 --ranks 1
has err '^--ranks=1: no row of the plan has as many GPUs; '
run 2 manifest "my Run.yaml" checkpoint.dir=kept --for slurm --image me/frugal
has err '^--image is for skypilot and kubernetes; '
run 2 manifest "my Run.yaml" $to --for kubernetes --image me/frugal --install true
has err '^--install does nothing with --for kubernetes, '
run 2 manifest "my Run.yaml" $to --for skypilot --image me/frugal --install true
has err '^--install does nothing with --image, '
run 2 manifest "my Run.yaml" checkpoint.to=/mnt/kept --for skypilot
has err '^checkpoint.to=/mnt/kept is not an object store; '
run 2 manifest "my Run.yaml" --for slurm
has err 'checkpoint.dir'
run 2 manifest "my Run.yaml" --for skypilot
has err 'checkpoint.to'
run 2 manifest "my Run.yaml" $to
has err 'skypilot\|slurm\|kubernetes'
run 2 manifest "my Run.yaml" $to --for pbs
has err 'not pbs'
run 2 manifest "my Run.yaml" $to --for skypilot --ranks 2
has err 'for --for slurm'
run 2 manifest gpt2 --for skypilot
exit $failed
