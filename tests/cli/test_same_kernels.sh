#!/bin/bash
# test_same_kernels.sh: cmake/cuda.cmake gives the same bits in whatever folder it is used: two small kernels and the module
# linked of them, built in two folders whose names differ in length. Both have what no other file may see, which is where nvcc
# makes names up: of the source's path and of an external name beside it or, in the file that has none, of the process's number.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }

# project FOLDER: as much of ours as the file includes.
project() {
  mkdir -p "$1/cmake" "$1/src/backend/cuda/module" "$1/bench/gpu" "$1/build"
  cp cmake/cuda.cmake "$1/cmake"
  echo 'int main(void) { return 0; }' >"$1/bench/gpu/attention.c"
  echo 'extern const int shared; const int shared = 0;' >"$1/build/shared.c"
  echo 'extern const int tuning; const int tuning = 0;' >"$1/src/backend/cuda/tuning.c"
  cat >"$1/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(same C)
include(GNUInstallDirs)
add_library(frugal STATIC src/backend/cuda/tuning.c)
add_library(frugal_flags INTERFACE)
include(cmake/cuda.cmake)
END
  cat >"$1/src/backend/cuda/module/alone.cu" <<'END'
namespace { __device__ int kept[4]; }
static __global__ void keep(const int *from) { kept[threadIdx.x] = *from; }
static struct at_load {
    at_load() { keep<<<1, 4>>>(0); }
} at_load;
END
  cat >"$1/src/backend/cuda/module/named.cu" <<'END'
namespace { __device__ int kept[4]; }
__global__ void keep_named(const int *from) { kept[threadIdx.x] = *from; }
extern "C" __attribute__((visibility("default"))) void launch_named(const int *from) { keep_named<<<1, 4>>>(from); }
END
  cmake -S "$1" -B "$1/build" -DFRUGAL_CUDA_ARCHS=80 -DFRUGAL_CUDA_LINES=OFF -DCMAKE_C_COMPILER_LAUNCHER= >"$work/log" 2>&1 || { cat "$work/log"; fail "cmake"; }
  if grep '^-- cuda: not built' "$work/log"; then exit 77; fi
  cmake --build "$1/build" --target frugal_cuda >"$work/log" 2>&1 || { cat "$work/log"; fail "$1 is not built"; }
}

one=$work/one two=$work/another-folder/whose-name/is-longer
project "$one"
project "$two"
for file in cuda/alone.o cuda/named.o frugal_cuda.so; do
  cmp "$one/build/$file" "$two/build/$file" || fail "$file depends on its folder"
  ! grep -aqF "$work" "$one/build/$file" || fail "the name of the folder is in $file"
done
# What the test is about is there at all.
for name in alone named; do
  grep -aq "_${name}_cu_" "$one/build/cuda/$name.o" || fail "nvcc made no name up in $name.o: this test shows nothing"
done
exit $failed
