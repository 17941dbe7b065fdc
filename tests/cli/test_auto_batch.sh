#!/bin/sh
# test_auto_batch.sh: train.batch=auto costs no example more than 2 % of its held-out metric at the same number of epochs. A machine
# that would gain speed from a larger batch is what tempts it; so the batch it takes is printed, too.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

# result SETTING...: the metric at the end, and the samples of a step.
result() {
  "$frugal" train "$@" train.target=none --json >out 2>err || { fail "frugal train $*"; echo "nan 0"; return; }
  python3 -c 'import json, sys
rows = [json.loads(line) for line in open("out") if line.startswith("{")]
start, done = ([r for r in rows if r["event"] == e][-1] for e in ("start", "done"))
print(done["metrics"].get(sys.argv[1], done["loss"]), start["batch"] * start["accumulate"])' "$metric"
}

# costs_little NAME METRIC SETTING...
costs_little() {
  name=$1 metric=$2
  shift 2
  own=$(result "$@") auto=$(result "$@" train.batch=auto)
  echo "$name: $metric $own by its own batch, $auto by auto"
  echo "$own $auto $metric" | awk '{ exit !($5 == "loss" ? $3 <= 1.02 * $1 : $3 >= 0.98 * $1) }' ||
    fail "$name: train.batch=auto ($auto) costs more than 2 % of the $metric of its own ($own)"
}

costs_little clicks auc "$top/examples/ranker.yaml" data.samples=200_000 data.eval_samples=20_000
fashion=/usr/share/datasets/fashion-mnist
if [ -e $fashion/train-images-idx3-ubyte.gz ]; then
  costs_little fashion accuracy "$top/examples/fashion.yaml" train.epochs=2
  "$top/build/idx_folder" $fashion/train-images-idx3-ubyte.gz $fashion/train-labels-idx1-ubyte.gz pictures 10000 &&
    costs_little images accuracy "$top/examples/images.yaml"
fi
cat "$top"/docs/*.md >text
costs_little gpt loss "$top/examples/gpt.yaml" data.path=text data.context=64 model.depth=1 model.width=32 train.steps=0 train.epochs=2 train.eval_every=0

# What the noise of gradients says of the batch, or why it says nothing.
cat >small.yaml <<END
data: {kind: text, path: text, context: 16, samples: 800}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {epochs: 4, noise_scale: true}
END
run 0 train small.yaml train.batch=auto
has err '^batch [0-9]+: half a step, to measure the noise of gradients; of a step: '
has out '^noise +scale [0-9,]+ samples'
run 0 train small.yaml train.epochs=0 train.steps=5
has out '^noise +scale not known: 5 steps were measured, and it takes 20$'
run 0 train small.yaml train.batch=auto train.noise_scale=false
has err '^batch [0-9]+: .*train.noise_scale=true measures what learning gains from it'
exit $failed
