#!/bin/sh
# demo.sh BIN DIR PROGRAM.pte [DATA.ptd...]: runs the program in the stock ExecuTorch, BIN/host, without a cache, with its
# own, cold and warm, and with a file that BIN/xpwc packed ahead of time. The caches are in DIR. The program's inputs are in
# PROGRAM.in*.npy, if there are such files.
set -eu
bin=$1 dir=$2 program=$3
shift 2
mkdir -p "$dir"
rm -f "$dir/own.packed_cache"
"$bin/xpwc" pack "$@" --for executorch --cpu native -o "$dir/ahead.packed_cache"
for input in "${program%.pte}".in*.npy; do
	[ ! -e "$input" ] || set -- "$@" --input "$input"
done

# run NAME TITLE, and then the host's arguments. The outputs are those of the first run.
run() {
	outputs=$dir/$1
	printf '\n%s\n' "$2"
	shift 2
	rm -rf "$outputs"
	mkdir "$outputs"
	if ! "$bin/host" "$@" --output-dir "$outputs" 2>"$dir/log"; then
		cat "$dir/log" >&2
		exit 1
	fi
	diff -r "$dir/none" "$outputs"
}

run none 'no cache' "$@"
run cold 'its cache, cold' "$@" --cache "$dir/own.packed_cache"
run warm 'its cache, warm' "$@" --cache "$dir/own.packed_cache"
run ahead 'packed ahead' "$@" --cache "$dir/ahead.packed_cache"
echo
echo "The outputs of all four are identical bit for bit."
