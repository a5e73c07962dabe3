# Fetches pinned packages of npm; fetch-* scripts read it with `source`. They set name, of the script, for messages.

die() { echo "$name: $*" >&2; exit 1; }
say() { echo "third_party: $*" >&2; }

# fetch_package PACKAGE VERSION INTEGRITY INTO PATTERN unpacks the files of a package that match into a directory, after
# its tarball's integrity (SHA-512) was checked.
fetch_package() {
	local package=$1 version=$2 integrity=$3 into=$4 pattern=$5 tool tarball sum
	for tool in npm tar openssl; do command -v "$tool" >/dev/null || die "$tool is missing; install it to fetch $package."; done
	say "fetching $package $version"
	tarball=$(cd "$into" && npm pack --silent --cache "$into/npm-cache" "$package@$version" 2>"$into/npm.log") ||
		{ cat "$into/npm.log" >&2; die "npm pack $package@$version failed."; }
	sum=sha512-$(openssl dgst -sha512 -binary "$into/$tarball" | openssl base64 -A)
	[ "$sum" = "$integrity" ] || die "$package $version does not have the pinned integrity; nothing was unpacked."
	tar -xzf "$into/$tarball" -C "$into" --wildcards "$pattern"
}
