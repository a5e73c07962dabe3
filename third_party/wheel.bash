# Fetches a pinned wheel from PyPI; fetch-* scripts read it with `source`. They set
#
#   name     of the script, for messages
#   project  on PyPI
#   pins     file with a line for each architecture: architecture, version, platform tag, SHA-256
#   arch     of the wheel
#   into     directory for what is kept
#   kept     what the stamp depends on besides the pin
#
# and define keep UNPACKED KEPT, which moves what is kept. Any Python 3 with pip will do: nothing of the wheel is run.

die() { echo "$name: $*" >&2; exit 1; }
say() { echo "third_party: $*" >&2; }

case $(uname -m) in x86_64) host=amd64 ;; aarch64) host=arm64 ;; *) host=$(uname -m) ;; esac

# fetch_wheel returns at once if what is pinned is there. The wheel's SHA-256 is checked before anything is unpacked.
fetch_wheel() {
	local version platform sum stamp new wheel
	read -r _ version platform sum < <(grep "^$arch " "$pins") || die "no pinned wheel for architecture $arch."
	stamp=$(echo "$arch $version $platform $sum${kept:+ $kept}" | sha256sum | cut -d' ' -f1)
	is_there() { [ "$(cat "$into/.stamp" 2>/dev/null)" = "$stamp" ]; }
	is_there && return

	python3 -m pip --version >/dev/null 2>&1 || die "python3 with pip is missing; install it to fetch $project."

	# One fetch at a time: a make that was killed may have left one running.
	exec 9>"$(dirname "$into")/.lock-$(basename "$into")"
	flock 9
	is_there && return

	new=$into.new
	rm -rf "$new"
	mkdir -p "$new/wheel" "$new/unpacked" "$new/kept/lib"
	say "fetching $project $version"
	python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
		--platform "$platform" --python-version 311 --implementation cp --abi cp311 --dest "$new/wheel" "$project==$version" >"$new/pip.log" 2>&1 ||
		{ cat "$new/pip.log" >&2; die "pip download $project==$version failed."; }
	wheel=$(find "$new/wheel" -name '*.whl')
	echo "$sum  $wheel" | sha256sum --check --quiet >&2 || die "$project $version does not have the pinned SHA-256; nothing was unpacked."

	python3 -m zipfile -e "$wheel" "$new/unpacked"
	find "$new"/unpacked/*-"$version.dist-info" -name LICENSE -exec mv {} "$new/kept/" \;
	keep "$new/unpacked" "$new/kept"
	echo "$stamp" >"$new/kept/.stamp"
	rm -rf "$into"
	mv "$new/kept" "$into"
	rm -rf "$new"
	say "$project is in third_party/$(basename "$into")"
}
