#!/bin/sh
# Compiles the scheduler: build.sh OUTPUT. Needs clang (CLANG, else clang-19) and bpftool, which
# strips the debugging information but for BTF. The same versions give the same bytes.
set -eu

output=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$here"
"${CLANG-clang-19}" --target=bpfel -mcpu=v3 -g -O2 -Wall -Wextra -Werror -Wno-unused-parameter \
    -fdebug-compilation-dir=. -c memweir.bpf.c -o "$scratch/memweir.bpf.o"
/usr/sbin/bpftool gen object "$output" "$scratch/memweir.bpf.o"
