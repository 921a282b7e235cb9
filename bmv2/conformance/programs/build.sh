#!/usr/bin/env bash
# Compiles the programs of this folder into build/; needs p4c-bm2-ss.
set -eu
cd "$(dirname "$0")"
mkdir -p build
for program in *.p4; do
    name=${program%.p4}
    [ "$name" = common ] && continue
    p4c-bm2-ss --p4runtime-files "build/$name.p4info.txtpb" -o "build/$name.json" "$program"
done
