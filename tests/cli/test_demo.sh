#!/bin/bash
# test_demo.sh: what ./demo chooses: the data set or its own text, the GPU or the processor. The choices are
# watched in a folder where everything that demo calls is made up; the text is then trained on for real.
# check: alone, it may link the program that others run
. "$(dirname "$0")/common.sh"

mkdir -p bin scripts build src/base data examples
cp "$top/demo" .
echo 'int x;' >src/base/x.c
echo '  usd_hour: 0.25 # the price of an hour is in this file alone' >examples/fashion.yaml
for tool in sh sed tr head grep cat dirname env touch; do ln -s "$(type -P $tool)" bin/; done
program() { printf '#!/bin/sh\n%s\n' "$2" >"$1"; chmod +x "$1"; }
program scripts/setup 'exit 0'
program scripts/build 'echo "build $TARGET $*" >>log
[ "$TARGET $*" != "frugal_program build" ] || [ ! -e warns ] || exit 1
[ "$TARGET" != frugal_cuda ] || [ -e works ]'
program build/frugal 'echo "built $*" >>log'

# demo SENTENCE LINE...: runs it; it says the sentence (none: -), and calls something that matches each line.
demo() {
  local sentence=$1 line
  shift
  rm -f log
  PATH=$PWD/bin CUDA_HOME=/nowhere FASHION_MNIST=$PWD/data ./demo >out 2>err || fail "demo: exit $?"
  if [ "$sentence" = - ]; then [ ! -s err ] || fail "demo said something"; else has err "$sentence"; fi
  for line; do has log "$line"; done
}
gpu() { program bin/nvidia-smi "[ \"\$1\" = --query-gpu=compute_cap ] && echo '$1'"; }

# The data set, and each way not to have it.
for part in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  demo 'a small GPT learns' '^built train examples/gpt.yaml data.path=build/demo.txt.* train.usd_hour=0.25$'
  : >data/$part-ubyte.gz
done
demo - '^built train examples/fashion.yaml data.path=.*/data/train-images-idx3-ubyte.gz' 'data.eval_labels=.*/data/t10k-labels'
lacks log frugal_cuda
program bin/nvidia-smi 'echo "NVIDIA-SMI has failed because it could not reach the driver."; exit 9'
demo - '^built train'
lacks log frugal_cuda

# The options of a build that is there stay, unless its warnings are errors and it has some.
: >build/CMakeCache.txt
demo - '^build frugal_program build$' '^built train'
lacks log WERROR
: >warns
demo - '^build frugal_program build$' '^build frugal_program build -DFRUGAL_WERROR=OFF$' '^built train'
rm build/CMakeCache.txt
demo - '^build frugal_program build -DFRUGAL_WERROR=OFF$' '^built train'
rm warns

# A GPU without nvcc: a sentence, or the installed program that has the module.
gpu 9.0
demo 'no nvcc: install' '^built train'
lacks log frugal_cuda
program bin/frugal 'if [ $1 = doctor ]; then echo "{\"gpus\":[]}"; else echo "installed $*" >>log; fi'
demo 'no nvcc: install' '^built train'
program bin/frugal 'if [ $1 = doctor ]; then echo "{\"gpus\":[\"H200\"]}"; else echo "installed $*" >>log; fi'
demo 'bin/frugal, which is installed' '^installed train examples/fashion.yaml.* train.usd_hour=none'
rm bin/frugal

# A GPU and nvcc: the module for that GPU alone; where it does not build, the processor.
program bin/nvcc 'exit 1'
demo 'could not be built' '^built train.* train.usd_hour=0.25$'
: >works
while read -r capability arch; do
  gpu "$capability"
  demo "building the CUDA module for compute capability $capability" "^build frugal_cuda build .*ARCHS=$arch\$" '^built train.* train.usd_hour=none'
  lacks err 'could not'
done <<'END'
8.0 80
8.6 86
9.0 90a
10.0 100
12.0 120
END

# A module that is there is brought up to date, for the GPUs that it was built for; make has nothing to do where it is.
: >build/frugal_cuda.so
gpu 9.0
demo 'What an hour of this GPU costs' '^build frugal_cuda build -DFRUGAL_CUDA=AUTO$' '^built train.* train.usd_hour=none'
lacks err 'building'
rm works
demo 'could not be built' '^built train.* train.device=cpu train.usd_hour=0.25$'
rm bin/nvcc
demo 'What an hour of this GPU costs' '^built train.* train.usd_hour=none'
rm build/frugal_cuda.so
program bin/nvcc 'exit 1'
: >works
gpu 7.5
demo 'need 8.0' '^built train'
lacks log frugal_cuda

# For real.
[ "$frugal" = "$top/build/frugal" ] || exit $failed
FASHION_MNIST=$folder/none "$top/demo" >out 2>err || fail "demo without the data set: exit $?"
has err "^Fashion-MNIST is not in $folder/none: a small GPT learns"
has out '^target +reached$'
has out '^What to try next'
exit $failed
