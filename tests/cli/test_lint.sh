#!/bin/sh
# test_lint.sh: likely mistakes are told before the first step and by doctor, and only those.
. "$(dirname "$0")/common.sh"

seq 20000 >text
cat >gpt.yaml <<END
data: {kind: text, path: text, context: 16}
model: {kind: gpt, depth: 2, width: 16, heads: 2}
train: {steps: 3, batch: 4, threads: 1, optimiser: adamw, lr: 0.001, eval_every: 3}
END
cat >clicks.yaml <<END
data: {kind: synthetic_clicks, samples: 400_000, eval_samples: 1000, buckets: 10}
model: {kind: ranker, table_width: 1, mlp: [1]}
train: {steps: 150, batch: 2000, optimiser: sgd, lr: 0.1, threads: 1}
END

# rules KEY=VALUE...: the names of the rules that a run of three steps is warned of.
rules() {
  "$frugal" train gpt.yaml "$@" >out 2>err || fail "frugal train gpt.yaml $*"
  sed -n 's/^warning: .* \[\(.*\)\]$/\1/p' err | tr '\n' ' '
}
# warns "RULE..." KEY=VALUE...
warns() {
  expected=$1
  shift
  got=$(rules "$@")
  [ "$got" = "${expected:+$expected }" ] || fail "frugal train gpt.yaml $*: warns of \"$got\", not of \"$expected\""
}
warns ""
warns lr_unusual train.lr=0.5
grep -n . err | grep -A 1 'warning:' | grep -q 'step 1' || fail "the warning comes after the first step"
warns "" train.lr=0.5 train.allow=lr_unusual
warns recompute_not_needed train.recompute=all
warns "" train.recompute=auto
warns warmup_longer_than_run train.warmup=3
warns "warmup_longer_than_run decay_in_adam" "train.warmup=1 epoch" train.decay=0.1 \
  train.optimiser=adam
warns dropout_within_an_epoch model.dropout=0.1
warns evaluation_dominates train.eval_every=1
grep -q 'an evaluation costs [0-9.]* times the step before it' err || fail "the step before an evaluation is said otherwise"
head -c 4000 /dev/zero | cat - text >binary
warns text_is_binary data.path=binary
warns batch_larger_than_data train.batch=100000
rules data.samples=5 train.batch=8 >/dev/null
grep -q 'there are only 5: .* train.batch=1 makes an epoch 5 steps' err || fail "an epoch of 5 samples has other than 5 steps"
warns "" train.batch=auto
warns spot_without_checkpoints run.market=spot
warns spot_checkpoints_on_it run.market=spot checkpoint.dir=kept
warns "spot_checkpoints_on_it interval_beyond_machine" run.market=spot checkpoint.dir=kept checkpoint.every=2h
rm -rf kept

rules train.precision=fp16 train.loss_scale=1 | grep -q fp16_without_scaling || fail "fp16 without a scale"
rules train.precision=fp16 | grep -q fp16_without_scaling && fail "fp16 with a scale"

# Events.
"$frugal" train gpt.yaml train.lr=0.5 --json >out 2>err
grep -q '"event":"finding","rule":"lr_unusual","text":"train.lr=0.5 is far above' out || fail "no event"
! grep -q warning err || fail "an event and a warning"

# doctor: 1 with a finding, 0 without, 2 for a rule that does not exist.
allow=train.allow=[fp32_where_faster] # on machines where it is
"$frugal" doctor gpt.yaml "$allow" >out 2>err || fail "doctor of a sound run"
grep -q 'a batch takes .* ms to load' out || fail "doctor does not tell of loading"
"$frugal" doctor gpt.yaml "$allow" train.lr=0.5 train.decay=0.1 train.optimiser=adam >out 2>err
[ $? = 1 ] && [ "$(grep -c '^warning:' err)" = 2 ] || fail "doctor of two mistakes"
tail -n 1 err | grep -q 'gpt.yaml: 2 likely mistakes; train.allow=lr_unusual' || fail "doctor's last word"
"$frugal" doctor gpt.yaml train.lr=0.5 train.allow=[lr_unusual,fp32_where_faster] >out 2>err || fail "doctor of what is meant"
"$frugal" train gpt.yaml train.allow=lr_unusal >out 2>err
[ $? = 2 ] && grep -q 'there is no rule lr_unusal' err || fail "a rule that does not exist"

# A model too small for its data: the loader is what is waited for.
"$frugal" doctor clicks.yaml >out 2>err
grep -q '\[loader_bound\]$' err || fail "doctor does not see that the loader is slow"
"$frugal" train clicks.yaml >out 2>err
grep -q '\[loader_bound\]$' err || fail "the run does not see that the loader is slow"

# What we show others is sound.
"$frugal" doctor "$top/examples/ranker.yaml" "$allow" >out 2>err || fail "doctor of ranker.yaml"
"$frugal" doctor "$top/examples/gpt.yaml" data.path=text "$allow" >out 2>err || fail "doctor of gpt.yaml"
if [ -d /usr/share/datasets/fashion-mnist ]; then
  for name in fashion resnet; do
    "$frugal" doctor "$top/examples/$name.yaml" "$allow" >out 2>err || fail "doctor of $name.yaml"
  done
fi
exit $failed
