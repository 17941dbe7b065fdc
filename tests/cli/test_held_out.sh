#!/bin/sh
# test_held_out.sh: whatever the inputs and labels are, a run may hold out more samples than a batch has, as many, or
# fewer, and what evaluation finds does not depend on its batch.
. "$(dirname "$0")/common.sh"

four_classes
"$top/build/idx_folder" images labels pictures || { echo "this build has no libpng to make pictures with"; exit 77; }
seq 2000 | sed 's/$/ is a number/' >numbers.txt
seq 60 >some.txt
{ echo age,city,clicked; seq 200 | awk '{ print $1 % 50 "," "abcde" $1 % 7 "," $1 % 2 }'; } >clicks.csv

echo "train: {lr: 0.01, deterministic: true, epochs: 0, steps: 3}" >run.yaml
loss_of() { sed -n 's/^loss  *//p' out; }

# sizes ARGUMENT...: 40 held-out samples against batches of 16, 40 and 64, evaluated 7 and 256 at a time.
parts=1
sizes() {
  for batch in 16 40 64; do
    found=
    for eval_batch in 7 256; do
      run 0 train run.yaml "$@" train.batch=$batch train.micro_batch=$((batch / parts)) train.eval_batch=$eval_batch \
        data.eval_samples=40
      found="$found$(loss_of)
"
    done
    has out "^loss  *[0-9]"
    [ "$(printf %s "$found" | sort -u | wc -l)" = 1 ] || fail "$*, batch $batch: the losses are $found"
  done
}

pictures='data.kind=images data.path=pictures data.image_size=8 data.image_colour=false data.augment=flip'
layers='model.layers=[flatten, {dense: 8}, relu, {dense: 4}]'
sizes $pictures "$layers"
sizes $pictures "$layers" data.augment=flip,mixup=0.2
sizes $pictures "$layers" data.augment=flip,mixup=0.2,cutout=2 model.smoothing=0.1 data.image_normalise=half
parts=2
sizes $pictures "$layers" data.augment=flip,mixup=0.2
parts=1
sizes $pictures "$layers" data.augment=flip,mixup=0.2 train.noise_scale=true
sizes data.path=images data.labels=labels data.kind=idx "$layers" model.smoothing=0.1
sizes data.path=numbers.txt data.context=16 model.kind=gpt model.depth=1 model.width=16 model.heads=2 model.dropout=0.1
sizes 'data.files=[numbers.txt, some.txt]' data.context=16 model.kind=encoder model.depth=1 model.width=16 model.heads=2
sizes data.path=clicks.csv data.label=clicked 'data.numeric=[age]' 'data.categorical=[city]' data.buckets=50 model.kind=ranker data.held_out=0.3

# Held-out samples of one label have no auc, which is said once; those of both have one.
awk -F, 'NR == 1 || $3 == 1' clicks.csv >ones.csv
click='data.path=clicks.csv data.label=clicked data.numeric=age data.categorical=city data.buckets=50 model.kind=ranker train.out=w'
run 0 train run.yaml $click data.eval_path=ones.csv train.eval_every=1
[ "$(grep -c 'auc is nan: all held-out samples have the same label' err)" = 1 ] || fail "not said once why auc is nan"
run 0 evaluate w
has err '^auc is nan: all held-out samples have the same label'
run 0 train run.yaml $click data.held_out=0.3
lacks err 'auc is nan'
exit $failed
