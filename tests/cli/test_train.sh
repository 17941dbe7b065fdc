#!/bin/sh
# test_train.sh: frugal train, show and doctor on a run file, as a user types them: what is printed
# where, and every exit code.
. "$(dirname "$0")/common.sh"

four_classes
cat >run.yaml <<EOF
data:
  kind: idx
  path: images
  labels: labels
model:
  layers:
    - flatten
    - dense: {units: 8, activation: relu}
    - dense: 4
train:
  epochs: 20
  lr: 0.01
EOF

# The bill is on stdout, what happens on the way on stderr.
run 0 train run.yaml train.target=0.99 train.usd_hour=3.6 train.out=weights.safetensors
has out '^accuracy +100.0 %$'
has out '^target +reached$'
has out '^throughput +[0-9,]+ samples/s, [0-9.,]+ steps/s, [0-9.]+ [kMGT]?FLOP/s$'
has out '^step +[0-9.]+ ms p50, [0-9.]+ p95, [0-9.]+ p99; [0-9.]+ % of it waiting for data$'
has out '^spent +[a-z]+ [0-9.]+ %'
has out '^cost +(under )?\$0\.[0-9]+ at \$3.6 an hour$'
has out '^weights +weights.safetensors$'
has err '^evaluated after step [0-9]+, epoch 1:'
lacks out evaluated
lacks err "$(printf '[\033\r]')"
[ -s weights.safetensors ] || fail "no weights were written"

run 0 train run.yaml train.epochs=1
has out 'price unknown'
lacks out '^target'

# A target out of reach.
run 1 train run.yaml train.epochs=1 train.target=1 train.lr=1e-9
has err 'the target 1 was not reached'
has out '^target +not reached$'

# Events.
run 0 train run.yaml --json
for event in start step eval done; do has out "^\{\"event\":\"$event\",.*\}$"; done
has out '"event":"done",.*"dollars":null'
[ ! -s err ] || fail "--json leaves stderr empty when all is well"
if command -v python3 >/dev/null; then
  python3 -c 'import json,sys; [json.loads(l) for l in open("out")]' || fail "not JSON"
fi
loss() { sed -n 's/.*"event":"done".*"loss":\([^,]*\),.*/\1/p' out; }
one=$(loss)
run 0 train run.yaml --json train.threads=1
[ "$one" = "$(loss)" ] || fail "the loss depends on the number of threads"
run 0 train run.yaml --json train.seed=2
[ "$one" != "$(loss)" ] || fail "the loss does not depend on the seed"

# In f64 the same run ends at the same loss, to f32's rounding, and its weights come back.
run 0 train run.yaml --json train.out=wide.safetensors model.dtype=f64
awk -v a="$one" -v b="$(loss)" 'BEGIN { exit !(a != b && a / b < 1.001 && b / a < 1.001) }' ||
  fail "f32 ends at $one, f64 at $(loss)"
wide=$(loss)
run 0 train run.yaml --json train.init=wide.safetensors model.dtype=f64 train.lr=1e-30 train.epochs=1
[ "$wide" = "$(loss)" ] || fail "weights in f64 do not come back: $wide, then $(loss)"
run 0 train run.yaml --json train.init=wide.safetensors train.epochs=1

# Mistakes: the user's, the world's.
# Where nobody says a precision, one line says which is taken and why.
few="train run.yaml train.epochs=1 train.device=cpu"
env -u FRUGAL_TRAIN_PRECISION "$frugal" $few >out 2>err || fail "no run with the default precision"
has err '^precision (bf16|fp32): this processor has '
env -u FRUGAL_TRAIN_PRECISION FRUGAL_VECTORS=avx512 "$frugal" $few >out 2>err || fail "no run in fp32"
has err '^precision fp32: this processor has no bf16 instructions$'
run 0 $few
lacks err '^precision '
# What would be ignored where auto takes another type needs its type by name.
run 2 $few train.precision=auto train.loss_scale=1024
has err 'train.loss_scale .*train.precision=fp16'

run 2 train
has err 'which run file\?'
run 2 train run.yaml train.epochs=0
has err '^the run has no end: set train.epochs=5'
run 2 train run.yaml train.batch=none
has err '^command line: train.batch is none; expected a whole number'
run 2 train run.yaml 'model.layers=[flatten, {dens: 4}]'
has err 'did you mean dense'
run 3 train run.yaml data.path=gone
has err 'gone'
run 3 train gone.yaml
has err 'gone.yaml'
run 3 train run.yaml train.out=no/such/folder/w.safetensors
has err 'no/such/folder'

# Interrupted: the step is finished, the weights are kept, and the bill is printed.
rm -f out err
: >out; : >err
"$frugal" train run.yaml train.epochs=100_000_000 train.out=kept.safetensors >out 2>err &
pid=$!
for i in $(seq 100); do grep -qs "step 1" err && break; sleep 0.1; done
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 4 ] || fail "SIGTERM: exit $rc, not 4"
has err 'SIGTERM'
has out '^cost'
[ -s kept.safetensors ] || fail "interrupted, and the weights are lost"

# A batch that the machine chose may be another next time: the run names the one that repeats it. A short run always has 16.
run 0 train run.yaml train.batch=auto train.out=none
has err '^batch 16: '
lacks err 'repeats this run'
run 0 train run.yaml train.batch=auto train.epochs=200 train.out=auto.safetensors
chosen=$(sed -n 's/.*train.batch=\([0-9]*\) repeats this run.*/\1/p' err)
[ -n "$chosen" ] || fail "train.batch=auto does not say what repeats it"
run 0 train run.yaml train.batch="$chosen" train.epochs=200 train.out=again.safetensors
lacks err 'repeats this run'
same_numbers auto.safetensors again.safetensors || fail "train.batch=$chosen does not repeat train.batch=auto"

# Where settings come from.
FRUGAL_TRAIN_SEED=5 "$frugal" show run.yaml train.batch=16 >out 2>err || fail "show"
has out '^  train.batch +16 +command line$'
has out '^  train.seed +5 +environment FRUGAL_TRAIN_SEED$'
has out '^  train.lr +0.01 +run.yaml:12$'
has out '^  train.beta1 +0.9 +default$'
has out '^Program train$'
has out '^  matmul '
run 0 show run.yaml --json
has out '"event":"setting","key":"train.lr","value":"0.01","origin":"run.yaml:12"'
has out '"event":"program","name":"train"'
run 0 show run.yaml --text
has out '^program '
lacks out '^Settings'
cp out text

# The graphs on the way: the passes in their order, and behind the last the program itself.
run 0 show run.yaml --passes
lacks out '^Settings'
order=$(sed -n 's/^graph train after \([a-z_0-9]*\), .*/\1/p' out | tr '\n' ' ')
[ "$order" = "build tables differentiate remove_dead fuse " ] || fail "passes: $order"
sed -n '/^graph train after fuse/,/^$/p' out | sed '1d;$d' >graph
sed -n '/^program train /,/^program /p' text | sed '1d;/^program /d; s/ ; .*//; s/ @[0-9]*//g' >program
[ -s graph ] && cmp -s graph program || fail "the last graph is not the program's"
run 0 show run.yaml --passes train.precision=bf16 train.micro_batch=2 train.recompute=all
has out '^graph train_add after accumulate, [0-9]+ nodes$'
has out '^graph eval after precision, [0-9]+ nodes$'
run 0 show run.yaml --passes --json
has out '"event":"pass","program":"update","pass":"update","nodes":[0-9]+,"text":"%'

run 0 doctor run.yaml
has out 'run.yaml: settings, data and model are valid'
run 3 doctor run.yaml data.labels=gone
FRUGAL_NVML=$(dirname "$frugal")/libfake_nvml.so "$frugal" doctor >out 2>err || fail "doctor of a GPU"
has out '^  GPU +NVIDIA H200, not used: '
has out '150 GB of 151 GB free, 123 of 700 W, 1755 of 1980 MHz, 31 °C, driver 580.1$'
exit $failed
