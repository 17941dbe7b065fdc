#!/bin/sh
# test_tokenize.sh: frugal tokenize as one uses it: a vocabulary of one's own, tokens, more of them, a run on them.
. "$(dirname "$0")/common.sh"
top_text=$top/docs/formats/data.md

run 0 tokenize --train 400 --tokenizer mine --out text.bin "$top_text"
has out 'mine  400 tokens'
has out 'text.bin  [0-9,]+ tokens, [0-9.]+ bytes each'
has out 'data.path=text.bin data.token_type=u16 data.vocabulary=400'
for file in mine/vocab.json mine/merges.txt mine/tokenizer.json text.bin text.bin.json; do
  [ -s $file ] || fail "no $file"
done
[ ! -e text.bin.parts ] || fail "text.bin.parts is left"

# a document of its own, packed, behind what is there; the first part stays as it was
gzip -c "$top/LICENSE" >licence.gz
cp text.bin first.bin
run 0 tokenize --tokenizer mine --out text.bin --append --json licence.gz
has out '"event":"tokenized".*"documents":1'
cmp -n "$(wc -c <first.bin)" first.bin text.bin || fail "what was there has changed"
run 0 tokenize --tokenizer mine/vocab.json --out both.bin "$top_text" licence.gz --threads 3
cmp both.bin text.bin || fail "appending gives other tokens than one command"

# what the command advises is what trains on it: an example that reads text is told apart
small="data.context=16 train.steps=2 model.depth=1 model.width=16 model.heads=1 train.batch=2 train.eval_every=0"
run 2 train "$top/examples/gpt.yaml" data.path=text.bin $small
has err '^text.bin holds tokens according to text.bin.json, and data.kind=text reads bytes; set data.kind=tokens$'
cp text.bin theirs.bin # as another program leaves it, without a file beside it
run 2 train "$top/examples/gpt.yaml" data.path=theirs.bin $small
has err '^theirs.bin holds tokens, and data.kind=text reads bytes; set data.kind=tokens$'
cp text.bin theirs # not even called so: refused where nobody chose text, else a warning
run 2 train "$top/examples/gpt.yaml" data.path=theirs data.kind=auto $small
has err '^theirs holds zero bytes, which no text has: set data.kind=tokens if it holds tokens, or data.kind=text to train on its bytes$'
run 0 train "$top/examples/gpt.yaml" data.path=theirs $small
has err '^warning: data.path has zero bytes, .* data.kind=tokens reads them .text_is_binary.$'
run 0 tokenize --tokenizer mine --out advised.bin "$top_text"
advice=$(sed -n 's/.*train on it with //p' out)
run 0 train "$top/examples/gpt.yaml" $advice $small

# a folder is its files, by name
mkdir -p folder/b && cp "$top_text" folder/a.md && cp "$top/LICENSE" folder/b/c
run 0 tokenize --tokenizer mine --out folder.bin folder
cmp folder.bin both.bin || fail "a folder gives other tokens than its files"

# the same command again, as after a kill at its very end, adds nothing
run 0 tokenize --tokenizer mine --out text.bin --append licence.gz
has err 'an earlier run of this command had already done all of this'
cmp both.bin text.bin || fail "the same command appended twice"

run 2 tokenize "$top_text"
has err 'expected --tokenizer, and --out or --train'
run 2 tokenize --tokenizer mine --out text.bin "$top_text"
has err 'text.bin already exists; --append adds to it'
run 2 tokenize --train 400 --tokenizer mine "$top_text"
has err 'holds a tokenizer already'
run 2 tokenize --train 200 --tokenizer other "$top_text"
has err 'train 200: a vocabulary has 257 to [0-9]* tokens'
run 2 tokenize --tokenizer mine --out x.bin --separator '<x>' "$top_text"
has err '--separator <x> is not one of'
run 3 tokenize --tokenizer mine --out x.bin no-such-text
has err 'no-such-text'
mkdir older
: >older/vocab.txt
run 2 tokenize --tokenizer older --out x.bin "$top_text"
has err '^older has its tokenizer in vocab.txt and lacks tokenizer.json; write it: python'
run 2 tokenize --tokenizer . --out x.bin "$top_text"
has err 'neither tokenizer.json'
run 2 tokenize --tokenizer mine --out x.bin --threads 0 "$top_text"
has err '--threads takes a whole number'
[ ! -e x.bin ] && [ ! -e x.bin.parts ] || fail "something of x.bin is left"

printf 'abc\377def' >spoilt.txt
run 0 tokenize --tokenizer mine --out spoilt.bin spoilt.txt
has err '1 places are not UTF-8'
exit $failed
