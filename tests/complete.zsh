# What zsh offers for a line: complete.zsh FOLDER LINE.  FOLDER has _leaserun.
# A terminal of its own is needed for that, and a key that is pressed in it.
zmodload zsh/zpty

export offered=$PWD/offered folder=$1
cat >begin.zsh <<'END'
fpath=($folder $fpath)
autoload -Uz compinit
compinit -u -d $PWD/zcompdump
# What is added for good, not what is looked at.
compadd() {
	local -a found
	if (( ! $argv[(I)-[OAD]] )); then
		builtin compadd -O found "$@"
		print -rl -- $found >>$offered
	fi
	builtin compadd "$@"
}
finish() {
	print -r -- --end-- >>$offered
}
comppostfuncs=(finish)
bindkey '^I' complete-word
LISTMAX=10000
print -r -- --begin-- >>$offered
END

: >$offered
zpty -b shell env PS1= zsh -f -i
zpty -w shell ". $PWD/begin.zsh"
for mark in begin end; do
	[[ $mark == begin ]] || zpty -w -n shell "$2"$'\t'
	for ((i = 0; i < 1500; i++)); do
		grep -qxF -e "--$mark--" $offered && break
		# Output that nobody reads would stop it.
		while zpty -r -t shell line; do :; done
		sleep 0.02
	done
done
zpty -d shell
grep -xF -e --end-- $offered >/dev/null || exit 1
grep -vxE -e '|--(begin|end)--' $offered | sort -u
