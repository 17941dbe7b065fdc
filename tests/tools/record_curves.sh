#!/bin/sh
# record_curves.sh >tests/golden/curves.jsonl: trains some sixty small networks to their ends and
# writes one JSON object a line for each: its set, its settings, and its evaluations (steps, held-out
# loss, metric). Stopping rules are tested against these. Two minutes on 2 cores.
frugal=${FRUGAL:-$(cd "$(dirname "$0")/../.." && pwd)/build/frugal}
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# record SET METRIC FILE SETTING...: one run, one line.
record() {
  set_name=$1 metric=$2 file=$3
  shift 3
  "$frugal" train "$examples/$file" --json train.target=none "$@" 2>/dev/null |
    awk -v name="$set_name" -v metric="$metric" -v settings="$*" '
      function field(key) { return match($0, "\"" key "\":[^,}]*") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "null" }
      function joined(list, value) { return list (list == "" ? "" : ",") (value == "null" ? value : sprintf("%.5g", value)) }
      /"event":"eval"/ { step = joined(step, field("step")); loss = joined(loss, field("loss")); value = joined(value, field(metric)) }
      /"event":"done"/ { seconds = sprintf("%.3g", field("seconds")) }
      END { printf "{\"set\":\"%s\",\"settings\":\"%s\",\"seconds\":%s,\"step\":[%s],\"loss\":[%s],\"%s\":[%s]}\n",
              name, settings, seconds == "" ? "null" : seconds, step, loss, metric, value }'
}

# Twenty evaluations each. The classifier on 10,000 images, five epochs.
for lr in 1e-5 3e-5 1e-4 2e-4 3e-4 5e-4 1e-3 2e-3 3e-3 5e-3 1e-2 2e-2 3e-2 5e-2 1e-1 3e-1; do
  record classifier_cosine accuracy fashion.yaml data.samples=10_000 train.eval_every=78 train.epochs=5 \
    train.schedule=cosine train.seed=1 train.lr=$lr
done
for lr in 1e-4 3e-4 1e-3 3e-3 1e-2 3e-2; do
  for schedule in constant wsd; do
    record classifier_$schedule accuracy fashion.yaml data.samples=10_000 train.eval_every=78 train.epochs=5 \
      train.schedule=$schedule train.seed=2 train.lr=$lr
  done
done

# A tiny GPT on the licences that every Debian has.
cat /usr/share/common-licenses/* >"$folder/text"
gpt() {
  record "$1" loss gpt.yaml data.path="$folder/text" data.context=64 data.eval_samples=200 model.depth=2 \
    model.width=64 train.batch=8 train.steps=600 train.eval_every=30 train.warmup=30 train.schedule="${1#gpt_}" train.seed="$2" \
    train.lr="$3"
}
for lr in 1e-4 2e-4 5e-4 1e-3 2e-3 3e-3 5e-3 7e-3 1e-2 1.5e-2 2e-2 3e-2 5e-2 1e-1 2e-1 5e-1; do gpt gpt_cosine 1 $lr; done
for lr in 3e-4 1e-3 3e-3 1e-2 3e-2 1e-1; do
  gpt gpt_constant 2 $lr
  gpt gpt_wsd 2 $lr
done
