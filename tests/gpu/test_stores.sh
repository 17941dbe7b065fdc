#!/bin/sh
# test_stores.sh NVCC: kernels that move packs of 16 bytes store them as such (store_words of device.cuh says what happens otherwise).
nvcc=$1
out=$(mktemp -d) || exit 3
trap 'rm -rf "$out"' EXIT
# wide FILE KERNEL: of FILE's kernels with KERNEL in their names, every store is of 16 bytes, and there are some.
wide() {
  [ -e "$out/$1.ptx" ] || "$nvcc" -std=c++17 -O3 -arch=compute_80 -Isrc -D_Noreturn= -D_Static_assert=static_assert -ptx \
    "src/backend/cuda/module/$1.cu" -o "$out/$1.ptx" || exit 3
  awk -v kernel="$2" '/\.entry/ { inside = $0 ~ kernel } inside && /st\.global/ { if (/\.v4\./) wide++; else { print kernel ":" $0; narrow++ } }
    END { exit !(wide > 0 && narrow == 0) }' "$out/$1.ptx" || { echo "FAILED: $1.cu, $2"; exit 1; }
}
wide map swiglu_packs
wide map swiglu_grad_packs
wide batchnorm normaliseILi8
wide batchnorm batchnorm_dxILi8
wide image pool_gradILi8
wide image poolILi8
wide heads rope_runs
