#!/bin/sh
# demo.sh SERVICE MODELS DIR: starts the program SERVICE on the .tflite files of MODELS twice, cold and warm, with its
# cache in DIR, and shows what it answers.
set -eu
service=$1 models=$2 dir=$3
cache=$dir/models.xpwc
pose=pose_landmark_lite hand=hand_landmark_full third=pose_landmark_heavy
mkdir -p "$dir"
rm -f "$cache" "$dir/loaded" "$dir/times"
export no_proxy='*' # the service is on this machine
trap 'exit 1' HUP INT TERM

# start returns when the service serves: its address is then in url. The models follow.
start() {
	echo "\$ service -cache $cache -models $models $*"
	: >"$dir/output"
	"$service" -addr localhost:0 -cache "$cache" -models "$models" "$@" >"$dir/output" &
	pid=$!
	trap 'kill $pid 2>/dev/null && wait $pid' EXIT
	until url=$(sed -n 's/^serving on //p' "$dir/output") && [ "$url" ]; do
		kill -0 $pid 2>/dev/null
		sleep 0.1
	done
	cat "$dir/output"
}

stop() {
	trap - EXIT
	kill $pid
	wait $pid
}

# request posts something to a path: the answer goes into a file, and the time that it took to standard output.
request() {
	curl -fsS -X POST --data-binary "@$2" -o "$3" -w '%{size_download} bytes in %{time_total} s\n' "$url/models/$1"
}

# infer NAME WIDTH START computes a black picture, which is as high as it is wide.
infer() {
	head -c $((4 * $2 * $2 * 3)) /dev/zero >"$dir/$1.f32"
	echo "\$ curl -X POST --data-binary @$1.f32 $url/models/$1/infer"
	request "$1/infer" "$dir/$1.f32" "$dir/$1.$3"
}

echo "Cold: two models are packed into $cache, and a third while they are served."
echo
start $pose $hand
infer $pose 256 cold
infer $hand 224 cold
echo "\$ curl -X POST $url/models/$third"
{
	request $third /dev/null "$dir/loaded.json"
	touch "$dir/loaded"
} &
loading=$!
until [ -e "$dir/loaded" ]; do
	kill -0 $loading 2>/dev/null
	request $pose/infer "$dir/$pose.f32" "$dir/meanwhile" >>"$dir/times"
done
wait $loading
echo "meanwhile $(wc -l <"$dir/times") requests of $pose were answered, the slowest in $(cut -d' ' -f4 "$dir/times" | sort -n | tail -1) s"
infer $third 256 cold
stop

echo
echo "Warm: all three are mapped."
echo
start $pose $hand $third
infer $pose 256 warm
infer $hand 224 warm
infer $third 256 warm
echo "\$ curl $url/metrics"
curl -fsS "$url/metrics" | grep -E '^xpwc_(lookup_hits_total|packed_entries_total|file_written_bytes_total)'
stop
for name in $pose $hand $third; do
	cmp "$dir/$name.cold" "$dir/$name.warm"
done
echo
echo "The answers of both starts are identical bit for bit."
