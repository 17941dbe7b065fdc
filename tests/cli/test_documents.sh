#!/bin/sh
# test_documents.sh: documents that attention does not cross, and windows, as a user sees them: the separator is found beside the
# file of tokens, the same bits come after a restart, and mistakes are answered.
. "$(dirname "$0")/common.sh"

# Texts of 1 to 60 words out of 40.
i=0
mkdir texts
while [ $i -lt 60 ]; do
  awk -v seed="$i" 'BEGIN { srand(seed + 1); for (n = 1 + int(60 * rand()); n > 0; n--) printf "word%d ", int(40 * rand()) }' >"texts/$i.txt"
  i=$((i + 1))
done
run 0 tokenize --train 300 --tokenizer mine texts
run 0 tokenize --tokenizer mine --out corpus.bin texts
has corpus.bin.json '"separator":0'
cat >run.yaml <<END
data: {path: corpus.bin, context: 48, documents: separate, eval_samples: 20}
model: {kind: gpt, depth: 2, width: 32, heads: 2, positions: rotary, window: 20}
train: {optimiser: adamw, lr: 0.001, batch: 16, steps: 30, eval_every: 15, schedule: constant, device: cpu}
END
run 0 train run.yaml train.out=whole
run 0 train run.yaml train.out=half train.steps=11 checkpoint.dir=kept checkpoint.every=11
run 0 train run.yaml train.out=rest checkpoint.dir=kept checkpoint.every=11
has err 'step 11'
same_numbers whole rest || fail "a run that was resumed has other weights"
run 0 train run.yaml train.out=crossed data.documents=cross
same_numbers whole crossed && fail "data.documents changed nothing"
run 0 train run.yaml train.out=wide model.window=0
same_numbers whole wide && fail "model.window changed nothing"
run 0 train run.yaml train.out=same model.window=0 data.documents=0
same_numbers wide same || fail "the separator's own number gave other weights"
run 2 train run.yaml checkpoint.dir=kept checkpoint.every=11 train.steps=60 model.window=21
has err 'model.window was 20 and is 21'

run 0 tokenize --tokenizer mine --out plain.bin --separator none texts
run 2 train run.yaml data.path=plain.bin
has err 'data.documents=separate: no file next to plain.bin says which token ends a document; give its number instead'
run 2 train run.yaml data.documents=300
has err 'data.documents=300 is not a token: the vocabulary has [0-9]+'
run 2 train run.yaml data.documents=some
has err 'data.documents'
i=0
while [ $i -lt 40 ]; do
  echo "line $i of a text"
  i=$((i + 1))
done >lines.txt
run 0 train run.yaml data.path=lines.txt data.documents=10 data.context=16 train.steps=2
exit $failed
