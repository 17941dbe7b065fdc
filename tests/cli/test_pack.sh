#!/bin/sh
# test_pack.sh: frugal pack makes shards that tar and Python read, continues after a kill, and says what it traded.
. "$(dirname "$0")/common.sh"

mkdir -p photos/ant 'photos/big bee' made
i=0
while [ $i -lt 60 ]; do
  class=ant
  [ $((i % 3)) = 0 ] && class='big bee'
  head -c $((3000 + i * 17)) /dev/urandom >"photos/$class/im.$i.JPG"
  i=$((i + 1))
done

run 0 pack photos --to made/a --shard-bytes 50e3
has out '^made/a-\{000000\.\.0000[0-9]*\}\.tar: 60 samples in [0-9]+ shards$'
has out '^bytes +[0-9.]+ kB in files -> [0-9.]+ kB in shards'
has out '^reading '
tar tf made/a-000000.tar >names || fail 'tar does not read a shard'
has names '^(ant|big bee)/im_[0-9]+\.jpg$'
has names '\.cls$'
cat photos/*/* | wc -c >in
for shard in made/a-*.tar; do tar xOf "$shard" --wildcards '*.jpg'; done | wc -c >back
cmp -s in back || fail 'the shards hold other bytes than the folder'

sums() { for s in "made/$1"-*.tar; do sha256sum <"$s"; done; }
sums a >first
run 0 pack photos --to made/b --shard-bytes 50e3 --json
has out '^\{"event":"packed","path":"made/b-\{.*"samples":60,.*"shards_before":0,'
sums b >second
cmp -s first second || fail 'the same folder gives other shards'
rm made/b-000001.tar made/b-000003.tar* # as a kill would leave it
run 0 pack photos --to made/b --shard-bytes 50e3 --json
lacks out '"shards_before":0,'
sums b >second
cmp -s first second || fail 'what was packed again differs'

run 2 pack photos --to made/a --shard-bytes 60e3
has err 'made/a-000000.tar exists'
run 2 pack photos
has err '--to PREFIX'
run 2 pack --to made/x
run 2 pack photos --to made/x --quality 80
has err '--size'
run 2 pack photos --to made/x --shard-bytes none
run 3 pack nowhere --to made/x
mkdir empty
run 2 pack empty --to made/x
has err 'no sample'
run 2 pack photos --to made/x --size 64
has err 'im.*JPG' # which is no JPEG, and named
exit $failed
