#!/bin/sh
# test_plan.sh: what a run would cost, as a user sees it: of a run file, a known model, a config.json;
# limits, prices of one's own, JSON, and questions without an answer.
. "$(dirname "$0")/common.sh"
export XDG_STATE_HOME="$folder/state" XDG_CONFIG_HOME="$folder/config"

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 40, batch: 16}
END

run 0 plan run.yaml
has out '^run.yaml: 76 parameters, 920 steps of 16 samples$'
has out '^  1 +(under )?\$[0-9.]+ +[0-9.]+ (min|h) .*(spot|on-demand)'
has out '^Why the first$'
has out '^  The next, '
has out 'this machine: [0-9.e-]+ h in (fp32|bf16), not ranked: set train.usd_hour to the price of an hour'
has out '^  boot_s +180 s '
has out '^  `frugal help claims`: common figures'
has out '^  of aws g4dn.xlarge: .*memory_usable_gib, storage.s gb_month_usd, storage.s put_1000_usd$'
lacks out 'this machine own rate'

# With a price this machine takes part, and a free one cannot be beaten.
run 0 plan run.yaml train.usd_hour=0
has out '^  1 +.*own rate +this machine'
has out '^  frugal train run.yaml train.precision=fp32 train.batch=16 train.micro_batch=16 train.recompute=none$'

# Its memory is what the run itself plans, evaluation and kernels' workspaces included, to the byte.
run 0 plan run.yaml train.usd_hour=0 --json
told=$(sed -n '1s/.*"memory_bytes":\([0-9]*\),.*/\1/p' out)
run 0 train run.yaml train.precision=fp32 train.steps=2 --json
has out "\"arena_bytes_planned\":$told[,}]"

# One cloud, limits.
run 0 plan run.yaml --on gcp --json
has out '"event":"plan","rank":1,"machine":"gcp '
lacks out '"machine":"aws '
has out '"event":"assumption","name":"boot_s","value":180'
run 1 plan run.yaml --budget 0.0000001
has err 'no plan: .* the budget'
run 2 plan run.yaml --deadline soon
has err '--deadline=soon is not a number above 0'
run 1 plan run.yaml --on mars
has err 'no machine of mars'
run 0 plan gpt2 --tokens 1e9 --deadline 2
has out ' in time .* machine'
has out 'spot while available and on-demand when late|on-demand'

# A price of one's own.
printf 'provider,instance,on_demand_usd_h\nlambda,gpu_1x_a10,0.0000001\n' >mine.csv
run 0 plan run.yaml --prices mine.csv
has out '^  1 .*on-demand.? +lambda gpu_1x_a10'

# Spot machines of the ledger stand for the prior.
ledger="run.ledger=$folder/ledger.db"
run 0 train run.yaml train.epochs=1 run.market=spot train.usd_hour=1 "$ledger"
if [ -e "$folder/ledger.db" ]; then
  run 0 plan run.yaml "$ledger"
  has out 'spot machines last [0-9.]+ h on average: from 1 of them in your ledger'
  has out '^  starting on .* takes [0-9.e-]+ s, from 1 runs, instead of warm_s$'
  run 0 train run.yaml train.epochs=1 run.market=spot run.machine=aws/g4dn.xlarge train.usd_hour=1 "$ledger"
  run 0 plan run.yaml "$ledger"
  has out 'spot aws/g4dn.xlarge last [0-9.]+ h on average: from 1 of them in your ledger'
  # What was predicted is held against what it took, once it took long enough to tell.
  run 0 plan run.yaml "$ledger" train.usd_hour=0 train.epochs=20000 train.eval_every=1000000
  run 0 train run.yaml "$ledger" train.usd_hour=0 train.epochs=20000 train.precision=fp32 train.batch=16 train.micro_batch=16 \
    train.recompute=none train.eval_every=1000000
  run 0 plan run.yaml "$ledger" train.usd_hour=0 --json
  has out '"machine":"this machine".*"pace_learned":[0-9.e-]+,"pace_runs":1,"memory_exact":true'
  has out 'load_s 0: loading kept up with|loading: [0-9.e+]+ samples per second here'
fi

# Models that others train, several runs, smaller ones.
run 0 plan llama-3-8b --tokens 1e11 --on lambda
has out '^llama-3-8b: 8.0 G parameters'
has out 'use FSDP or ZeRO-3|torchrun'
has out 'assuming 524288 tokens per step'
run 0 plan gpt2 --target 3.2
has out 'tokens for a loss of 3.2 by the law of'
run 1 plan gpt2 --target 1
has err '--target=1 is below'
run 0 plan gpt2 --tokens 1e9 --runs 8
run 0 plan gpt2 --tokens 1e9 --scale_model
has out '^Smaller models, the best plan of each$'
has out '^ +50 % +50 % '
run 2 plan run.yaml --scale_model
has err 'needs a model with blocks'
run 2 plan
has err 'what to plan\?'
run 3 plan nothing.yaml
exit $failed
