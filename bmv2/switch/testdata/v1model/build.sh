#!/usr/bin/env bash
# Compiles the programs of this folder; needs p4c-bm2-ss and python3.
set -eu
cd "$(dirname "$0")"
for program in *.p4; do
    name=${program%.p4}
    case $name in first | rest) continue ;; esac
    p4c-bm2-ss -o "$name.json" "$program"
    python3 -m json.tool --compact "$name.json" "$name.json.new"
    mv "$name.json.new" "$name.json"
done
