#!/bin/sh
# test_stop.sh: how a run ends before its last step, as a user sees it: the reason, the exit code,
# what was saved, which weights were kept.
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 40, lr: 0.01, usd_hour: 3600}
END

# Patience: no target, so the end is a good one; the rest of the plan is saved.
run 0 train run.yaml train.patience=2 train.lr=1e-30
has out '^stopped +2 evaluations in a row were no better than accuracy '
has out '^saved +[0-9:]+ and (under )?\$[0-9.]+ of the planned run$'
has out '^time +.* for 36 steps'
run 0 train run.yaml train.patience=2 train.lr=1e-30 --json
has out '"event":"done",.*"stopped":"patience","why":"2 evaluations.*"saved_s":[0-9].*"saved_dollars":[0-9]'
run 1 train run.yaml train.patience=2 train.lr=1e-30 train.target=1
has err 'the target 1 was not reached: 2 evaluations in a row'

# A run that goes its whole way says nothing of stopping.
run 0 train run.yaml train.epochs=1
lacks out '^(stopped|saved)'

# Budgets, with nothing else that ends the run.
run 0 train run.yaml train.epochs=0 train.max_seconds=0.3
has out '^stopped +the 0.3 s of train.max_seconds are used up, except [0-9.e-]+ s reserved for the last evaluation and the last save$'
run 1 train run.yaml train.epochs=0 train.max_dollars=0.3 train.target=0.99 train.lr=1e-30
has err 'the target 0.99 was not reached: the \$0.3 of train.max_dollars are spent'
run 2 train run.yaml train.max_dollars=1 train.usd_hour=none
has err 'train.max_dollars needs the price of an hour'

# A forecast: opt-in, and it says how sure it is.
run 1 train run.yaml train.target_metric=loss train.target=1e-9 train.forecast=0.9 train.lr=1e-3
has out '^stopped +the forecast for step 480, loss [0-9.e-]+, misses the target with 9[0-9] % confidence$'
has err 'target probability 0 %'
run 1 train run.yaml train.target_metric=loss train.target=1e-9 train.lr=1e-3
lacks out '^stopped'
run 1 train run.yaml train.target_metric=loss train.target=1e-9 train.lr=1e-3
has err '^note: the forecast for step 480, loss [0-9.e-]+, misses the target with 9[0-9] % confidence[.] train.forecast=0.95 stops such a run$'
[ "$(grep -c 'misses the target' err)" = 1 ] || fail 'a forecast is said more than once'
run 2 train run.yaml train.forecast=0.9
has err 'train.forecast does nothing without train.target'

# Divergence: the bill is printed, nothing is written over; going back rescues the run.
sgd="train.optimiser=sgd train.lr=1e4"
echo old >weights
run 1 train run.yaml $sgd train.lr=1e12 train.out=weights
has err 'the loss is (not a number|infinite) after step [0-9]+: .*train.rollbacks=2'
has out '^cost'
lacks out '^(loss|weights)'
[ "$(cat weights)" = old ] || fail "weights of a diverged run were written"
run 0 train run.yaml $sgd train.rollbacks=60 train.out=weights
has err 'more for a copy of the weights'
has err 'back to the weights of step [0-9]+, with 0.5 times the learning rate \(rollback 1 of 60\)'
has out '^accuracy +100.0 %'
has out '^weights +weights'
run 0 train run.yaml $sgd train.rollbacks=60 --json
has out '"event":"rollback","step":[0-9]+,"to_step":[0-9]+,"rollbacks":1,"lr_factor":0.5,"why":"the loss'
run 1 train run.yaml $sgd train.rollbacks=2
has err 'going back 2 times did not help'
run 2 train run.yaml train.rollbacks=1 data.held_out=0
has err 'train.rollbacks needs samples to evaluate on'

# The best weights: what was said of them holds.
run 0 train run.yaml train.lr=3 train.keep_best=true train.target_metric=loss train.out=best --json
said=$(sed -n 's/.*"event":"done".*"loss":\([^,]*\),.*/\1/p' out)
least=$(sed -n 's/.*"event":"eval".*"loss":\([^,]*\),.*/\1/p' out | sort -g | head -n 1)
[ "$said" = "$least" ] || fail "kept $said, the best was $least"
run 0 train run.yaml train.init=best train.lr=1e-30 train.epochs=1 --json
again=$(sed -n 's/.*"event":"done".*"loss":\([^,]*\),.*/\1/p' out)
[ "$said" = "$again" ] || fail "the best weights gave $said and now give $again"

# Random letters can only be learned by heart: the held-out loss rises, which is said once, with what helps.
head -c 1200 /dev/urandom | base64 -w 0 >letters
cat >letters.yaml <<END
data: {kind: text, path: letters, context: 16, windows: fixed}
model: {kind: gpt, depth: 2, width: 64, heads: 2}
train: {batch: 32, steps: 300, eval_every: 20, lr: 0.01}
END
run 0 train letters.yaml
has err 'overfitting: since step [0-9]+ the held-out loss has risen from [0-9.]+ to [0-9.]+ while the training loss fell from [0-9.]+ to [0-9.]+[.] What helps: train.patience=3 [(]stops soon after the best evaluation[)], more data, model.dropout$'
[ "$(grep -c overfitting err)" = 1 ] || fail 'overfitting is said more than once'
# What is written is what the best evaluation judged, unless the last weights are asked for.
has out '^weights .*, those of step [0-9]+'
# Resumed and longer, the run has said it already.
run 0 train letters.yaml checkpoint.dir=letters.ck
has err overfitting
run 0 train letters.yaml checkpoint.dir=letters.ck train.steps=400
has err '^resumed at step 300'
lacks err overfitting
# Its best weights stay, also with a copy to go back to, which has more.
run 0 train letters.yaml checkpoint.dir=letters.ck train.steps=420 train.rollbacks=1
has out '^weights .*, those of step'
run 0 train letters.yaml checkpoint.dir=letters.ck train.steps=440
has out '^weights .*, those of step'
# A run that is evaluated at its end alone has nothing to choose from; made longer, it has.
run 0 train letters.yaml checkpoint.dir=once.ck train.epochs=1 train.eval_every=0
lacks err 'copy of the weights'
run 0 train letters.yaml checkpoint.dir=once.ck train.epochs=2 train.eval_every=0 train.lr=0.3
has out '^weights .*, those of step 3$'
run 0 train letters.yaml train.keep_best=false
has err 'What helps: train.keep_best=true [(]ends with the best weights[)], train.patience=3'
lacks out 'those of step'
run 0 train letters.yaml train.lr=1e-30
lacks err overfitting
# What helps is what this run can be given; and the ledger has the result of the weights that were kept.
{
    echo a,b,kind,label
    awk 'BEGIN { srand(5); for (i = 0; i < 300; i++) print rand() "," rand() "," i % 3 "," (rand() > 0.5) }'
} >noise.csv
cat >noise.yaml <<END
data: {path: noise.csv, label: label, numeric: [a, b], categorical: kind, buckets: 3, held_out: 0.5}
model: {kind: ranker, mlp: [64, 64]}
train: {batch: 32, steps: 2000, eval_every: 100, lr: 0.01, keep_best: true}
END
run 0 train noise.yaml run.ledger=ledger.db --json
has out '"text":"overfitting: .* What helps: train.patience=3 [(]stops soon after the best evaluation[)], more data"'
said=$(sed -n 's/.*"event":"done".*"auc":\([^,}]*\)[,}].*/\1/p' out)
run 0 runs --json --ledger ledger.db
kept=$(sed 's/.*"value":\([^,]*\),.*/\1/' out)
[ "$said" = "$kept" ] || fail "the run said $said of its weights, the ledger says $kept"
exit $failed
