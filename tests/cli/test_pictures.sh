#!/bin/sh
# test_pictures.sh: a damaged picture stops the run or is skipped, as asked; a run on shards goes on in the same order with another cache.
. "$(dirname "$0")/common.sh"

four_classes
"$top/build/idx_folder" images labels pictures || { echo "this build has no libpng to make pictures with"; exit 77; }
cat >run.yaml <<'Y'
data: {kind: images, path: pictures, image_size: 8, image_colour: false, augment: [flip]}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {batch: 16, epochs: 2, lr: 0.01}
Y
run 0 pack pictures --to packed --shard-bytes 20e3

# What is passed over in a folder of classes is counted and named, by pack and by train.
touch pictures/0/a.webp pictures/3/notes.txt pictures/3/.hidden
run 0 pack pictures --to shards/set --shard-bytes 20e3 # and its folder is made
has err '^note: 2 files are not read, the first is pictures/0/a.webp: pictures are .jpg, .jpeg or .png files'
[ -s shards/set-000000.tar.idx ] || fail 'no shards in the folder that was named'
run 0 train run.yaml
has err '^note: 2 files are not read, the first is pictures/0/a.webp'
rm pictures/0/a.webp pictures/3/notes.txt

# A folder of shards is all of them, and none may be missing.
run 0 train run.yaml "data.path=$(ls shards/set-*.tar | sed -n '$s/shards.set-\(.*\).tar/shards\/set-{000000..\1}.tar/p')" train.out=named.safetensors
run 0 train run.yaml data.path=shards data.cache=cache train.out=folder.safetensors
same_numbers named.safetensors folder.safetensors || fail 'a folder of shards is not its shards'
run 0 train run.yaml data.kind=auto data.path=shards/
cp shards/set-000000.tar shards/val-000000.tar
run 2 train run.yaml data.path=shards
has err '^shards holds shards of different names, .*; name those that are meant, like shards/.*\{000000\.\.000123\}\.tar$'
rm shards/val-000000.tar shards/set-000001.tar
run 3 train run.yaml data.path=shards
has err 'set-000001.tar: No such file'

bad=$(find pictures -name '*.png' | sort | sed -n 150p)
head -c 40 "$bad" >cut && mv cut "$bad"
run 2 train run.yaml
has err "$bad.*; data.on_error=skip skips such samples"
run 0 train run.yaml data.on_error=skip
has err "note: 1 sample skipped: .*$bad"
has out '^accuracy'
run 0 train run.yaml data.on_error=skip --json
has out '"samples_skipped":2' # once an epoch

# The block of samples that are shuffled together follows from data.cache_bytes unless it is given, or there is a checkpoint.
shards="data.path=$(ls packed-*.tar | sed -n '$s/packed-\(.*\).tar/packed-{000000..\1}.tar/p')"
run 0 train run.yaml "$shards" data.cache_bytes=200e3 train.steps=20 train.epochs=0 train.schedule=constant train.out=whole.safetensors
run 0 train run.yaml "$shards" data.cache_bytes=100e3 train.steps=20 train.epochs=0 train.schedule=constant train.out=other.safetensors
same_numbers whole.safetensors other.safetensors && fail 'another cache, and the same order: this test shows nothing'
run 0 train run.yaml "$shards" data.cache_bytes=200e3 train.steps=9 train.epochs=0 train.schedule=constant checkpoint.dir=kept
run 2 train run.yaml "$shards" data.shuffle_block=7 train.steps=20 train.epochs=0 train.schedule=constant checkpoint.dir=kept
has err 'data.shuffle_block was [0-9]+ and is 7'
run 0 train run.yaml "$shards" data.cache_bytes=100e3 train.steps=20 train.epochs=0 train.schedule=constant checkpoint.dir=kept \
  train.out=resumed.safetensors
same_numbers whole.safetensors resumed.safetensors || fail 'with another cache the run went on in another order'
exit $failed
