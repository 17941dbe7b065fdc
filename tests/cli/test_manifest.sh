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
has out 'scontrol requeue'

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
