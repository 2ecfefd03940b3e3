# shellcheck shell=bash disable=SC2154
# A systemd of the test's own, or several, each a host: `load systemd'.  It is
# process 1 in namespaces and knows the units of contrib/systemd and no others.
# The folder HOST has its etc/leaserun, and var, which is its /var/lib.  All have
# the folder of the test as /var/lib/test, with the file store `state', and the
# test's programs in /etc/tests.  A test that uses it needs root.

declare -gA systemd=()

# unit_files DIR BINDIR: the units of contrib/systemd, as they are installed.
unit_files() {
	local file name

	for file in "$srcdir"/contrib/systemd/*.in; do
		name=${file##*/}
		sed "s,@bindir@,$2,g" "$file" >"$1/${name%.in}"
	done
	cp "$srcdir"/contrib/systemd/*.timer "$1"
}

# In a mount namespace: one control group for all, and the rest inside it.
first_script='
	set -e
	mount --make-rprivate /
	mount -t cgroup2 none cgroup
	mkdir "cgroup/$1"
	echo 0 >"cgroup/$1/cgroup.procs"
	umount cgroup
	exec unshare --cgroup --pid --uts --ipc --net --fork --kill-child \
	    sh -c "$2"'

# A unit with PrivateTmp sees nothing that is below /tmp.
second_script='
	set -e
	mount -t proc proc /proc
	mount -t cgroup2 none /sys/fs/cgroup
	mount --bind var /var/lib
	mount --bind .. /var/lib/test
	mount -t tmpfs none /run
	mkdir /run/upper /run/work
	mount -t overlay none -o \
	    lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
	rm -rf /etc/systemd /etc/leaserun /etc/leaserun.conf
	mkdir -p /etc/systemd/system /etc/leaserun /etc/bin /etc/tests
	mount --bind etc/leaserun /etc/leaserun
	mount --bind etc/systemd /etc/systemd
	mount --bind "${LEASERUN%/*}" /etc/bin
	mount --bind "$TESTS" /etc/tests
	cp leaserun.conf /etc
	echo "${PWD##*/}" >/etc/hostname
	exec env -i container=test TEST_MARK="$TEST_MARK" PATH="$PATH" \
	    SYSTEMD_UNIT_PATH=/etc/systemd/system \
	    SYSTEMD_GENERATOR_PATH=/nowhere SYSTEMD_LOG_TARGET=null \
	    /lib/systemd/systemd --system --unit=idle.target'

# start_systemd HOST: with all that the units ask for as an empty target.
# HOST/leaserun.conf is the configuration.
start_systemd() {
	local target units=$1/etc/systemd/system

	group=leaserun-test-$$-$BATS_TEST_NUMBER
	chmod 700 state
	mkdir -p "$1/cgroup" "$1/var/test" "$1/etc/leaserun" "$units"
	unit_files "$units" /etc/bin
	for target in idle sysinit basic shutdown timers multi-user \
	    network-online time-sync; do
		printf '[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n' \
		    >"$units/$target.target"
	done
	# What these two are is remembered as long as someone names them.
	echo 'After=leaserun@report.service leaserun-leader@web.service' \
	    >>"$units/idle.target"
	mkdir "$units/service.d"
	printf '[Service]\nStandardError=append:/var/lib/test/%s/err\n' "$1" \
	    >"$units/service.d/err.conf"
	printf '%s\n' "[Manager]" "DefaultEnvironment=\"TEST_MARK=$TEST_MARK\"" \
	    "DefaultEnvironment=\"ASAN_OPTIONS=${ASAN_OPTIONS:-}\"" \
	    >"$1/etc/systemd/system.conf"
	[ -e "$1/leaserun.conf" ] ||
	    echo 'backend = "file:/var/lib/test/state"' >"$1/leaserun.conf"
	bg env -C "$1" LEASERUN="$LEASERUN" TESTS="$builddir/tests" \
	    unshare --mount sh -c "$first_script" sh "$group-$1" "$second_script" >"$1/log" 2>&1
	starter=$!
	wait_until 30 find_systemd "$1" &&
	    wait_until 30 ctl "$1" is-active --quiet idle.target ||
	    { cat "$1/log"; return 1; }
}

find_systemd() {
	local pid

	pid=$(cat "/proc/$starter/task/$starter/children") &&
	    systemd[$1]=${pid% } && [ -n "$pid" ] &&
	    [ "$(cat "/proc/${systemd[$1]}/comm" 2>/dev/null)" = systemd ]
}

# inside HOST COMMAND...: where its systemd is process 1.
inside() {
	nsenter -t "${systemd[$1]}" --mount --pid --uts --ipc --net --cgroup \
	    -- "${@:2}" 3>&-
}

# ctl HOST ARG...: systemctl there.
ctl() {
	inside "$1" systemctl --no-pager "${@:2}"
}

# show HOST UNIT PROPERTY
show() {
	ctl "$1" show --value -p "$3" "$2"
}

# assert_unit HOST UNIT PROPERTY PATTERN: it is like that before long.
assert_unit() {
	wait_until 40 unit_has "$@" || { ctl "$1" status "$2"; cat "$1/err"; return 1; }
}

unit_has() {
	# shellcheck disable=SC2053
	[[ $(show "$1" "$2" "$3") == $4 ]]
}

# Control groups last longer than what was in them.
stop_systemd() {
	test_teardown
	[ -n "${group:-}" ] || return 0
	mkdir "$BATS_TEST_TMPDIR/cgroup"
	wait_until 20 remove_groups 2>"$BATS_TEST_TMPDIR/groups.log" ||
	    { cat "$BATS_TEST_TMPDIR/groups.log"; return 1; }
}

remove_groups() {
	unshare --mount sh -c 'mount -t cgroup2 none "$1" &&
	    find "$1" -depth -type d -path "$1/$2-*" -exec rmdir {} +' sh \
	    "$BATS_TEST_TMPDIR/cgroup" "$group"
}
