#!/bin/sh
# check_shapes on the processor: its kernels are right at a run's shapes, and a spoilt number is found in every result.
check=$1
set -- bench/gpu/gpt.yaml data.kind=text data.vocabulary=default data.path=README.md data.context=48 model.depth=1 model.width=64 \
  model.heads=4 train.batch=3 train.device=cpu
"$check" "$@" train.precision=fp32 || exit 1
"$check" "$@" train.precision=bf16 train.recipe=modern train.optimiser=muon || exit 1
"$check" "$@" train.precision=bf16 train.fp8=on model.dropout=0.1 || exit 1
joined=$("$check" --parts=65536 "$@" train.precision=bf16) || { echo "$joined"; exit 1; }
for op in slice concat xent_both; do # whole rows move between the parts of a loss
  echo "$joined" | grep -q "^ok .* $op " || { echo "no $op was checked"; exit 1; }
done
found=$("$check" --spoil --parts=65536 "$@") && { echo "nothing was found in spoilt results"; exit 1; }
kinds=$(echo "$found" | grep -c '^\(ok\|WRONG\|left out\) ')
wrong=$(echo "$found" | grep -c '^WRONG ')
[ "$kinds" -gt 20 ] && [ "$wrong" = "$kinds" ] || { echo "spoilt $kinds, found $wrong"; exit 1; }
