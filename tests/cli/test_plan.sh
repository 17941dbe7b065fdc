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
has out '^run.yaml: 76 parameters; 920 steps of 16 samples$'
has out '^  1[! ] +<?\$[0-9.]+ +\$[0-9.]+ +[0-9.]+ .* [0-9.]+ (min|h) .*(spot|on-demand)'
has out '^Why the first$'
has out '^  The next, '
has out 'this machine: [0-9.e-]+ h in (fp32|bf16), not ranked: set train.usd_hour to the price of an hour'
has out '^  boot_s +180 s '
has out '^  `frugal help claims`: common figures'
has out '^  of aws g4dn.xlarge: .*memory_usable_gib'
lacks out 'this machine own rate'
# A T4 is too old for frugal's kernels: marked, and the command is that of the first row that it can train.
has out '^  1! .* aws g4dn.xlarge$'
has out '^  The first that frugal itself can train is .*:$'
has out '^  frugal train run.yaml .*run.machine='
lacks out '^  frugal train .*run.machine=aws/g4dn'

# With a price this machine takes part, and a free one cannot be beaten.
run 0 plan run.yaml train.usd_hour=0
has out '^  1 +.*own rate +this machine'
has out '^  frugal train run.yaml train.usd_hour=0 train.precision=(fp32|bf16) train.batch=16 train.micro_batch=16 train.recompute=none$'

# The command that it proposes runs as it is printed: with what the user gave, quoted, each key once.
mkdir "it's here"
cp images "it's here/"
sed 's/path: images, //' run.yaml >bare.yaml
run 0 plan bare.yaml "data.path=it's here/images" train.usd_hour=0 train.precision=fp32 train.steps=2 --freeze 'dense1.*'
has out "^  frugal train bare.yaml .*train.steps=2 train.precision=fp32 .* 'train.freeze=dense1.[*]'\$"
lacks out 'train.precision=.* train.precision='
sed -n "s|^  frugal train |\"$frugal\" train |p" out >proposed.sh
sh -c '. ./proposed.sh' >out 2>err || fail "the proposed command fails: $(cat proposed.sh err)"

# Its memory is what the run itself plans, evaluation and kernels' workspaces included, to the byte.
run 0 plan run.yaml train.usd_hour=0 train.precision=fp32 --json
told=$(sed -n '1s/.*"memory_bytes":\([0-9]*\),.*/\1/p' out)
run 0 train run.yaml train.precision=fp32 train.steps=2 --json
has out "\"arena_bytes_planned\":$told[,}]"

# Of one thing: no plural.
run 0 plan run.yaml train.steps=1 train.batch=1
has out '^run.yaml: 76 parameters; 1 step of 1 sample$'
run 0 plan gpt2 --tokens 1024 --batch 1024
has out '^gpt2: 124.4 M parameters; 1 step of 1 sequence of 1,024 tokens$'

# One cloud, limits.
run 0 plan run.yaml --on gcp --json
has out '"event":"plan","rank":1,"machine":"gcp '
lacks out '"machine":"aws '
has out '"event":"assumption","name":"boot_s","value":180'
run 1 plan run.yaml --budget 0.0000001
has err 'no plan: .* the budget.*; the nearest is .*, which costs .*\$[0-9.]+, .*\$[0-9.]+ too much$'
run 2 plan run.yaml --deadline soon
has err '--deadline=soon is not a number above 0'
run 2 plan gpt2 --tokens 100h
has err '^--tokens=100h is not a number above 0'
run 2 plan gpt2 --tokens 1e30
has err '^--tokens=1e30 is not a number above 0 and up to 1e\+18$'
run 0 plan gpt2 --tokens 1e18
lacks out '-inf|nan |-[0-9.]+e'
# Steps of as many samples as anybody asks for.
run 0 plan gpt2 --batch 1e12 --tokens 1e15 --machine p5.48xlarge --gpus 4
has out ' of 976,562,500 sequences of 1,024 tokens$'
run 2 plan gpt2 train.batch=9223372036854775807
has err '^train.batch=9223372036854775807: steps of up to 1e\+12 samples are planned$'
run 2 plan gpt2 --runs 1e30
has err '^--runs takes a whole number from 1 to 1000000000$'
for flag in --runs --gpus --context; do
  run 2 plan gpt2 $flag 0
  has err "^$flag takes a whole number from 1 to [0-9]+\$"
  run 2 plan gpt2 $flag 1.5
  has err "^$flag takes a whole number from 1 to [0-9]+\$"
done
run 2 plan run.yaml --on mars
has err 'no machine of mars'
run 0 plan gpt2 --tokens 1e9 --deadline 2
has out ' in time '
has out 'spot while available and on-demand when late|on-demand'

# A price of one's own.
printf 'provider,instance,on_demand_usd_h\nlambda,gpu_1x_a10,0.0000001\n' >mine.csv
run 0 plan run.yaml --prices mine.csv
has out '^  1 .*on-demand.? +lambda gpu_1x_a10$'

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
  # Of the precision that was run: on a busy machine the other, of which nothing was learned, looks faster.
  run 0 plan run.yaml "$ledger" train.usd_hour=0 train.precision=fp32 --json
  has out '"machine":"this machine".*"pace_learned":[0-9.e-]+,"pace_runs":1,"memory_exact":true'
  has out 'load_s 0: loading kept up with|loading: [0-9.,]+ samples per second here'
fi

# Models that others train, several runs, smaller ones.
run 0 plan llama-3-8b --tokens 1e11 --on lambda
has out '^llama-3-8b: 8.03 G parameters; '
has out 'train.shard=(none|state|all): .* Nobody has timed frugal on several GPUs yet'
has out 'assuming 524,288 tokens per step'
run 0 plan gpt2 --target 3.2
has out 'tokens for a loss of 3.2 by the law of'
run 1 plan gpt2 --target 1
has err '--target=1 is below'
run 0 plan gpt2 --tokens 1e9 --runs 8
has out ' tokens, 8 runs$'
run 0 plan gpt2 --tokens 1e9 --scale_model
has out '^Smaller models, the best plan of each$'
has out '^ +50 % +50 % '
run 0 plan llama-3-8b --tokens 1e9 --machine p4d.24xlarge --gpus 16 --scale_model
has out '^ +50 % +50 % .* 2 x aws p4d.24xlarge spot$'
run 2 plan run.yaml --scale_model
has err 'needs a model with blocks'
run 2 plan
has err 'what to plan\?'
run 3 plan nothing.yaml

# A name that nobody knows: the list, and the nearest.
run 2 plan llama-3.1-9b
has err '^Known models: gpt2, .*deepseek-v3'
has err 'llama-3.1-9b is neither a known model nor a file \(did you mean llama-3.1-8b\?\)'
run 2 plan vit
has err '^vit is neither a known model nor a file; '
run 2 plan gtp2
has err 'did you mean gpt2\?'
run 0 plan --models
has out '^mixtral-8x7b +46.7 G +12.9 G +32,768$'
run 0 plan --models --json
has out '"event":"model","name":"deepseek-v3","parameters":671'
run 2 plan gpt2 --models
has err 'models stands alone'

# Mixtures of experts: all of them in memory (16 bytes a parameter do not fit one GPU), the used ones in FLOPs.
cat >mixtral.json <<END
{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
 "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
 "num_experts_per_tok": 2, "tie_word_embeddings": false, "vocab_size": 32000}
END
run 0 plan mixtral.json --tokens 1e10 --context 4096
has out '^mixtral.json: 46.7 G parameters, 12.9 G used by a token; 19,074 steps of 128 sequences of 4,096 tokens$'
lacks out '^ *[0-9]+  +\$'
has out 'frugal itself cannot train this yet: this model$'
has out 'the 2 of 8 experts that a token uses are computed as one MLP, the memory is that of all'
run 1 plan mixtral.json --tokens 1e10 --context 4096 --machine c7i.48xlarge train.batch=1
has err 'the nearest is aws c7i.48xlarge, which needs [0-9.]+ [GT]B of memory and has [0-9]+ GB. A step of 1 sample is shared by at most 1 GPU; '
run 1 plan mixtral.json --tokens 1e10 --context 4096 --gpus 1
has err '^no plan: [0-9]+ candidates do not fit in memory.*; the nearest is .*, which needs [0-9]+ GB of memory per GPU and has [0-9]+ GB'
printf '{"model_type": "vit"}' >vit.json
run 2 plan vit.json
has err 'vision transformer'

# What was asked for is what is priced, or an error.
run 2 plan llama-3-8b --batch 4096 --tokens 1e9
has err 'batch 4096 is less than one sequence of 8192 tokens'
run 0 plan llama-3-8b --batch 4096 --context 2048 --tokens 1e9
has out ' steps of 2 sequences of 2,048 tokens$'
run 2 plan llama-3-8b --batch 500000 --tokens 1e9
has err 'not a whole number of sequences of 8192 tokens: take 499712 or 507904'
run 0 plan llama-3.1-8b --context 200000 --tokens 1e9 --on lambda
has out '--context 200,000 is longer than the 8,192 tokens that this model is planned with by default'
run 0 plan llama-3.1-8b --context 8192 --tokens 1e9 --on lambda
lacks out 'is longer than'
run 2 plan gpt2 --context 2048 --tokens 1e9
has err 'learned positions for 1024 tokens only'
run 0 plan gpt2 train.batch=24 train.steps=1000 train.optimiser=sgd train.precision=fp32 --on lambda
has out '^gpt2: 124.4 M parameters; 1,000 steps of 24 sequences of 1,024 tokens$'
lacks out 'bf16'
run 2 plan gpt2 train.lr=0.1
has err '^a plan of gpt2 does not use train.lr: leave it out'
run 2 plan gpt2 train.batch=auto
has err '^train.batch=auto is chosen in training; '
run 2 plan gpt2 --tokens 1e9 --batch 1024.5
has err '^--batch takes a whole number of tokens$'
run 2 plan gpt2 --tokens 1e9 --context
has err '^--context needs a value: TOKENS$'
# A micro-batch that divides nothing, a precision that a machine lacks: no talk of memory.
run 2 plan gpt2 --tokens 1e9 train.micro_batch=3
has err '^train.micro_batch=3 does not divide the 512 samples of a step evenly$'
run 2 plan run.yaml train.micro_batch=4 --gpus 8
has err '^train.micro_batch=4 does not divide the 2 samples of a step on each GPU evenly$'
run 1 plan gpt2 --tokens 1e9 train.precision=bf16 --machine g4dn.xlarge --gpus 1
has err '^no plan: 1 candidate cannot use train.precision=bf16$'
run 0 plan gpt2 --tokens 1e9 train.precision=fp16 --machine p5.48xlarge --gpus 1 --json
has out '"precision":"fp16"'
# What is set and not priced is said.
run 0 plan run.yaml train.fp8=on train.shard=state train.precision=bf16
has out '^  train.fp8 is not priced: '
lacks out 'train.shard is not priced'
run 2 plan gpt2 train.batch=8 --batch 8192
has err 'batch and train.batch contradict each other'
run 2 plan gpt2 --spot --on-demand
has err 'spot and --on-demand contradict each other'
run 2 plan run.yaml --context 12
has err 'context is for known models'
run 2 plan run.yaml --batch 12
has err 'for a run file, set train.batch'
run 2 plan run.yaml --target 0.9
has err '^--target is for known models; a run file is priced for all of its train.steps or train.epochs$'
# As the table prints it.
run 0 plan run.yaml --machine 'aws p5.48xlarge' --json
has out '"machine":"aws p5.48xlarge"'
run 0 plan gpt2 --tokens 1e9 --machine aws/p5.48xlarge --gpus 8 --spot --region us-east-1 --json
[ "$(grep -c '"event":"plan"' out)" = 1 ] || fail 'one machine, market and number of GPUs give other than one plan'
has out '"machine":"aws p5.48xlarge","machines":1,"market":"spot".*"gpus":8,'
run 0 plan gpt2 --tokens 1e9 --on-demand --on aws --json
lacks out '"market":"spot"'
run 1 plan gpt2 --tokens 1e9 --spot --on vast
has err 'no plan: [0-9]+ machines have no spot price'
run 2 plan gpt2 --tokens 1e9 --machine p5.48xlarg
has err 'no machine p5.48xlarg \(did you mean p5.48xlarge\?\)'
run 2 plan gpt2 --tokens 1e9 --machine p5.48xlarge --on gcp
has err '^gcp has no machine p5.48xlarge: it is a machine of aws$'
run 2 plan gpt2 --tokens 1e9 --machine aws/p5.48xlarge --on gcp
has err '^gcp has no machine p5.48xlarge: it is a machine of aws$'
# A region is one of its cloud: us-central1 is Google's, although AWS's rows are of "us".
run 2 plan gpt2 --tokens 1e9 --machine aws/p5.48xlarge --region us-central1
has err '^--region us-central1: aws has no region of that name; it is one of gcp$'
run 2 plan gpt2 --tokens 1e9 --on aws --region us-central1
has err '^--region us-central1: aws has no region of that name; it is one of gcp$'
run 0 plan gpt2 --tokens 1e9 --region us-central1 --json
has out '"machine":"gcp '
lacks out '"machine":"(aws|lambda) '
run 0 plan gpt2 --tokens 1e9 --machine aws/p5.48xlarge --region us- --json
has out '"machine":"aws p5.48xlarge"'
run 2 plan gpt2 --tokens 1e9 --machine aws/p5.48xlarge --region u
run 2 plan gpt2 --tokens 1e9 --region eu-west-1 --on aws
has err 'has no price there'
run 2 plan gpt2 --tokens 1e9 --gpus 3
has err 'gpus 3 does not divide the 512 samples of a step'
run 0 plan gpt2 --tokens 1e9 --machine p5.4xlarge --gpus 1 train.micro_batch=64 --json
all=$(sed -n '1s/.*"memory_bytes":\([0-9.e+]*\),.*/\1/p' out)
run 0 plan gpt2 --tokens 1e9 --machine p5.4xlarge --gpus 1 train.micro_batch=64 --freeze 'h.*' --json
frozen=$(sed -n '1s/.*"memory_bytes":\([0-9.e+]*\),.*/\1/p' out)
awk "BEGIN { exit !($frozen < $all) }" || fail "frozen blocks take $frozen bytes, all $all"
# Adapters: no gradients of the frozen matrices, so less memory and about two thirds of the work; in 4 bits less still.
plan_of() { sed -n '1s/.*"memory_bytes":\([0-9.e+]*\),.*/\1/p' out; }
run 0 plan llama-3-8b --tokens 1e9 --context 2048 --batch 16384 --machine p5.48xlarge --gpus 8 train.precision=bf16 --json
all=$(plan_of)
run 0 plan llama-3-8b --tokens 1e9 --context 2048 --batch 8192 --machine p5.4xlarge --gpus 1 --lora 16 train.precision=bf16 train.recompute=none --json
adapters=$(plan_of)
run 0 plan llama-3-8b --tokens 1e9 --context 2048 --batch 8192 --machine p5.4xlarge --gpus 1 --lora 16 train.precision=bf16 train.recompute=none train.lora.weights=nf4 --json
packed=$(plan_of)
awk "BEGIN { exit !($adapters > 16e9 && $packed < $adapters - 8e9) }" || fail "adapters take $adapters bytes, in 4 bits $packed, all weights $all"
run 2 plan llama-3-8b --tokens 1e9 --lora 16 train.lora.rank=8
has err '--lora'
run 2 plan gpt2 --tokens 1e9 --freeze 'h.0.*'
has err 'freezes some blocks and not others'

# More than a year, more than eight machines: shown. No plan: the nearest, and what is short.
run 0 plan llama-3-70b --tokens 1e12 --machine p5.48xlarge --batch 16777216 --gpus 128
has out '16 x aws p5.48xlarge$'
run 0 plan llama-3-8b --tokens 1e12 --machine g6e.48xlarge --gpus 8
has out ' [0-9,]+ days '
run 1 plan llama-3-8b --tokens 1e12 --machine p5.48xlarge --deadline 24
has err 'the nearest is 8 x aws p5.48xlarge on-demand, which takes [0-9.]+ days, [0-9.]+ (days|h) too long'
has err 'A step of 64 samples is shared by at most 64 GPUs; a larger --batch allows more'

# Every row that frugal cannot run is marked, and no other.
run 0 plan gpt2 --tokens 1e10 --json
awk -F, '/"event":"plan"/ { no = /"frugal_trains_it":false/
  old = ($0 ~ /aws g4dn|aws p3dn|RTX5090/); if (old != no) exit 1 }' out || fail 'a row has a wrong mark'

run 0 plan gpt2 --tokens 1e8 --machine c7i.48xlarge --deadline 1 --json
has out '"machine":"aws c7i.48xlarge","machines":[2-9].*"frugal_trains_it":true'
run 0 plan gpt2 --tokens 1e8 --machine c7i.48xlarge --deadline 0.3
lacks out 'frugal itself cannot train|Nobody has timed'
has out 'train.shard=(none: each machine holds everything|state: .* over the machines|all: .* over the machines)'

# This machine takes part in plans of smaller models, too.
cat >small.yaml <<YAML
data: {kind: text, path: "$top/README.md", context: 64}
model: {kind: gpt, depth: 2, width: 128, heads: 2}
train: {batch: 16, steps: 20, usd_hour: 0}
YAML
run 0 plan small.yaml --scale_model
has out '^ +50 % +50 % .* [$]0 .* this machine own rate$'

# Which sharding: as it was given, or the best. The command says it, and for several machines how they are named.
cat >several.yaml <<YAML
data: {kind: text, path: "$top/README.md", context: 64}
model: {kind: gpt, depth: 2, width: 128, heads: 2}
train: {batch: 64, steps: 2000}
YAML
on='--machine p4d.24xlarge --on-demand'
run 0 plan several.yaml $on --gpus 16 train.shard=all train.shard_over=machine
has out '^ +1 .* all/m +[0-9.]+ MB '
has out '^  frugal launch --hosts "[$]HOSTS" several.yaml .*train.micro_batch=[0-9]+ .*train.shard=all train.shard_over=machine run.machine=aws/p4d.24xlarge'
has out '^  HOSTS names the 2 machines, with 8 ranks on each: A:8,B:8'
has out 'shared out over the GPUs of each machine, and each machine holds a copy'
run 0 plan several.yaml $on --gpus 16 train.shard=state train.shard_over=all --json
has out '"shard":"state","shard_over":"all",.*"frugal_trains_it":true,.*"memory_exact":true'
run 0 plan several.yaml $on --gpus 8 train.shard=all
has out '^  mpirun -n 8 frugal train several.yaml .*train.shard=all train.shard_over=all '
run 0 plan several.yaml $on --gpus 1 train.shard=all
has out '^  frugal train several.yaml '

# A row is what the trainer can run: its settings as they are printed, compiled for as many ranks, and two of them trained.
for shard in none state 'state machine' all 'all machine'; do
  over=default
  [ "$shard" = "${shard% *}" ] || over=${shard#* }
  run 0 plan several.yaml $on --gpus 16 train.shard="${shard% *}" train.shard_over=$over
  settings=$(sed -nE 's/^  frugal launch .* several.yaml (train.*) run.machine.*/\1/p' out)
  # shellcheck disable=SC2086
  run 0 show several.yaml --ranks 2x8 ${settings:-missing} train.precision=fp32
done
# 20 GPUs are two machines of eight and half of a third. What adds to a step is named; 10 GPUs are on two machines.
sed 's/batch: 64,/batch: 60,/' several.yaml >sixty.yaml
run 0 plan sixty.yaml $on --gpus 20
has out '^  HOSTS names the 3 machines, with 8 ranks on each and 4 on the last: A:8,B:8,…$'
has out '^  A step of [0-9.]+ ms: communication [5-9][0-9] %, '
awk '/^  1 +[$]/ { three = substr($2, 2) } /Half the GPUs: / { sub(/.*Half the GPUs: [$]/, ""); two = $1 }
  END { exit !(two > 0.6 * three && two < 0.7 * three) }' out || fail 'half of 20 GPUs are not priced as two of three machines'
# The run file's train.shard_over would be refused with train.shard=none.
sed 's/batch: 64,/batch: 64, shard: state, shard_over: machine,/' several.yaml >over.yaml
run 0 plan over.yaml $on --gpus 8
has out '^  mpirun -n 8 frugal train over.yaml .*train.shard=none train.shard_over=default '
launcher=$(command -v mpirun.openmpi)
for shard in none state all; do
  [ -n "$launcher" ] || break
  run 0 plan several.yaml $on --gpus 2 train.shard=$shard
  settings=$(sed -nE 's/^  mpirun -n 2 frugal train several.yaml (train.*) run.machine.*/\1/p' out)
  # shellcheck disable=SC2086
  "$launcher" --allow-run-as-root --oversubscribe -n 2 "$frugal" train several.yaml ${settings:-missing} train.precision=fp32 \
    train.steps=2 --json >out 2>err || fail "the row of train.shard=$shard does not train"
  has out '"event":"done".*"ranks":2'
done

# Dollars follow from the figures beside them: $/hour x billed hours + storage, each as exact as it is printed.
for asked in 'gpt2 --tokens 1e10' 'llama-3-8b --tokens 1e12 --on aws' 'gpt2-xl --tokens 3.36e10 --runs 3'; do
  # shellcheck disable=SC2086
  run 0 plan $asked
  awk 'function half(t) { return 0.5 * (t ~ /\./ ? 10 ^ -(length(t) - index(t, ".")) : t == "-" ? 0 : 1) }
    /^ *[0-9]+[! ] +\$/ { sub(/^ *[0-9]+[! ]/, ""); gsub(/[$,]/, ""); s = $4 == "-" ? 0 : $4; rows++
      off = $1 - $2 * $3 - s; off = off < 0 ? -off : off
      if (off > half($1) + $2 * half($3) + $3 * half($2) + half($4) + 1e-9) { print "not the sum:", $0; exit 1 } }
    END { exit rows < 5 }' out >sums || fail "$asked: $(cat sums)"
done

# No step takes no time: a ranker's table, whose gradient is sparse or dense by the samples of the whole step.
run 0 plan "$top/examples/ranker.yaml" --json
awk -F'"mfu":' '/"event":"plan"/ { rows++; bad += !($2 + 0 > 0 && $2 + 0 <= 1) } END { exit bad || !rows }' out ||
  fail 'a step of examples/ranker.yaml has an MFU that is not between 0 and 1'

# The second table says of each row how --json trains it.
run 0 plan gpt2-xl --tokens 3.36e10 --deadline 24 --json
grep '"event":"plan"' out | head -n 10 | sed -nE 's/.*"rank":([0-9]+),.*"gpus":([0-9]+),.*"precision":"([a-z0-9]+)","recompute":"([a-z]+)".*"batch":([0-9]+),"accumulate":([0-9]+),.*"bound_by":"([a-z ]+)".*/\1 +\3 +\5 x \6( x \2)? +\4[+]? .* \7$/p' >rows
run 0 plan gpt2-xl --tokens 3.36e10 --deadline 24
[ "$(grep -c . rows)" = 10 ] || fail "--json lists $(grep -c . rows) of the 10 rows"
while read -r row; do has out "^ +$row"; done <rows

# So do those of the claims.
run 0 help claims
tr '\n' ' ' <out | grep -oE '[0-9.,]+ GPU-hours: [$].* on spot [$][0-9,]+ at [$][0-9.]+[0-9]' >sums
tr -d '$,:' <sums | awk 'function off(a, b) { return a > b ? a - b : b - a }
  { ok = off($1 * $5, $3) < 0.5 + 0.05 * $5 && off($1 * $10, $8) < 0.5 + 0.05 * $10 } END { exit !ok }' ||
  fail "help claims: not the products: $(cat sums)"

# Centuries of a slow machine are billed too: their work is the largest part of the bill.
run 0 plan llama-3.1-405b --tokens 15e12 --json
awk -F'"usd":|"usd_useful":|"billed_hours":' '/"event":"plan"/ { rows++; bad += !($2 + 0 > 0 && $4 + 0 > 0.5 * $3) }
  END { exit bad || !rows }' out || fail 'a row has no work in its bill'
run 1 plan llama-3.1-405b --tokens 15e12 --budget 10
has err 'which costs [$][0-9]{3},[0-9]{3},[0-9]{3}, '

# A price is marked once it is older than 90 days, counted from the day that is given.
export FRUGAL_TODAY=2026-08-23
run 0 plan gpt2 --tokens 1e9 --machine p5.48xlarge
lacks out '\*'
export FRUGAL_TODAY=2026-11-20
run 0 plan gpt2 --tokens 1e9 --machine p5.48xlarge
lacks out '\*'
export FRUGAL_TODAY=2026-11-21
run 0 plan gpt2 --tokens 1e9 --machine p5.48xlarge
has out 'spot\* aws p5.48xlarge$'
has out 'a price older than 90 days'

unset FRUGAL_TODAY

# The page's rows are what the command prints.
run 0 plan gpt2-xl --tokens 3.36e10 --on aws
sed -n 's/^| \(.*\), \(spot\|on-demand\) | \([^|]*\) | \([^|]*\) | \([^|]*\) |.*/\3 \4 \5 .* \2.? \1$/p' "$top/docs/planning.md" >rows
[ "$(grep -c . rows)" -ge 3 ] || fail 'docs/planning.md has no rows of a plan'
while read -r row; do
  has out "$(printf '%s' "$row" | sed 's/[$]\([0-9]\)/[$]\1/g; s/  */ +/g')"
done <rows
exit $failed
