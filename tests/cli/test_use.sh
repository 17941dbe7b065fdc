#!/bin/sh
# test_use.sh: what was trained is not lost, and can be used: evaluate, predict and generate, from a weights file, a run file
# and a run by its name.
. "$(dirname "$0")/common.sh"
export FRUGAL_RUN_LEDGER="$folder/ledger"

four_classes
cat >shapes.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: {units: 8, activation: relu}}, {dense: 4}]}
train: {epochs: 20, lr: 0.01}
END

# The weights are written without being asked for, under the run's name, and the last lines say what to type next.
run 0 train shapes.yaml
has out '^weights +shapes.safetensors$'
has out '^next +frugal predict shapes.safetensors$'
grep -E '^(accuracy|loss) ' out >trained
[ -s shapes.safetensors ] || fail "no weights were written"

# The same figures as training's own evaluation, from whatever names the model.
for model in shapes.safetensors shapes.yaml shapes last; do
  run 0 evaluate $model
  grep -E '^(accuracy|loss) ' out | cmp -s - trained || fail "$model evaluates to something else"
  has out '^samples +40$'
done
run 0 evaluate last --json
has out '^\{"event":"evaluated","loss":[0-9.e-]+,"accuracy":1,"samples":40,"confusion":\[\[10,0,0,0\],\[0,10,0,0\],\[0,0,10,0\],\[0,0,0,10\]\]\}$'
run 0 evaluate last data.eval_path=images data.eval_labels=labels
has out '^samples +400$'
run 0 evaluate last images data.eval_labels=labels
has out '^samples +400$'
run 2 evaluate last images labels
has err '^one file or folder of data, not labels as well$'

# Which run wrote a file of weights, under whatever name.
run 0 runs --json
id=$(sed -n 's/.*"run":"\([0-9a-f]*\)".*/\1/p' out | tail -n 1)
cp shapes.safetensors found.safetensors
run 0 train shapes.yaml train.epochs=1 run.name=other
run 0 runs found.safetensors --json
[ "$(sed -n 's/.*"run":"\([0-9a-f]*\)".*/\1/p' out)" = "$id" ] || fail "found.safetensors is said to be of $(cat out), not of $id"
printf x >>found.safetensors
run 1 runs found.safetensors
has err '^no run of this ledger wrote found.safetensors$'
run 2 runs missing.safetensors
has err '^missing.safetensors is not a file that can be read$'
rm found.safetensors other.safetensors
run 0 train shapes.yaml

# One line for each sample: the classes come in turn.
run 0 predict last
[ "$(cut -f 2 out | tr -d '\n')" = 0123012301230123012301230123012301230123 ] || fail "other classes"
[ "$(cut -f 1 out | sed -n 40p)" = 39 ] || fail "not 40 samples"
run 0 predict last --json
has out '^\{"event":"prediction","sample":0,"class":0,"probability":0\.[0-9]+\}$'

# train.out=none writes no weights; otherwise they are named after the run.
rm -f ./*.safetensors
run 0 train shapes.yaml train.out=none
lacks out '^weights|^next'
run 0 train shapes.yaml run.name=mine
[ "$(echo ./*.safetensors)" = ./mine.safetensors ] || fail "weights under another name"
run 0 tune shapes.yaml --seconds 1
run 0 show shapes.yaml
has out 'train.out +auto +default'
[ "$(echo ./*.safetensors)" = ./mine.safetensors ] || fail "a command that does not train has written weights"
run 2 evaluate shapes.yaml train.out=none
has err 'no weights were written'

# Ctrl-C does not lose them.
: >out; : >err
"$frugal" train shapes.yaml train.epochs=100_000_000 run.name=stopped >out 2>err &
pid=$!
for i in $(seq 100); do grep -q 'step' err && break; sleep 0.1; done
kill -INT $pid
wait $pid
[ $? = 4 ] || fail "Ctrl-C: not exit 4"
[ -s stopped.safetensors ] || fail "Ctrl-C lost the weights"
run 0 evaluate stopped

# A model of text goes on with a text; the same seed gives the same, and the likeliest token is what top-k 1 draws.
for i in $(seq 400); do printf 'abcdefgh '; done >letters.txt
cat >letters.yaml <<END
data: {path: letters.txt, context: 16}
model: {kind: gpt, depth: 1, width: 32, heads: 2}
train: {steps: 150, batch: 8, optimiser: adamw, lr: 0.01}
END
run 0 train letters.yaml
has out '^next +frugal generate letters.safetensors "TEXT"$'
run 0 generate last 'abc' --count 9 --temperature 0
[ "$(cat out)" = 'abcdefgh abc' ] || fail "generated $(cat out)"
run 0 generate letters.safetensors 'abc' --count 9 --top_k 1
[ "$(cat out)" = 'abcdefgh abc' ] || fail "top_k 1 is not the likeliest"
run 0 generate letters.yaml 'xyz' --count 8 --temperature 3 --seed 7
mv out first
run 0 generate letters.yaml 'xyz' --count 8 --temperature 3 --seed 7
cmp -s out first || fail "the same seed gives another text"
run 0 generate letters.yaml 'xyz' --count 8 --temperature 3 --seed 8
! cmp -s out first || fail "another seed gives the same text"
run 0 generate letters.yaml 'abc' --count 9 --temperature 0 --json
has out '^\{"event":"loaded","bytes":[1-9][0-9]+,"seconds":[0-9.e-]+\}$'
has out '^\{"event":"generated","prompt":"abc","text":"defgh abc","tokens":9,"ended":"count","first_s":[0-9.e-]+,"seconds":[0-9.e-]+\}$'
run 0 generate letters.yaml 'abc' --count 90 --temperature 0
has err "^stopped after 13 new tokens: the model's context of 16 tokens is full\$"
# A cache of keys and values changes nothing but the time; lines of a file go on side by side, each as it does alone.
export FRUGAL_CACHE=off
run 0 generate letters.yaml 'xyz' --count 8 --temperature 3 --seed 7
unset FRUGAL_CACHE
cmp -s out first || fail "another text without a cache"
printf 'abc\n\nfgh ab\nbcdefgh\n' >prompts.txt
run 0 generate last @prompts.txt --count 5 --temperature 0
printf 'abcdefgh\nfgh abcdefg\nbcdefgh abcd\n' | cmp -s - out || fail "of a file: $(cat out)"
for i in $(seq 40); do printf '{"prompt": "%s"}\n' "$(printf 'abcdefgh abcdefg' | head -c $((i % 12 + 1)))"; done >prompts.jsonl
run 0 generate last @prompts.jsonl --count 6 --temperature 2 --json
sed -n '/generated/s/,"first_s".*//p' out >many
export FRUGAL_CACHE=off
run 0 generate last @prompts.jsonl --count 6 --temperature 2 --json
unset FRUGAL_CACHE
sed -n '/generated/s/,"first_s".*//p' out | cmp -s - many || fail "other texts without a cache"
[ "$(wc -l <many)" = 40 ] || fail "not one text a line"
for i in $(seq 200000); do echo 'abc'; done >prompts.txt
: >out; : >err
"$frugal" generate last @prompts.txt --count 9 --json >out 2>err &
pid=$!
for i in $(seq 100); do [ -s out ] && break; sleep 0.1; done
kill -INT $pid
wait $pid
[ $? = 4 ] || fail "Ctrl-C in generate: not exit 4"
has err '^stopped by Ctrl-C: [0-9]+ of 200000 texts are complete$'
[ "$(grep -c '"ended":"stopped"' out)" -le 16 ] || fail "more texts were stopped than are written at a time"
[ "$(grep '"ended":"count"' out | grep -cv '"tokens":9')" = 0 ] || fail "an unfinished text is said to have all its tokens"
export FRUGAL_CACHE=maybe
run 2 generate last abc
unset FRUGAL_CACHE
has err 'FRUGAL_CACHE is auto, on or off'
echo '{"text": "abc"}' >prompts.jsonl
run 2 generate last @prompts.jsonl
has err 'prompts.jsonl:1: expected an object with a text "prompt" or a list "messages"'
# Which line of a file it is that cannot be continued.
printf '{"prompt": "abc"}\n\n{"prompt": ""}\n' >prompts.jsonl
run 2 generate last @prompts.jsonl
has err '^prompts.jsonl:3: the text is empty'
printf 'abc\nabcdefgh abcdefgh abcdefgh\n' >prompts.txt
run 2 generate last @prompts.txt
has err '^prompts.txt:2: the text has 26 tokens, and the model reads at most 16$'
run 0 evaluate letters
has out '^perplexity '

# In the precision that it was trained in, set or chosen, whatever names it: a checkpoint and a folder of them, too.
for word in fp32 bf16 auto; do
  unset FRUGAL_TRAIN_PRECISION
  rm -rf saved
  run 0 train letters.yaml train.precision=$word train.steps=3 run.name=$word checkpoint.dir=saved
  grep '^loss ' out >trained
  for model in $word.safetensors $word saved saved/step-000000003.1.1; do
    run 0 evaluate $model
    grep '^loss ' out | cmp -s - trained || fail "$word: $model evaluates to $(grep '^loss ' out), in training $(cat trained)"
  done
done
run 0 evaluate bf16.safetensors train.precision=fp32 # which is what was asked for
grep '^loss ' out >wide
run 0 evaluate fp32.safetensors train.precision=fp32
grep '^loss ' out | cmp -s - wide && fail "the weights of two precisions have the same loss"
# A resumed run writes the file that an undisturbed one writes.
run 0 train letters.yaml train.steps=6 run.name=resumed checkpoint.dir=saved
has err 'resumed|step 3'
run 0 train letters.yaml train.steps=6 run.name=resumed train.out=whole.safetensors
cmp -s resumed.safetensors whole.safetensors || fail "the weights of a resumed run differ"
export FRUGAL_TRAIN_PRECISION=fp32
run 0 generate saved abc --count 3 --temperature 0
ledger=$FRUGAL_RUN_LEDGER
FRUGAL_RUN_LEDGER=none # the checkpoint knows its model, and not where its data was
run 0 generate saved abc --count 3 --temperature 0 data.kind=text
run 2 evaluate saved
has err '^data.path is empty'
run 0 evaluate saved data.path=letters.txt
run 0 evaluate saved letters.txt
has out '^samples +224$' # all of it
run 0 export saved checkpointed
[ -s checkpointed/model.safetensors ] || fail "a checkpoint was not exported"
FRUGAL_RUN_LEDGER=$ledger

# train.out=FOLDER/ is what `frugal export` makes of the weights, and the run can be used by its name; so with adapters.
run 0 train letters.yaml train.steps=20 run.name=plain
run 0 export plain exported
run 0 train letters.yaml train.steps=20 run.name=made train.out=made/
has out '^weights +made/$'
has out '^next +frugal generate made/ "TEXT"$'
for file in config.json model.safetensors; do cmp -s made/$file exported/$file || fail "made/$file is not what export writes"; done
[ "$(ls made | wc -l)" = 2 ] || fail "more in the folder: $(ls made)"
run 0 evaluate plain
mv out plain.out
run 0 evaluate last
[ "$(grep '^loss ' out)" = "$(grep '^loss ' plain.out)" ] || fail "the run of a folder evaluates to something else"
# Two runs of one name write one file, which is the second's then.
run 0 train letters.yaml train.steps=5 run.name=twice
run 0 runs
first=$(awk '$4 == "twice" { print $1 }' out)
run 0 train letters.yaml train.steps=6 run.name=twice
run 2 evaluate "$first"
has err "^twice.safetensors has the weights of run [0-9a-f]{8}, not those of run $first; give the file itself, or a checkpoint$"
run 0 evaluate twice
printf 'data: {kind: text, path: letters.txt, context: 16}\nmodel: {kind: hf, path: made}\ntrain: {steps: 5, lora: {rank: 2}, out: adapters/}\n' >tuned.yaml
run 0 train tuned.yaml
[ "$(ls adapters | tr '\n' ' ')" = 'adapter_config.json adapter_model.safetensors ' ] || fail "no folder of adapters: $(ls adapters)"
grep -E '^loss ' out >trained
run 0 evaluate tuned
grep '^loss ' out | cmp -s - trained || fail "adapters in a folder evaluate to something else"
# A run that goes on from them knows their model and rank, by its name, too.
run 0 train tuned.yaml model.path=adapters train.lora.rank=0 train.out=further.safetensors run.name=further
grep -E '^loss ' out >trained
run 0 evaluate further
grep '^loss ' out | cmp -s - trained || fail "a run that began with adapters evaluates to something else"
mv adapters/adapter_model.safetensors adapters/adapter_model.bin
run 2 evaluate adapters data.path=letters.txt data.context=16
has err '^adapters has its adapters in adapter_model.bin, a pickle, .* convert it: python'
run 2 train tuned.yaml train.out=made/
has err '^train.out=made/: made is the folder that the model began with'
run 2 train shapes.yaml train.out=layers/
has err '^train.out=layers/: model.kind=layers has no counterpart in transformers'
[ -e layers ] && fail "a folder was made for what cannot be written"
: >out; : >err
"$frugal" train letters.yaml train.steps=100_000_000 run.name=caught train.out=caught/ >out 2>err &
pid=$!
for i in $(seq 100); do grep -q 'step' err && break; sleep 0.1; done
kill -INT $pid
wait $pid
[ $? = 4 ] || fail "Ctrl-C with train.out=FOLDER/: not exit 4"
[ -s caught/model.safetensors ] || fail "Ctrl-C lost the folder"

# A run with a tokenizer of its own (data.tokenizer) is continued with that one.
for i in $(seq 40); do echo '{"prompt": "abc", "completion": " def"}'; done >pairs.jsonl
run 0 tokenize --train 260 --tokenizer words letters.txt
run 0 train letters.yaml data.kind=chat data.path=pairs.jsonl data.tokenizer=words run.name=pairs train.steps=30
run 0 generate pairs abc --count 9 --temperature 0
[ "$(cat out)" = 'abc def' ] || fail "with data.tokenizer: $(cat out)"
lacks err 'chat template'
run 0 export pairs with_words # its tokenizer goes with it
run 0 generate with_words abc --count 9 --temperature 0
[ "$(cat out)" = 'abc def' ] || fail "exported with its tokenizer: $(cat out)"

# One that was trained on conversations is asked by the same template: a message, or whole conversations.
for i in $(seq 40); do echo '{"messages": [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "def gh"}]}'; done >talks.jsonl
run 0 train letters.yaml data.kind=chat data.path=talks.jsonl data.tokenizer=words 'data.template=["{role}: {content}{eos}{end}\n"]' \
  data.context=40 run.name=talks train.steps=150
has out '^next +frugal generate talks.safetensors "TEXT" --chat$'
run 0 generate talks abc --chat --temperature 0
[ "$(cat out)" = 'def gh' ] || fail "--chat: $(cat out)"
run 0 generate talks abc --temperature 0 --count 2
has err '^the model has a chat template: --chat asks it'
echo '{"messages": [{"role": "user", "content": "abc"}]}' >asked.jsonl
run 0 generate talks @asked.jsonl --temperature 0 --json
has out '^\{"event":"generated","prompt":"abc","text":"def gh","tokens":[0-9]+,"ended":"end",'
run 2 generate talks @talks.jsonl
has err '^talks.jsonl:1: the last message is an answer: there is none to give$'
run 2 generate letters abc --chat
has err 'which tokenizer|no chat_template'

# Mistakes.
run 2 evaluate nothing
has err 'nothing is neither a file, a folder nor a run'
mkdir -p bare step
run 2 evaluate bare
has err '^bare is a folder without config.json; give a Hugging Face folder'
: >step/weights.safetensors
run 2 evaluate step
has err '^step is a checkpoint without a manifest.json, so it is not complete'
ledger=$FRUGAL_RUN_LEDGER
FRUGAL_RUN_LEDGER=none
run 2 evaluate bare
has err '^bare is a folder without config.json'
run 2 evaluate nothing
has err '^nothing is no file, and there is no ledger of runs$'
FRUGAL_RUN_LEDGER=$ledger
run 2 evaluate
has err 'which model'
run 2 generate last
has err 'expected a model and a text'
run 2 generate last ''
has err 'the text is empty'
run 2 generate letters 'abcdefghabcdefghabcdefgh'
has err 'the text has 24 tokens, and the model reads at most 16'
run 2 generate mine 'abc'
has err 'kind layers does not predict tokens'
run 2 predict letters
has err 'predicts tokens, not classes'
run 2 generate last abc --temperature hot
has err 'takes a number from 0'
for wrong in '--count 2.5' '--count 0' '--top_k 1.5' '--seed -1' '--seed 99999999999999999999'; do
  run 2 generate last abc $wrong
  has err "^${wrong%% *} takes a whole number from [01] to [0-9]+, not ${wrong#* }\$"
done
head -c 3 /dev/zero >bad.safetensors
run 2 evaluate bad.safetensors
has err 'too few for a safetensors file'
rm letters.safetensors
run 2 generate letters abc
has err 'which is not there; start frugal in the folder where it was trained'

# What is said to be typed next is a command of the shell, whatever the file is called.
run 0 train shapes.yaml train.epochs=1 train.out="it's one"
has out "^next +frugal predict 'it'\\\\''s one'\$"
exit $failed
