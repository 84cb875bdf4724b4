#!/bin/sh
# generated.sh check|write FILE PROGRAM [ARGUMENT...]: is FILE what PROGRAM prints? or: write it
set -eu
mode=$1 file=$2
shift 2
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
"$@" >"$fresh"
if [ "$mode" = write ]; then
  cmp -s "$fresh" "$file" || cp "$fresh" "$file"
elif ! diff -u "$file" "$fresh"; then
  echo "$file is stale; 'ninja -C build docs' writes it" >&2
  exit 1
fi
