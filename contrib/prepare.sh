# Sourced by the scripts beside it: Debian packages, where they come from, and a
# copy of the sources in which everything generated is left behind.  $sudo may be
# set.
# shellcheck shell=sh

# need_packages PACKAGE...: installs what is missing, or says what to install.
need_packages() {
	if ! command -v dpkg-query >/dev/null; then
		echo "not a Debian system, which has all of this: $*" >&2
		return 0
	fi
	installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" \
	    2>/dev/null | sed -n 's/ installed$//p')
	missing=
	for package; do
		echo "$installed" | grep -qxF -e "$package" ||
		    missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" -ne 0 ] && [ -z "${sudo:-}" ]; then
		echo "packages are missing, run: sudo apt-get install$missing" >&2
		return 1
	fi
	echo "installing$missing" >&2
	# shellcheck disable=SC2086
	${sudo:-} apt-get update >&2 &&
	    ${sudo:-} env DEBIAN_FRONTEND=noninteractive apt-get install -y \
		--no-install-recommends $missing >&2
}

# copy_sources FROM TO: TO is made, with what autoreconf(1) sets up.
copy_sources() {
	mkdir "$2" &&
	    tar -C "$1" -cf "$2.tar" --exclude='*.[ao]' --exclude='*.l[ao]' \
		--exclude='*.log' --exclude='*.trs' --exclude=.libs \
		--exclude=.deps --exclude=.dirstamp --exclude=src/leaserun \
		.ci .clang-format .gitignore COPYING Makefile.am README \
		configure.ac backends contrib man src tests &&
	    tar -C "$2" -xf "$2.tar" && rm "$2.tar" &&
	    (cd "$2" && autoreconf -fi) >&2
}

# debian_mirror: "URL SUITE", from which this machine installs its Debian.
debian_mirror() {
	# shellcheck disable=SC1091,SC2154
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(COMPONENT) $(REPO_URI) $(CODENAME)' \
	    'Created-By: Packages' 'Origin: Debian' |
	    sed -n "s/^main \\(.* $suite\\)\$/\\1/p" | head -n 1 | grep . || {
		echo "apt has no source of '$suite' on this machine" >&2
		return 1
	}
}
