# The recipes of contrib/ci, run by a shell that plays the runner: it starts the
# script of a step and cancels it as that runner does.

load helpers
load jobs

setup() {
	test_setup
	STORE=$BATS_TEST_TMPDIR/store
	mkdir store bin one two
	ln -s "$LEASERUN" bin/leaserun
	: >out
	PATH=$PWD/bin:$PATH
	# A lease that runs out, on a store that notes who was granted what.
	export LEASERUN_BACKEND=fake:$STORE
	cat >leaserun.conf <<-END
	module-dir = "$MODULES"
	ttl = 3s
	renew-every = 500ms
	grace = 500ms
	END
	deployment one tree ignore
	deployment two ticks=3
}

# deployment FOLDER WORD...: what ./deploy is there.
deployment() {
	# INT is what a runner may begin with.
	printf '#!/bin/sh\ntrap "" INT\nexec %q %q %s\n' "$PROBE" "$PWD/out" "${*:2}" \
	    >"$1/deploy"
	chmod 755 "$1/deploy"
}

# The lines of the step, as the service hands them to its runner.
gitlab_script() {
	sed -n '/^  script:$/,/^  [^ ]/s/^    - //p' \
	    "$srcdir/contrib/ci/gitlab-ci.yml"
}

github_script() {
	sed -n '/^        run: |$/,$s/^          //p' \
	    "$srcdir/contrib/ci/github-workflow.yml"
}

jenkins_script() {
	sed -n "/sh '''/,/'''/{/'''/d;s/^ *//p}" "$srcdir/contrib/ci/Jenkinsfile"
}

buildkite_script() {
	sed -n 's/^    command: //p' "$srcdir/contrib/ci/buildkite-pipeline.yml"
}

# step SERVICE FOLDER: a runner works there; its step is $step.
step() {
	"${1}_script" >"$1.sh"
	[ "$(grep -c '^exec leaserun run' "$1.sh")" -eq 1 ]
	case $1 in
	gitlab)
		bg setsid env -C "$2" bash -c \
		    ': | eval "set -eo pipefail; $(cat "$1")"' bash \
		    "$PWD/$1.sh"
		;;
	github) bg env -C "$2" bash --noprofile --norc -eo pipefail \
	    "$PWD/$1.sh" ;;
	jenkins) bg env -C "$2" JENKINS_NODE_COOKIE="$PWD/$2" sh -xe \
	    "$PWD/$1.sh" ;;
	buildkite) bg setsid env -C "$2" bash -ec "$(cat "$1.sh")" ;;
	esac 2>"$2/err"
	step=$!
}

# The processes below one, and itself.
tree_of() {
	local child

	echo "$1"
	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		tree_of "$child"
	done
}

with_cookie() {
	grep -lzxF "JENKINS_NODE_COOKIE=$PWD/one" /proc/[0-9]*/environ \
	    2>/dev/null | grep -o '[0-9]*'
}

# cancel SERVICE HOW: politely, or for good.
cancel() {
	local signal=TERM
	local -a pids

	[ "$2" = politely ] || signal=KILL
	case $1 in
	gitlab | buildkite) kill -s $signal -- "-$step" ;;
	github)
		if [ $signal = TERM ]; then
			kill -s INT "$step"
			kill -s TERM "$step"
		else
			mapfile -t pids < <(tree_of "$step")
			kill -s KILL "${pids[@]}"
		fi
		;;
	jenkins)
		mapfile -t pids < <(with_cookie)
		kill -s $signal "${pids[@]}"
		;;
	esac
}

# The deployment has been told to end, and goes on.
noticed() {
	[ "$(lines term)" -ge 1 ]
}

# plays SERVICE: two runners, of which the first is cancelled twice.
plays() {
	local first

	step "$1" one
	first=$step
	wait_until 30 ticking 4
	step "$1" two
	wait_until 30 grep -q "held by" two/err
	step=$first
	cancel "$1" politely
	wait_until 20 noticed
	cancel "$1" for-good
	wait_until 60 ran_twice
	wait_until 30 grep -q '^end' out
	assert_order 2
	job_gone "$(token 1)"
	wait_until 20 all_gone
}

ran_twice() {
	[ "$(lines start)" -ge 2 ]
}

# ends_by_itself SERVICE: a deployment that obeys, and whose step is over then.
ends_by_itself() {
	deployment one cleanup=100
	step "$1" one
	wait_until 30 ticking 1
	cancel "$1" politely
	wait_until 30 is_gone "$step"
	wait_until 20 all_gone
	assert_equal "$(lines end)" 1
	step "$1" two
	assert_ends 0 "$step"
	assert_order 2
}

@test "GitLab CI: a deployment that is cancelled is gone before the next one" {
	plays gitlab
}

@test "GitLab CI: a deployment that obeys ends by itself" {
	ends_by_itself gitlab
}

@test "GitHub Actions: a deployment that is cancelled is gone before the next one" {
	plays github
}

@test "GitHub Actions: a deployment that obeys ends by itself" {
	cancel() {
		kill -s TERM "$step"
	}
	ends_by_itself github
}

@test "Jenkins: a deployment that is cancelled is gone before the next one" {
	plays jenkins
}

@test "Jenkins: a deployment that obeys ends by itself" {
	ends_by_itself jenkins
}

@test "Buildkite: a deployment that is cancelled is gone before the next one" {
	plays buildkite
}

@test "Buildkite: a deployment that obeys ends by itself" {
	ends_by_itself buildkite
}
