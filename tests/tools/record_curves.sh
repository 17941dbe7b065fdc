#!/bin/sh
# record_curves.sh >tests/golden/curves.jsonl: trains 64 small networks to their ends and writes one
# JSON object a line for each: its set, rate and seed, and its twenty or forty evaluations. The rules of
# src/run/stop.c and asha.c are tested against these. Two minutes of two cores.
frugal=${FRUGAL:-$(cd "$(dirname "$0")/../.." && pwd)/build/frugal}
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
text=$(mktemp) || exit 1
trap 'rm -f "$text"' EXIT

# record SET LR SEED FILE SETTING...: one run, one line.
record() {
  set_name=$1 lr=$2 seed=$3 file=$4
  shift 4
  "$frugal" train "$examples/$file" --json train.target=none train.schedule="${set_name#*_}" train.lr="$lr" \
    train.seed="$seed" "$@" 2>/dev/null |
    awk -v head="{\"set\":\"$set_name\",\"lr\":$lr,\"seed\":$seed" '
      function field(key) { return match($0, "\"" key "\":[^,}]*") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
      function joined(list, value) { return value == "" ? list : list (list == "" ? "" : ",") sprintf("%.5g", value) }
      /"event":"eval"/ { step = joined(step, field("step")); loss = joined(loss, field("loss")); accuracy = joined(accuracy, field("accuracy")) }
      /"event":"done"/ { seconds = sprintf("%.3g", field("seconds")) }
      END {
        printf "%s,\"seconds\":%s,\"step\":[%s],\"loss\":[%s]", head, seconds, step, loss
        print (accuracy == "" ? "" : ",\"accuracy\":[" accuracy "]") "}"
      }'
}

# The classifier on 10,000 images, five epochs, judged by 10,000 others.
classifier() {
  record "classifier_$1" "$3" "$2" fashion.yaml data.samples=10_000 train.eval_every=78 train.epochs=5
}
for lr in 1e-5 3e-5 1e-4 2e-4 3e-4 5e-4 1e-3 2e-3 3e-3 5e-3 1e-2 2e-2 3e-2 5e-2 1e-1 3e-1; do
  classifier cosine 1 $lr
done
for lr in 1e-4 3e-4 1e-3 3e-3 1e-2 3e-2; do
  classifier constant 2 $lr
  classifier wsd 2 $lr
done

# On 1,000 images, forty epochs: learned by heart, and worse for it.
for lr in 1e-4 2e-4 3e-4 5e-4 1e-3 2e-3 3e-3 5e-3; do
  record overfit_constant $lr 3 fashion.yaml data.samples=1000 train.epochs=40
done

# A tiny GPT on the licences that every Debian has.
cat /usr/share/common-licenses/* >"$text"
gpt() {
  record "gpt_$1" "$3" "$2" gpt.yaml data.path="$text" data.context=64 data.eval_samples=200 model.depth=2 \
    model.width=64 train.batch=8 train.steps=600 train.eval_every=30 train.warmup=30 \
    $([ "$1" = constant ] && echo train.lr_end=default)
}
for lr in 1e-4 2e-4 5e-4 1e-3 2e-3 3e-3 5e-3 7e-3 1e-2 1.5e-2 2e-2 3e-2 5e-2 1e-1 2e-1 5e-1; do
  gpt cosine 1 $lr
done
for lr in 3e-4 1e-3 3e-3 1e-2 3e-2 1e-1; do
  gpt constant 2 $lr
  gpt wsd 2 $lr
done
