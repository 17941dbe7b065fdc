#!/bin/sh
# test_predict.sh: frugal predict MODEL < rows: a ranker's rows, texts, pictures; answers while the pipe is open; bad rows.
. "$(dirname "$0")/common.sh"
export FRUGAL_RUN_LEDGER="$folder/ledger"

# given CODE ARGUMENT...: as run, with the file `rows` on standard input.
given() {
  code=$1
  shift
  "$frugal" "$@" <rows >out 2>err
  rc=$?
  [ $rc = "$code" ] || fail "frugal $* < rows: exit $rc, not $code"
}

# A ranker: the same answers as of the held-out rows of its file, from CSV without the label and from JSON lines.
{ echo "clicked,price,city"
  for i in $(seq 400); do
    case $((i % 4)) in 0) echo "1,0.$i,Oslo" ;; 1) echo "0,-0.$i,Rome" ;; 2) echo "1,,Oslo" ;; 3) echo "0,0.5,Paris" ;; esac
  done; } >clicks.csv
cat >clicks.yaml <<END
data: {path: clicks.csv, label: clicked, numeric: [price], categorical: [city], buckets: 100, held_out: 0.25}
model: {kind: ranker}
train: {epochs: 3, batch: 16, lr: 0.05, eval_batch: 7}
END
run 0 train clicks.yaml
run 0 predict clicks
mv out held
for command in evaluate predict; do
  run 2 $command clicks data.held_out=0
  has err '^there are no samples to evaluate: give data.eval_path, or data.held_out above 0$'
done
[ "$(wc -l <held)" = 100 ] || fail "not 100 held-out rows"
mv clicks.csv away.csv # the training data are not needed
{ echo "city,other,price"; tail -n 100 away.csv | awk -F, '{ print $3 ",x," $2 }'; } >rows
given 0 predict clicks.safetensors
same() { # numbers and classes are equal; probabilities but for the order of sums in another batch, 1e-5 of f32
  paste held out | awk -F'\t' 'NF != 6 || $1 != $4 || $2 != $5 || ($3 - $6) ^ 2 > 1e-10 { bad++ } END { exit bad > 0 || NR != 100 }' ||
    fail "other answers from $1"
}
same csv
has err '^rows +from standard input$'
tail -n 100 away.csv | awk -F, '{ print "{\"city\": \"" $3 "\", \"price\": " ($2 == "" ? "null" : "\"" $2 "\"") "}" }' >rows
given 0 predict clicks.safetensors train.eval_batch=1
same json
given 0 predict clicks --json
has out '^\{"event":"prediction","sample":99,"class":[01],"probability":0?\.?[0-9e.-]+\}$'
: >rows
given 0 predict clicks
[ -s out ] && fail "answers to nothing"

# Each answer comes while the pipe is open, and the row behind it has not been written.
mkfifo in answers
"$frugal" predict clicks <in >answers 2>err &
pid=$!
exec 3>in 4<answers
echo "city,price" >&3
for i in 0 1 2; do
  echo "Oslo,$i" >&3
  read -r number class probability <&4
  [ "$number" = $i ] || fail "answer $number of $class $probability to row $i"
done
exec 3>&-
wait $pid || fail "exit $? at the end of the pipe"
exec 4<&-

# A bad row: the ones before it are answered, its line is named, exit 2.
printf 'city,price\nOslo,1\n\nRome,cheap\nOslo,2\n' >rows
given 2 predict clicks
has err '^standard input:4: "cheap" in column "price" is not a number$'
[ "$(wc -l <out)" = 1 ] || fail "the row before a bad one was not answered, or one behind it was"
echo 'city,cost' >rows
given 2 predict clicks
has err '^standard input: the header has no column "price"$'
head -c 1100000 /dev/zero | tr '\0' x >rows
given 2 predict clicks
has err 'a line has more than 1048576 bytes'
mv away.csv clicks.csv
printf 'city,price\nOslo,1\n' >rows
given 0 predict clicks data.eval_path=clicks.csv # which is what was asked for
[ "$(wc -l <out)" = 400 ] || fail "data.eval_path and standard input were mixed up"

# Lines of text, of one file a class.
for i in $(seq 60); do echo "aaa b$i"; done >a.txt
for i in $(seq 60); do echo "zzz b$i"; done >z.txt
cat >letters.yaml <<END
data: {files: [a.txt, z.txt], context: 12}
model: {kind: encoder, depth: 1, width: 16, heads: 2}
train: {epochs: 12, batch: 8, optimiser: adamw, lr: 0.01}
END
run 0 train letters.yaml
rm a.txt z.txt
printf 'aaa b5\nzzz b5\r\nzzz b17 and more than the model reads\naaa\n' >rows
given 0 predict letters
[ "$(cut -f 2 out | tr -d '\n')" = azza ] || fail "classes of lines: $(cut -f 2 out | tr '\n' ' ')"

# Pictures, by their paths.
four_classes
cat >shapes.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: {units: 8, activation: relu}}, {dense: 4}]}
train: {epochs: 20, lr: 0.01}
END
run 0 train shapes.yaml
# 2x2 grey PNGs, the pixel of class 1 and of class 2 bright.
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\002\010\000\000\000\000\127\335\122\370\000\000\000\016\111\104\101\124\170\234\143\140\370\317\300\300\000\000\004\002\001\000\220\162\026\164\000\000\000\000\111\105\116\104\256\102\140\202' >one.png
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\002\010\000\000\000\000\127\335\122\370\000\000\000\016\111\104\101\124\170\234\143\140\140\140\370\317\000\000\002\004\001\000\370\225\210\033\000\000\000\000\111\105\116\104\256\102\140\202' >two.png
printf 'two.png\none.png\ntwo.png\n' >rows
given 0 predict shapes
[ "$(cut -f 2 out | tr -d '\n')" = 212 ] || fail "classes of pictures: $(cut -f 2 out | tr '\n' ' ')"
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\001\000\000\000\003\010\000\000\000\000\167\266\072\136\000\000\000\016\111\104\101\124\170\234\143\140\144\140\142\140\006\000\000\024\000\007\031\324\017\333\000\000\000\000\111\105\116\104\256\102\140\202' >tall.png
echo tall.png | "$frugal" predict shapes >out 2>err
[ $? = 2 ] || fail "a picture of another size: not exit 2"
has err '^standard input:1: tall.png has 3x1 pixels, and the model sees 2x2 with 1 channels$'
mkdir -p folder/first folder/second
for i in $(seq 20); do cp one.png folder/first/$i.png; cp two.png folder/second/$i.png; done
cat >photos.yaml <<END
data: {path: folder, image_size: 2, image_colour: false, held_out: 0.2}
model: {layers: [flatten, {dense: {units: 8, activation: relu}}, {dense: 2}]}
train: {epochs: 30, batch: 4, lr: 0.01}
END
run 0 train photos.yaml
"$frugal" predict photos >out 2>err </dev/null
[ "$(cut -f 2 out | sort | tr '\n' ' ')" = "first first first first second second second second " ] || fail "held-out photos: $(cut -f 2 out | tr '\n' ' ')"
run 0 evaluate photos
has out '^  class 1 +0 +4  second$'
mkdir -p other # of as many classes, and others
cp -r folder/second other/first
cp -r folder/first other/alone
run 2 evaluate photos data.path=other
has err '^other: class 0 is alone, and the model.s is first; the subfolders must have the names'
run 2 train photos.yaml data.held_out=default data.eval_path=other train.out=none
has err '^other: class 0 is alone, and the model.s is first'
rm -r folder # the weights know the names of the classes
for model in photos photos.safetensors; do
  given 0 predict $model
  [ "$(cut -f 2 out | tr '\n' ' ')" = "second first second " ] || fail "classes of photos: $(cut -f 2 out | tr '\n' ' ')"
done
given 0 predict photos --json
has out '^\{"event":"prediction","sample":0,"class":1,"name":"second","probability":[0-9.]+\}$'
run 3 evaluate photos
has err 'folder'
for model in shapes photos; do
  printf 'one.png\nmissing.png\n' >rows
  given 3 predict $model
  has err '^standard input:2: .*missing.png'
  [ "$(wc -l <out)" = 1 ] || fail "$model: the picture before a missing one has no answer"
  echo labels >rows
  given 2 predict $model
  has err '^standard input:1: labels'
done
exit $failed
