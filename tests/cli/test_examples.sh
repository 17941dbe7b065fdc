#!/bin/bash
# test_examples.sh: every example runs, a few steps on little data, with the program that has every
# library and with the one that has none; both begin with the same loss. In no precision does one
# fall back on the naive kernels, but for `pack`: one pass over a batch's tokens.
top=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$top/build/frugal" ] || { echo "no build/frugal yet"; exit 77; }
export FRUGAL_RUN_LEDGER=none # the user's own is none of our business
folder=$(mktemp -d) || exit 1
trap '[ "${BASHPID:-$$}" != $$ ] || { rm -rf "$folder"; }' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }

# 64 images of 28x28 in ten classes, made of bytes that repeat.
idx() { # FILE HEAD BYTES
  { printf "$2"; head -c "$3" <(yes '0123456789abcdefghijklmnopqrstuvwxyz'); } >"$1"
}
idx "$folder/images" '\0\0\010\003\0\0\0\100\0\0\0\034\0\0\0\034' $((64 * 784))
{ printf '\0\0\010\001\0\0\0\100'; for i in $(seq 0 63); do printf "\\$(printf %o $((i % 10)))"; done; } >"$folder/labels"
head -c 20000 <(yes 'the quick brown fox jumps over the lazy dog') >"$folder/text.txt"
for k in 1 2 3 4 5; do seq -f "w%g$k" 1 300 >"$folder/words$k"; done

# Two texts, and a small model of pretrain.yaml that knows the first: finetune.yaml begins with it.
small="model.depth=2 model.width=64 model.heads=2 data.context=32 train.batch=4 train.warmup=0"
head -c 20000 <(yes 'static i64 count; /* of rows */') >"$folder/source.txt"
"$top/build/frugal" train "$top/examples/pretrain.yaml" $small data.path="$folder/source.txt" train.steps=60 train.eval_every=0 \
  train.out="$folder/pretrained.safetensors" >"$folder/out" 2>"$folder/err" || fail "pretrain: $(tail -n 1 "$folder/err")"
held_out() { # MODEL: its loss on the second text
  "$top/build/frugal" evaluate "$folder/$1.safetensors" data.path="$folder/text.txt" --json 2>"$folder/err" |
    sed -nE 's/.*"loss":([0-9.e+-]+).*/\1/p'
}
"$top/build/frugal" train "$top/examples/finetune.yaml" $small data.path="$folder/text.txt" train.steps=200 train.eval_every=0 \
  train.init="$folder/pretrained.safetensors" train.out="$folder/finetuned.safetensors" >"$folder/out" 2>"$folder/err" ||
  fail "finetune: $(tail -n 1 "$folder/err")"
before=$(held_out pretrained) after=$(held_out finetuned)
echo "finetune: held-out loss $before before, $after after"
# The text is one sentence over and over: whoever learned anything of it is far below half of a stranger's loss.
awk -v a="$before" -v b="$after" 'BEGIN { exit !(a > 0 && b > 0 && b < a / 2) }' || fail "finetune: the loss has not halved"
"$top/build/frugal" generate "$folder/finetuned.safetensors" "the " --count 40 --temperature 0 >"$folder/out" 2>"$folder/err" ||
  fail "finetune: $(tail -n 1 "$folder/err")"
echo "finetune: $(head -c 60 "$folder/out")"
{ echo text,label; for k in 1 2 3; do sed "s/\$/,kind$k/" "$folder/words$k"; done; } >"$folder/texts.csv"
for i in $(seq 300); do
  echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$i + 1\"}, {\"role\": \"assistant\", \"content\": \"$((i + 1))\"}]}"
done >"$folder/sums.jsonl"
"$top/build/frugal" tokenize --train 280 --tokenizer "$folder/vocabulary" "$folder/text.txt" >/dev/null 2>&1 || fail "no vocabulary"

"$top/build/idx_folder" "$folder/images" "$folder/labels" "$folder/pictures" || fail "no folder of pictures"

idx_data="data.path=$folder/images data.labels=$folder/labels data.eval_path=$folder/images data.eval_labels=$folder/labels"
declare -A data=(
  [fashion]=$idx_data
  [resnet]=$idx_data
  [images]="data.path=$folder/pictures train.batch=16"
  [gpt]="data.path=$folder/text.txt model.depth=2 train.batch=2"
  [pretrain]="$small data.path=$folder/source.txt"
  [finetune]="$small data.path=$folder/text.txt train.init=$folder/pretrained.safetensors"
  [gpt_modern]="data.path=$folder/text.txt model.depth=2 train.batch=32"
  [encoder]="data.files=[$folder/words1,$folder/words2,$folder/words3,$folder/words4,$folder/words5] model.depth=2"
  [texts]="data.path=$folder/texts.csv data.tokenizer=$folder/vocabulary"
  [chat]="data.path=$folder/sums.jsonl data.tokenizer=$folder/vocabulary"
  [ranker]="data.samples=4096 data.eval_samples=512 train.batch=256"
)

# first_loss PROGRAM EXAMPLE: after one step; the run's own target is not awaited.
first_loss() {
  "$1" train "$top/examples/$2.yaml" ${data[$2]} train.steps=2 train.eval_every=0 train.target=none \
    train.out=none train.log_every=1 --json 2>"$folder/err" | sed -nE 's/.*"event":"step","step":1,.*"loss":([0-9.e+-]+).*/\1/p'
}

for file in "$top"/examples/*.yaml; do
  name=$(basename "$file" .yaml)
  [ -n "${data[$name]:-}" ] || { fail "$name has no data here: add some"; continue; }
  losses=()
  for build in build build-none; do
    [ -x "$top/$build/frugal" ] || continue
    [ $name$build != imagesbuild-none ] || continue # which cannot read PNGs
    loss=$(first_loss "$top/$build/frugal" "$name")
    [ -n "$loss" ] || { fail "$name with $build: $(head -n 1 "$folder/err")"; continue; }
    losses+=("$loss")
  done
  echo "$name: first loss ${losses[*]}"
  # Different kernels round differently: sums of some hundred terms in f32, 1e-4 is generous.
  if [ ${#losses[@]} = 2 ]; then
    awk -v a="${losses[0]}" -v b="${losses[1]}" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-4 * b) }' ||
      fail "$name: the two builds differ"
  fi
done

# README's first command, on a text that nobody would learn much from: it ends with 0, here after fewer steps, and so does the same again.
command=$(sed -n 's/^    build.frugal train //p' "$top/README.md" | head -n 1)
case $command in *data.path=FILE*) ;; *) fail "README's first command is not the one that is tried here: $command" ;; esac
for again in first second; do
  (cd "$folder" && "$top/build/frugal" train "$top/"${command/FILE/text.txt} train.steps=20 train.eval_every=10 model.depth=1 >out 2>err) ||
    fail "README's first command, the $again time: $(tail -n 1 "$folder/err")"
done

# Single numbers may be the reference's.
slow_ops() { # EXAMPLE SETTING…
  "$top/build/frugal" show "$top/examples/$1.yaml" ${data[$1]} "${@:2}" 2>"$folder/err" |
    awk '$4 == "ref" && $3 != "f32[1]" && $1 != "pack" { print $1, $2, $3 } $4 != "" { seen = 1 } END { if (!seen) print "nothing shown" }'
}
for name in "${!data[@]}"; do
  for precision in fp32 bf16 fp16; do
    for stochastic in default true; do
      [ $precision$stochastic != fp32true ] || continue
      slow=$(slow_ops "$name" train.precision=$precision train.stochastic_rounding=$stochastic)
      [ -z "$slow" ] || fail "$name in $precision, stochastic_rounding=$stochastic, runs naive kernels: $slow"
    done
  done
done
exit $failed
