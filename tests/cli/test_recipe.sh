#!/bin/bash
# test_recipe.sh: recipes as a user types them: what is filled in, where it says so, and what `auto` made of
# the optimiser.
. "$(dirname "$0")/common.sh"

head -c 40000 <(yes 'the quick brown fox jumps over the lazy dog') >text.txt
cat >run.yaml <<END
data: {path: text.txt, context: 32}
model: {kind: gpt, depth: 1, width: 32, heads: 2, softcap: 30}
train: {recipe: modern, steps: 30, batch: 2, warmup: 5}
END

# Every value says where it came from; what was said stays, and its unit with it.
FRUGAL_TRAIN_CLIP=2 run 0 show run.yaml train.seed=7
has out '^  model.norm +rms +recipe modern$'
has out '^  train.schedule +wsd +recipe modern$'
has out '^  model.softcap +30 +run.yaml:2$'
has out '^  train.clip +2 +environment FRUGAL_TRAIN_CLIP$'
has out '^  train.seed +7 +command line$'

# 64 bytes a step are too few for Muon, 4,096 are not.
has out '^  train.optimiser +adamw: muon would be [0-9.]+ % of a step'"'"'s work, more than 40 %; with train.batch=[0-9]+ it is [0-9.]+ %$'
run 0 show run.yaml train.batch=128 --json
has out '"event":"choice","key":"train.optimiser","value":"muon","reason":"Newton-Schulz is [0-9.]+ % of a step'"'"'s work"'

# Where auto takes Muon it has one rate; another that was given is not passed over in silence.
run 0 train run.yaml train.batch=128 train.steps=2 train.lr=0.003
has err '^warning: train.lr=0.003 is not used: train.optimiser=auto took muon, and train.muon_lr=0.02 is then the rate of all parameters. train.optimiser=muon uses both \[lr_not_used\]$'
run 0 train run.yaml train.batch=128 train.steps=2
lacks err lr_not_used
run 0 train run.yaml train.steps=2 train.lr=0.003
lacks err lr_not_used
run 0 train run.yaml --json
has out '"event":"start".*"optimiser":"adamw","optimiser_reason":"muon would be .*","muon_share":0\.[0-9]+'
# The run file names what was trained by it: the recipe is a part of its model.
said=$(sed -n 's/.*"event":"done".*"loss":\([^,]*\),.*/\1/p' out)
run 0 evaluate run.yaml --json
has out "\"loss\":$said,"
run 0 generate run.yaml quick --count 2
run 0 train run.yaml train.batch=256 train.micro_batch=128 train.noise_scale=true
has err '^optimiser muon: Newton-Schulz is'
has out '^noise +scale [0-9,]+ samples \([0-9,]+ tokens\): with 256 a step'

# Words that are none, and models without a recipe.
run 2 show run.yaml train.recipe=fancy
has err 'train.recipe is fancy; expected one of none\|plain\|modern'
run 2 show run.yaml model.kind=layers
has err 'there are recipes for model.kind=gpt, encoder and ranker, and for layers on images, not for model.kind=layers'

[ $failed = 0 ] && echo "recipes: ok"
exit $failed
