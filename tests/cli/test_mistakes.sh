#!/bin/sh
# test_mistakes.sh: what a user or the world can get wrong: one sentence, the documented exit code,
# and nothing lost. Also: signals in every phase of a run, and readers and disks that go away.
. "$(dirname "$0")/common.sh"
trap '[ "${BASHPID:-$$}" != $$ ] || { umount "$folder/small" 2>/dev/null; rm -rf "$folder"; }' EXIT

# says CODE REGEX ARGUMENT...: exits with CODE, and the last line of stderr, the only one that is no
# progress, has REGEX.
says() {
  code=$1 text=$2
  shift 2
  "$frugal" "$@" >out 2>err </dev/null
  rc=$?
  [ $rc = "$code" ] && tail -n 1 err | grep -qE -- "$text" ||
    fail "frugal $*: exit $rc, expected $code and \"$text\""
}

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, {dense: 4}]}
train: {epochs: 1, lr: 0.01}
END
seq 2000 >text
cat >gpt.yaml <<END
data: {kind: text, path: text, context: 16}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {steps: 3, batch: 4}
END
cat >clicks.yaml <<END
data: {kind: synthetic_clicks, samples: 100}
model: {kind: ranker}
train: {steps: 1}
END

# Data.
: >empty
head -c 500 images >short
gzip -c images >images.gz
head -c 40 images.gz >cut.gz
{ head -c 20 images.gz; printf XXXX; tail -c +25 images.gz; } >damaged.gz
{ printf '\0\0\010\001\0\0\001\214'; head -c 404 labels | tail -c 396; } >fewer
says 2 '^data.path is empty' train run.yaml data.path=
says 2 '^data.path is empty' train /dev/null train.epochs=1 model.kind=gpt
says 2 '^empty: 0 bytes are too few for an IDX file' train run.yaml data.path=empty
says 2 '^short: truncated' train run.yaml data.path=short
says 3 '^cut.gz: .*ends too early' train run.yaml data.path=cut.gz
says 3 '^damaged.gz: ' train run.yaml data.path=damaged.gz
says 2 '400 images, fewer has 396 labels' train run.yaml data.labels=fewer
says 2 '^\. is a folder; data.kind=idx reads files' train run.yaml data.path=.
says 2 '^\. is a folder; expected a run file, like run.yaml' train .
says 2 '^\. is a folder; expected a run file, like run.yaml' doctor .
: >nothing.yaml
says 2 '^nothing.yaml is empty; expected the sections data:, model: and train:' train nothing.yaml
for list in american-english:wamerican ngerman:wngerman french:wfrench; do
  [ -e "/usr/share/dict/${list%:*}" ] || says 3 "${list%:*}: No such file or directory; on Debian, install ${list#*:}\$" \
    train gpt.yaml data.kind=lines data.path= "data.files=text,/usr/share/dict/${list%:*}"
done
mkdir -p flat none && cp images flat/a.jpg
says 2 '^flat: no image has a class' train run.yaml data.kind=images data.labels= data.path=flat
says 2 '^none holds no sample' train run.yaml data.kind=auto data.labels= data.path=none
says 2 '^data.augment: rotate is not one of crop, center, pad=N' train run.yaml data.kind=images data.labels= data.path=flat data.augment=rotate
says 2 'text: 8893 tokens are fewer .*data.context' train gpt.yaml data.context=10000
says 2 '^empty: no line with text' train gpt.yaml data.kind=lines data.path= data.files=text,empty
printf 'y,a\n1,2\n0,nan\n' >nan.csv
says 2 '^nan.csv:3: "nan" in column "a" is not a number' train clicks.yaml data.kind=csv \
  data.path=nan.csv data.label=y data.numeric=a
{ head -c 8 labels; head -c 400 /dev/zero; } >alike
says 2 '^alike: all 400 samples have the same class, so there is nothing to learn$' train run.yaml data.labels=alike
printf 'y,a\n1,2\n1,3\n1,4\n' >alike.csv
says 2 '^alike.csv: all 3 samples have the same class' train clicks.yaml data.kind=csv data.buckets=default data.samples=0 data.path=alike.csv \
  data.label=y data.numeric=a

# Targets that no run can reach, or that every run has reached: refused with the range.
for target in 88 -1 0 1.5; do
  says 2 "^train.target=$target is out of range: accuracy is a fraction; expected a number above 0, up to 1" train run.yaml train.target=$target
done
says 2 'train.target is nan; expected a number or none' train run.yaml train.target=nan
says 2 '^train.target=-1 is out of range: expected a loss above 0' train run.yaml train.target_metric=loss train.target=-1
says 2 '^train.target=1 is out of range: expected a perplexity above 1' train gpt.yaml train.target_metric=perplexity train.target=1
says 2 '^train.target=88 is out of range: accuracy is a fraction.*, not percent' run program.read=json program.metric=a train.target_metric=accuracy \
  train.target=88 -- true

# A batch norm of one value per channel has no variance. 360 samples in steps of 359 leave one; pixels are values, too.
norm='model.layers=[flatten, {dense: 8}, batchnorm, {dense: 4}]'
says 2 '^batchnorm1 would see one value per channel in the last batch of an epoch, of 1 sample,.*train.drop_last=true' train run.yaml "$norm" train.batch=359
says 2 '^batchnorm1 would see one value per channel, .* a batch of at least 2' train run.yaml "$norm" train.batch=1
says 0 . train run.yaml "$norm" train.batch=359 train.drop_last=true
says 0 . train run.yaml 'model.layers=[batchnorm, flatten, {dense: 4}]' train.batch=359

# A host that does not exist: said in seconds.
begin=$(date +%s)
"$frugal" train run.yaml data.kind=images data.labels= data.path=https://nowhere.invalid/x.tar >out 2>err
[ $? = 3 ] && grep -q 'nowhere.invalid\|libcurl' err || fail "a host that does not exist"
[ $(($(date +%s) - begin)) -lt 30 ] || fail "a host that does not exist is asked for $(($(date +%s) - begin)) s"

# Numbers beyond reason: a sentence before anything is allocated.
says 2 '^x would be i32\[.*more than 64 TiB' train clicks.yaml data.samples=1e18 train.batch=1e18
says 2 'model.width=1000000000 must be between' train gpt.yaml model.width=1e9
says 2 'expected a whole number from 1 to 1024' train gpt.yaml model.depth=1e9
says 2 'more than 32768 operations' train gpt.yaml model.depth=1024
says 2 'even one sample at a time needs .* GiB' train gpt.yaml model.width=131072 model.heads=512 train.batch=1e12
says 2 'expected a whole number' train run.yaml train.batch=1e30
says 2 'train.precision is fp8; expected one of auto.fp32.bf16.fp16' train run.yaml train.precision=fp8
says 2 '^model.dtype=f64 and a low train.precision' train run.yaml train.precision=bf16 model.dtype=f64
says 2 'train.loss_scale_backoff was replaced by train.loss_scale: a skipped step halves' train run.yaml train.loss_scale_backoff=1
says 0 '^evaluated after step 12' train run.yaml train.epochs=1e18 train.steps=12
says 0 . train run.yaml train.batch=1e12
says 0 '^evaluated after step 1,' train run.yaml train.batch=576460752303423488 train.micro_batch=32
says 0 . train run.yaml train.threads=100
says 2 'run.machine=p5.48xlarge is not in the catalogue; did you mean aws/p5.48xlarge\?' train run.yaml run.machine=p5.48xlarge
says 2 'run.machine=aws/p5.48xlarg is not in the catalogue; did you mean aws/p5.48xlarge\?' train run.yaml run.machine=aws/p5.48xlarg
says 2 'run.machine=nothing is not in the catalogue; expected CLOUD/MACHINE' train run.yaml run.machine=nothing
says 0 . train run.yaml data.samples=1
says 2 'train.target needs samples' train run.yaml data.held_out=0 train.target=0.5
says 1 'the loss is (not a number|infinite) after step' train run.yaml train.lr=1e30

# Levers that cannot be pulled so: found out before any work.
unworked() { [ ! -s out ] && [ "$(wc -l <err)" = 1 ] || fail "$1: work before the sentence"; }
lever() { says "$@"; shift 2; unworked "$*"; }
lever 2 'train.memory_gib is 0; expected a number above 0 or none' train gpt.yaml train.memory_gib=0
lever 2 '^even one sample at a time needs .* GiB, and 1e-05 GiB are allowed: try train.recompute=auto, a smaller model' train gpt.yaml train.memory_gib=1e-5
lever 2 'the run needs .* GiB.*: try a smaller train.eval_batch$' train gpt.yaml train.memory_gib=8e-4 \
  data.held_out=0.5
lever 2 '^even one sample at a time needs .* GiB, .*: try a smaller model' train gpt.yaml train.memory_gib=1e-5 \
  train.recompute=auto
lever 2 'even one sample at a time needs .*train.recompute=auto' train gpt.yaml train.batch=auto \
  train.memory_gib=1e-5
lever 2 'train.recompute is some; expected one of none' train gpt.yaml train.recompute=some
lever 2 'train.recompute is 1; expected one of none|all|auto, or a whole number from 2 to 1024' train gpt.yaml train.recompute=1
lever 2 'train.recompute is every; expected' train gpt.yaml train.recompute=every
lever 2 'train.batch is most; expected a whole number of at least 1 or auto' train gpt.yaml \
  train.batch=most
lever 2 'train.micro_batch=32 does not divide train.batch=100: 25 and 50 do' train run.yaml \
  train.batch=100 train.micro_batch=32
lever 2 'train.batch=auto chooses the micro-batch: leave out train.micro_batch=3' train run.yaml \
  train.batch=auto train.micro_batch=3
lever 2 'train.micro_batch is 0; expected a whole number of at least 1' train run.yaml train.micro_batch=0
lever 2 'train.micro_batch is 2.5; expected a whole number' train run.yaml train.micro_batch=2.5
lever 2 'train.schedule is cosin; expected one of constant' train run.yaml train.schedule=cosin
lever 2 'train.decay_part is 0; expected' train run.yaml train.decay_part=0
lever 2 'train.lr_end is 2; expected a number from 0 to 1' train run.yaml train.lr_end=2
lever 2 'train.warmup is -1; expected' train run.yaml train.warmup=-1
lever 2 'train.warmup is 2 days; expected a whole number of steps' train run.yaml 'train.warmup=2 days'
lever 2 'train.loss_scale is 0; expected a number above 0' train run.yaml train.loss_scale=0
lever 2 'train.fuse' train run.yaml train.fuse=everything
lever 2 'train.muon_lr is 0; expected' train run.yaml train.muon_lr=0
lever 2 'train.patience is -1; expected' train run.yaml train.patience=-1
lever 2 'train.patience needs samples to evaluate on' train run.yaml train.patience=2 data.held_out=0
lever 2 'train.forecast does nothing without train.target' train run.yaml train.forecast=0.95
lever 2 'train.max_dollars needs the price of an hour' train run.yaml train.max_dollars=1
lever 2 'train.max_seconds is 0; expected' train run.yaml train.max_seconds=0
lever 2 'train.allow: there is no rule lr_unusal' train run.yaml train.allow=lr_unusal
lever 2 'train.precision is fp4; expected one of auto' train run.yaml train.precision=fp4
lever 2 'train.optimiser is lion; expected one of sgd' train run.yaml train.optimiser=lion

# The network on the command line has no line in the file.
says 2 '^command line, model.layers:1: the last layer gives \[3\]' train run.yaml \
  'model.layers=[flatten, {dense: 3}]'
says 2 'gives \[2,2,4\], but the target has 4 classes; end with flatten .or global_avgpool. and dense: 4' \
  train run.yaml 'model.layers=[{dense: 4}]'
printf 'y,a\n1,2\n0,3\n' >numbers.csv
says 2 '^model.kind=ranker needs columns of categories: set data.categorical' train clicks.yaml data.kind=csv \
  data.path=numbers.csv data.label=y data.numeric=a data.samples=0
says 1 'likely mistake' doctor run.yaml train.lr=1e9
grep -q 'train.lr=1e+09 is far above the usual range of adam, 1e-05 to 0.01: train.lr=0.001' err || fail "a rate of 1e9"
export FRUGAL_CUDA=/nowhere/frugal_cuda.so
says 3 'the CUDA module cannot be loaded: .*docs/install.md' train run.yaml train.device=cuda
unset FRUGAL_CUDA

# So is the environment.
FRUGAL_TRAIN_BACTH=64 "$frugal" train run.yaml >out 2>err
[ $? = 2 ] && grep -q 'FRUGAL_TRAIN_BACTH: unknown key train.bacth; did you mean train.batch?' err ||
  fail "a misspelt variable"
for command in 'train run.yaml' doctor 'show run.yaml' version; do
  FRUGAL_VECTORS=sse "$frugal" $command >out 2>err
  [ $? = 2 ] && grep -q 'FRUGAL_VECTORS is sse; expected one of none, avx2, avx512, avx512bf16, amx' err ||
    fail "FRUGAL_VECTORS=sse frugal $command"
done
FRUGAL_VECTORS=sse "$frugal" help environment >out 2>err || fail "help with an unknown level of vectors"

# Names that would speak to the terminal do not.
says 2 'unknown key' train run.yaml "$(printf '\033[31mred')=1"
! grep -q "$(printf '\033')" err || fail "an escape code reached the terminal"

# Weights to begin with: checked before the run, and by doctor.
says 0 . train run.yaml train.out=weights
head -c 100 weights >half
says 3 'gone' train run.yaml train.init=gone
says 3 'gone' doctor run.yaml train.init=gone
says 2 '^half: ' train run.yaml train.init=half
says 2 '^weights: tensor dense1.weight is f32\[8,4\], but the model.s is f32\[9,4\]' train run.yaml \
  train.init=weights 'model.layers=[flatten, {dense: 9}, {dense: 4}]'
deeper='model.layers=[flatten, {dense: 8}, {dense: 4}, {dense: 4}]'
says 0 . train run.yaml train.out=wide model.dtype=f64
says 2 '^wide: tensor dense1.weight is f64\[8,4\], but the model.s is f32\[9,4\]' train run.yaml train.init=wide \
  'model.layers=[flatten, {dense: 9}, {dense: 4}]'
says 2 "^weights lacks 2 of the model's tensors: dense3.*train.rename=any" train run.yaml train.init=weights "$deeper"
says 0 . train run.yaml train.init=weights train.rename=any "$deeper"
grep -q "weights lacks 2 of the model's tensors, which start at random; 0 of its own are ignored" err || fail "what train.init lacks is not told"
says 2 'ab is not written theirs=ours' train run.yaml train.init=weights train.rename=ab
says 2 'the model has no tensor b' train run.yaml train.init=weights train.rename=dense1.weight=b
says 2 'weights has no tensor a' train run.yaml train.init=weights train.rename=a=dense1.weight

# Where the weights go is tried before the first step.
before() { [ ! -s out ] && ! grep -q '^step' err || fail "$1 was found out after the run"; }
says 3 '^cannot create no/such/w: there is no folder no/such$' train run.yaml train.out=no/such/w
before "a folder that is not there"
says 2 'is a folder' train run.yaml train.out=.
before "a folder as a file"
mkdir small
if mount -t tmpfs -o size=64k tmpfs small 2>/dev/null; then
  says 3 'small/w will take [0-9.,]+ MB, and its disk has [0-9.,]+ MB free' train run.yaml \
    'model.layers=[flatten, {dense: 8000}, {dense: 4}]' train.out=small/w
  before "a small disk"
  # A folder is made of a file, which is deleted then: the disk has room for both.
  says 3 '^small/f/weights.safetensors will take 0.1[0-9]* MB, and its disk has 0.0[0-9]* MB free' train gpt.yaml model.width=24 train.out=small/f/
  before "a small disk for a folder"
  rm -r small/f
  says 3 '^checkpoint.dir=small/kept: a checkpoint takes 0.871 MB, and its disk has .* MB free' train run.yaml \
    'model.layers=[flatten, {dense: 8000}, {dense: 4}]' checkpoint.dir=small/kept
  before "a small disk for checkpoints"
  rm -rf small/kept
  # Filled while the run was on: the bill is printed, and the old file is still there.
  says 0 . train run.yaml train.out=small/w
  cp small/w old
  rm -f err
  : >out; : >err
  "$frugal" train run.yaml train.epochs=100_000_000 train.out=small/w >out 2>err &
  pid=$!
  for i in $(seq 100); do grep -qs "^step 1" err && break; sleep 0.1; done
  cat /dev/zero >small/full 2>/dev/null
  kill -TERM $pid
  wait $pid
  [ $? = 3 ] && grep -q 'cannot write to .*No space left' err || fail "a full disk goes unnoticed"
  grep -q '^cost' out && ! grep -q '^weights' out || fail "no bill, or weights that are not there"
  cmp -s old small/w || fail "a full disk cost the old weights"
  [ "$(ls small)" = "$(printf 'full\nw')" ] || fail "a part of a file is left"
fi

# No cache: unpacked in memory.
HOME='' XDG_CACHE_HOME='' "$frugal" train run.yaml data.path=images.gz >out 2>err || fail "no HOME"
says 0 . train run.yaml data.path=images.gz data.cache=images

# What a GPU alone would do is reported where there is none.
CUDA_VISIBLE_DEVICES= "$frugal" train run.yaml train.deterministic=false train.compile=max-autotune >out 2>err || fail "no GPU"
grep -q "^note: train.deterministic=false, train.compile=max-autotune: no effect on the CPU" err || fail "settings of a GPU are ignored in silence"

# Two runs with one output.
: >out; : >err
"$frugal" train run.yaml train.epochs=50 train.out=both >out 2>err &
pid=$!
"$frugal" train run.yaml train.epochs=50 train.out=both >out2 2>err2 || fail "the second of two runs"
wait $pid || fail "the first of two runs"
says 0 . train run.yaml train.init=both

# Readers that go away: the run goes on, and its weights are kept.
if [ -w /dev/full ]; then
  "$frugal" train run.yaml --json train.out=full >/dev/full 2>err
  [ $? = 3 ] && grep -q 'stdout: No space left' err && [ -s full ] || fail "stdout is a full disk"
fi
{ "$frugal" train run.yaml --json train.log_every=1 train.epochs=20 train.out=piped 2>err
  echo $? >code; } | head -n 1 >out
[ "$(cat code)" = 3 ] && grep -q 'stdout: Broken pipe' err && [ -s piped ] || fail "| head"
"$frugal" train run.yaml train.out=closed >&- 2>err
[ $? = 3 ] && [ -s closed ] || fail "stdout is closed"

# Signals. While it starts: no step, and older weights stay as they are.
cp weights older
while_starting() {
  : >out; : >err
  FRUGAL_TRAIN_OUT=older "$frugal" train run.yaml train.epochs=1000 >out 2>err &
  pid=$!
  sleep "$1"
  kill -INT $pid 2>/dev/null
  wait $pid
}
# Background jobs of a shell without job control ignore INT until the program catches it itself.
for delay in 0 0.001 0.003 0.01; do
  while_starting $delay
  rc=$?
  case $rc in
    0 | 4 | 130) ;;
    *) fail "Ctrl-C after $delay s: exit $rc" ;;
  esac
  ! grep -q 'after step 0' err || cmp -s weights older || fail "older weights are gone"
  cp weights older
done

# While it evaluates, which takes nearly all of this run.
rm -f err
"$frugal" train run.yaml data.held_out=0.99 train.epochs=100_000_000 train.eval_every=1 \
  train.eval_batch=1 train.out=kept >out 2>err &
pid=$!
for i in $(seq 100); do grep -qs "evaluated" err && break; sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? = 4 ] && grep -q 'stopped by SIGTERM after step' err && grep -q '^accuracy' out && [ -s kept ] ||
  fail "SIGTERM in an evaluation"

# A file where a folder is wanted, a folder that takes no files, a region that nobody has, a size that is known to be wrong
# before any text is read; and of a plan that cannot be only the reasons that there are.
: >file
mkdir -p texts
says 2 'data.context does nothing with data.kind=images .data.path=texts is a folder.; it needs data.kind=tokens' train run.yaml \
  data.kind=auto data.labels= data.path=texts data.context=8
FRUGAL_CUDA=/nowhere.so says 3 'the CUDA module cannot be loaded: .*\. train.device=cpu runs without a GPU$' train run.yaml train.device=cuda
# What is not there is no text, whatever settings of pictures say; after a prefix of shards comes their pattern.
printf 'data:\n  path: typo\n  image_size: 8\nmodel: {layers: [flatten, {dense: 4}]}\n' >photos.yaml
mkdir -p packed
: >packed/a-000000.tar
: >packed/a-000001.tar
says 2 '^there is no file llama-3.1-8b; expected a run file, like run.yaml. `frugal plan NAME` takes the names of known models$' train llama-3.1-8b
says 3 '^cannot find none.yaml: No such file or directory$' train none.yaml
says 3 '^photos.yaml:2: cannot find typo: no such file or folder$' train photos.yaml
says 3 '^command line: cannot find none/a: no such file or folder$' train photos.yaml data.path=none/a
says 3 '^command line: cannot find packed/b: no such file or folder$' train photos.yaml data.path=packed/b
says 3 '^command line: cannot find packed/a: no such file or folder; the shards with this prefix are data.path=packed/a-\{000000\.\.000001\}\.tar$' \
  train photos.yaml data.path=packed/a
says 3 '^cannot find packed/a: no such file or folder; the shards with this prefix are data.path=packed/a-\{000000\.\.000001\}\.tar$' \
  train photos.yaml data.path=packed/a data.kind=images train.steps=1
says 3 '^cannot find absent: no such file or folder$' pack absent --to shards
cd packed
says 3 'the shards with this prefix are data.path=a-\{000000\.\.000001\}\.tar$' train ../photos.yaml data.path=a
cd ..
says 2 'data.image_size does nothing with data.kind=text' train photos.yaml data.path=text
says 2 '^train.init=packed is a folder without config.json; give .* weights.safetensors of a checkpoint$' train run.yaml train.init=packed
says 3 'cannot list file: it is a file, not a folder' pack file --to shards
says 3 'cannot open file: it is a file, not a folder' checkpoints list file
says 3 'cannot create /proc/w: /proc takes no new files' train run.yaml train.out=/proc/w
says 3 'cannot create absent/w: there is no folder absent' train run.yaml train.out=absent/w
says 2 '^--region mars: the catalogue has no price there' plan gpt2 --tokens 1e9 --region mars
says 1 '^no plan: [0-9]+ candidates exceed the budget, [0-9]+ on spot machines would never finish; the nearest is' plan gpt2 --tokens 1e9 --budget 0.001 train.precision=default
lacks err 'no plan:.* 0 '
printf 'a text of a few words' >words.txt
says 2 '^--train 10: a vocabulary has 257 to 16777216 tokens' tokenize --train 10 --tokenizer vocabulary --out words.bin words.txt
lacks err 'counting words'
says 3 'file is a file, not a folder' tokenize --train 300 --tokenizer file --out words.bin words.txt
lacks err 'counting words'
says 2 '^sweep.over: nothing varies; try: sweep.over=' sweep run.yaml
exit $failed
